//! Columns of ORC stripes in encoded form, in the types of [`grampus_gpu_exec::input::encoded_column`].
//!
//! The footer and the row index of a stripe give all that the GPU needs to decode a column.

use std::sync::Arc;

use grampus_gpu_exec::input::chunk_list::{Chunk, ChunkList, Codec as DeviceCodec};
use grampus_gpu_exec::input::encoded_column::{
    Change, Clock, EncodedColumn, EncodedStream, Entry, MAX_DICTIONARY_CODES, MAX_GROUP_ROWS, MAX_ZONE_CHANGES, Runs,
    Values,
};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::encoded_chunk::{EncodedChunk, EncodedChunks};
use grampus_orc_layout::encoded_column::{
    EncodedColumn as OrcColumn, EncodedStream as OrcStream, EncodedValues, RunLength, may_be_encoded,
};
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;

/// Rows of a row group of a stripe, at least one.
pub(super) fn group_rows(tail: &FileTail, stripe: &StripeLayout) -> u64 {
    let stride = tail.row_group_stride(&stripe.info);
    stride.map_or(stripe.info.rows, u64::from).max(1)
}

/// True if the GPU can probably decode a column of a stripe. The row index, which this does not read, may exclude it.
pub(super) fn on_device(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let group_rows = group_rows(tail, stripe);
    let entries = stripe.encodings.get(column as usize).map_or(0, |e| e.dictionary_size);
    may_be_encoded(tail, stripe, column) && group_rows <= MAX_GROUP_ROWS && entries <= MAX_DICTIONARY_CODES
}

/// The column for the GPU; `None` if its time zone has more changes of its offset than the GPU takes, or if the GPU
/// does not know its codec.
pub(super) fn encoded(column: OrcColumn) -> Option<EncodedColumn> {
    let optional = |stream: Option<OrcStream>| match stream {
        Some(stream) => stored(stream).map(Some),
        None => Some(None),
    };
    Some(EncodedColumn {
        values: values(column.values)?,
        group_rows: column.group_rows,
        present: optional(column.present)?,
        data: stored(column.data)?,
        secondary: optional(column.secondary)?,
    })
}

fn values(values: EncodedValues) -> Option<Values> {
    Some(match values {
        EncodedValues::Floats => Values::Raw,
        EncodedValues::Booleans => Values::Booleans,
        EncodedValues::Bytes => Values::Bytes,
        EncodedValues::Integers(version) => Values::Integers(runs(version)),
        EncodedValues::Dictionary(version, entries) => Values::Codes(runs(version), entries),
        EncodedValues::Timestamps(version, clock) => {
            let changes = clock.changes.as_deref().map(|changes| {
                let change = changes.iter().map(|change| Change {
                    from: change.from,
                    offset: change.offset,
                });
                change.collect::<Arc<[Change]>>()
            });
            if changes.as_ref().is_some_and(|changes| changes.len() > MAX_ZONE_CHANGES) {
                return None;
            }
            let clock = Clock {
                epoch: clock.epoch,
                zone: changes,
            };
            Values::Timestamps(runs(version), clock)
        }
        EncodedValues::Decimals(version, scale) => Values::Decimals(runs(version), scale),
    })
}

fn runs(version: RunLength) -> Runs {
    match version {
        RunLength::V1 => Runs::V1,
        RunLength::V2 => Runs::V2,
    }
}

fn stored(stream: OrcStream) -> Option<EncodedStream> {
    let entry = |entry: &grampus_orc_layout::encoded_column::EncodedEntry| Entry {
        at: entry.at,
        skip: entry.skip,
        end: entry.end,
    };
    let chunks = match stream.chunks {
        Some(chunks) => Some(chunk_list(&chunks)?),
        None => None,
    };
    Some(EncodedStream {
        offset: stream.offset,
        bytes: stream.length,
        entries: stream.entries.iter().map(entry).collect(),
        chunks,
    })
}

/// The device's name of a codec; `None`: no device decompresses it.
pub(super) fn device_codec(codec: Codec) -> Option<DeviceCodec> {
    match codec {
        Codec::Snappy => Some(DeviceCodec::Snappy),
        Codec::Lz4 => Some(DeviceCodec::Lz4),
        Codec::Zstd => Some(DeviceCodec::Zstd),
        Codec::Zlib => Some(DeviceCodec::Deflate),
        _ => None,
    }
}

fn chunk_list(chunks: &EncodedChunks) -> Option<ChunkList> {
    let chunk = |chunk: &EncodedChunk| Chunk {
        offset: chunk.offset,
        length: chunk.length,
        original: chunk.original,
        start: chunk.start,
    };
    Some(ChunkList {
        codec: device_codec(chunks.codec)?,
        chunks: chunks.chunks.iter().map(chunk).collect(),
    })
}

#[cfg(test)]
#[path = "encoded_columns_tests.rs"]
mod tests;
