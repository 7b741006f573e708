//! [`FinishedStripe`]: index, data and footer, in this order. Single values of the direct columns can be fetched.
//!
//! Readers find a stream by adding up the lengths of the streams before it, so padding must belong to something:
//! - in front of the stripe, whose offset is stated: the first direct stream then starts aligned;
//! - at the end of a direct stream, for the next one: raw zero bytes, or in a compressed file an original chunk of
//!   zeros. Readers count values and never look beyond the last one.
//!
//! The direct streams therefore come first in the data section, one after the other, and all others follow unpadded.
//! pyarrow and pyorc (both ORC C++) and orc-rust read such files: `tests/peers.rs`, `tests/write_orc_rust.rs`. Empty
//! chunks between those with values would keep every chunk aligned, but ORC C++ then reads wrong values.

use std::io::{self, Write};

use prost::Message;

use super::column::{Column, FinishedStream};
use super::stream::{Storage, encode_section};
use super::writer_properties::CHUNK_ALIGNMENT_BYTES;
use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::error::Result;
use crate::proto::{self, stream::Kind};

/// Time zone of every stripe footer: timestamps are stored as they are. Readers of ORC C++ take this name for their own
/// zone and convert nothing.
const WRITER_TIMEZONE: &str = "GMT";

/// The bytes around the streams of a stripe, ready to be written.
pub(super) struct FinishedStripe {
    /// The stripe's position after padding, and its lengths.
    pub(super) information: proto::StripeInformation,
    /// Zero bytes in front of the stripe.
    pub(super) lead: u64,
    /// Bytes on disk of each column's streams, index and padding.
    pub(super) column_bytes: Vec<u64>,
    index: Vec<u8>,
    padding: Vec<Vec<u8>>,
    footer: Vec<u8>,
}

/// Assembles a finished stripe. `streams` are sorted into the order of writing.
pub(super) fn lay_out(
    offset: u64,
    rows: u64,
    index: Vec<(u32, Kind, Vec<u8>)>,
    encodings: Vec<proto::ColumnEncoding>,
    streams: &mut [FinishedStream<'_>],
    storage: Storage,
    alignment: u64,
) -> Result<FinishedStripe> {
    let mut column_bytes = vec![0; encodings.len()];
    let mut entries = Vec::with_capacity(index.len() + streams.len());
    let mut index_bytes = Vec::new();
    for (column, kind, bytes) in index {
        entries.push(entry(column, kind, bytes.len() as u64));
        column_bytes[column as usize] += bytes.len() as u64;
        index_bytes.extend_from_slice(&bytes);
    }
    // The sort is stable: within the two parts the streams stay in the order of columns.
    streams.sort_by_key(|stream| !stream.direct);
    let direct = streams.iter().take_while(|stream| stream.direct).count();

    let index_length = index_bytes.len() as u64;
    let lead = if direct > 0 {
        missing(storage, alignment, offset + index_length)
    } else {
        0
    };
    let start = offset + lead;
    let mut at = start + index_length;
    let mut padding = Vec::with_capacity(streams.len());
    for (place, stream) in streams.iter().enumerate() {
        let end = at + stream.stream.length();
        let pad = if place + 1 < direct {
            pad(storage, alignment, end)
        } else {
            Vec::new()
        };
        let length = stream.stream.length() + pad.len() as u64;
        entries.push(entry(stream.column, stream.kind, length));
        column_bytes[stream.column as usize] += length;
        padding.push(pad);
        at += length;
    }
    let footer = proto::StripeFooter {
        streams: entries,
        columns: encodings,
        writer_timezone: Some(WRITER_TIMEZONE.into()),
        encryption: vec![],
    };
    let footer = encode_section(storage, &footer.encode_to_vec())?;
    Ok(FinishedStripe {
        information: proto::StripeInformation {
            offset: Some(start),
            index_length: Some(index_length),
            data_length: Some(at - start - index_length),
            footer_length: Some(footer.len() as u64),
            number_of_rows: Some(rows),
            ..Default::default()
        },
        lead,
        column_bytes,
        index: index_bytes,
        padding,
        footer,
    })
}

impl FinishedStripe {
    /// Writes padding and stripe; returns the bytes written.
    pub(super) fn write_to(&self, streams: &[FinishedStream<'_>], sink: &mut impl Write) -> io::Result<u64> {
        write_zeros(sink, self.lead)?;
        sink.write_all(&self.index)?;
        for (stream, padding) in streams.iter().zip(&self.padding) {
            stream.stream.write_to(sink)?;
            sink.write_all(padding)?;
        }
        sink.write_all(&self.footer)?;
        let stripe = &self.information;
        Ok(self.lead + stripe.index_length() + stripe.data_length() + stripe.footer_length())
    }
}

/// The index section: for every column its row index, then its bloom filters.
pub(super) fn index_streams(root: &mut Column, storage: Storage) -> Result<Vec<(u32, Kind, Vec<u8>)>> {
    let mut messages = Vec::new();
    root.for_each_mut(&mut |column| {
        messages.push((column.id, Kind::RowIndex, column.row_index().encode_to_vec()));
        if let Some(filters) = column.bloom_filters() {
            messages.push((column.id, Kind::BloomFilterUtf8, filters.encode_to_vec()));
        }
    });
    let encode = |(column, kind, bytes): (u32, Kind, Vec<u8>)| Ok((column, kind, encode_section(storage, &bytes)?));
    messages.into_iter().map(encode).collect()
}

fn entry(column: u32, kind: Kind, length: u64) -> proto::Stream {
    proto::Stream {
        kind: Some(kind.into()),
        column: Some(column),
        length: Some(length),
    }
}

/// Bytes from `at` to the next possible start of a direct stream.
fn missing(storage: Storage, alignment: u64, at: u64) -> u64 {
    match storage {
        Storage::Raw => at.next_multiple_of(alignment) - at,
        Storage::Chunks { .. } => {
            let first_value = at + HEADER_BYTES as u64;
            first_value.next_multiple_of(alignment.min(CHUNK_ALIGNMENT_BYTES)) - first_value
        }
    }
}

/// Padding after a direct stream that ends at `end`, so that the next one starts aligned.
fn pad(storage: Storage, alignment: u64, end: u64) -> Vec<u8> {
    let mut missing = missing(storage, alignment, end) as usize;
    if missing == 0 || storage == Storage::Raw {
        return vec![0; missing];
    }
    // A chunk of padding has a header and at least one byte.
    while missing <= HEADER_BYTES {
        missing += alignment.min(CHUNK_ALIGNMENT_BYTES) as usize;
    }
    let header = ChunkHeader {
        length: (missing - HEADER_BYTES) as u32,
        original: true,
    };
    let mut chunk = header.to_bytes().to_vec();
    chunk.resize(missing, 0);
    chunk
}

fn write_zeros(sink: &mut impl Write, mut count: u64) -> io::Result<()> {
    const ZEROS: [u8; 4096] = [0; 4096];
    while count > 0 {
        let some = count.min(ZEROS.len() as u64);
        sink.write_all(&ZEROS[..some as usize])?;
        count -= some;
    }
    Ok(())
}
