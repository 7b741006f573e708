//! The end of the file: metadata (stripe statistics), footer and postscript, from [`FileContents`].

use prost::Message;

use super::statistics::Statistics;
use super::stream::{Storage, capacity_bytes, encode_section};
use super::writer_properties::WriterProperties;
use crate::codec::Codec;
use crate::error::{LayoutError, Result};
use crate::proto::{self, CalendarKind, CompressionKind};
use crate::statistics::writer;

/// First bytes of every file, and the last field of the postscript.
pub(super) const MAGIC: &str = "ORC";

/// Version of the file format: 0.12.
const FORMAT_VERSION: [u32; 2] = [0, 12];

/// The first version of a writer other than the Java one. Readers conclude from it that timestamp statistics are in
/// UTC.
const WRITER_VERSION: u32 = 6;

/// Stripes and statistics for the tail.
#[derive(Debug)]
pub(super) struct FileContents {
    stripes: Vec<proto::StripeInformation>,
    /// The statistics of the stripes, as the metadata section has them: many times smaller than the messages.
    metadata: Vec<u8>,
    /// What the columns have, in the order of their ids.
    columns: Vec<ColumnContents>,
    pub(super) rows: u64,
    /// Bytes before the tail.
    pub(super) length: u64,
}

/// Statistics of a column's values, and the bytes of its streams on disk.
#[derive(Debug)]
pub(super) struct ColumnContents {
    pub(super) statistics: Statistics,
    pub(super) bytes: u64,
}

impl ColumnContents {
    fn to_proto(&self) -> proto::ColumnStatistics {
        proto::ColumnStatistics {
            bytes_on_disk: Some(self.bytes),
            ..self.statistics.to_proto()
        }
    }
}

impl FileContents {
    /// A file that has the magic bytes alone.
    pub(super) fn new(columns: Vec<ColumnContents>) -> Self {
        Self {
            stripes: Vec::new(),
            metadata: Vec::new(),
            columns,
            rows: 0,
            length: MAGIC.len() as u64,
        }
    }

    /// Adds a stripe of `length` bytes, with padding in front of it.
    pub(super) fn push(&mut self, information: proto::StripeInformation, length: u64, columns: &[ColumnContents]) {
        self.rows += information.number_of_rows();
        self.length += length;
        self.stripes.push(information);
        let stripe = proto::StripeStatistics {
            col_stats: columns.iter().map(ColumnContents::to_proto).collect(),
        };
        // The encodings of a list's parts, one behind the other, are the encoding of the list.
        let metadata = proto::Metadata {
            stripe_stats: vec![stripe],
        };
        self.metadata.extend(metadata.encode_to_vec());
        for (file, stripe) in self.columns.iter_mut().zip(columns) {
            file.statistics.merge(&stripe.statistics);
            file.bytes += stripe.bytes;
        }
    }

    /// Frees what waits for more stripes.
    pub(super) fn shrink(&mut self) {
        self.stripes.shrink_to_fit();
        self.metadata.shrink_to_fit();
    }

    /// Bytes held in memory.
    pub(super) fn memory_size(&self) -> usize {
        let bounds: usize = self.columns.iter().map(|column| column.statistics.heap_bytes()).sum();
        capacity_bytes(&self.stripes) + self.metadata.capacity() + capacity_bytes(&self.columns) + bounds
    }
}

/// The bytes of the tail.
pub(super) fn encode(
    options: &WriterProperties,
    storage: Storage,
    contents: &FileContents,
    types: Vec<proto::Type>,
) -> Result<Vec<u8>> {
    let mut out = encode_section(storage, &contents.metadata)?;
    let metadata_length = out.len() as u64;
    let item = |(name, value): &(String, Vec<u8>)| proto::UserMetadataItem {
        name: Some(name.clone()),
        value: Some(value.clone()),
    };
    let footer = proto::Footer {
        header_length: Some(MAGIC.len() as u64),
        content_length: Some(contents.length),
        stripes: contents.stripes.clone(),
        types,
        metadata: options.user_metadata.iter().map(item).collect(),
        number_of_rows: Some(contents.rows),
        statistics: contents.columns.iter().map(ColumnContents::to_proto).collect(),
        row_index_stride: Some(options.row_index_stride),
        writer: Some(writer::UNREGISTERED),
        encryption: None,
        calendar: Some(CalendarKind::ProlepticGregorian.into()),
        software_version: Some(concat!("grampus ", env!("CARGO_PKG_VERSION")).into()),
    };
    out.extend(encode_section(storage, &footer.encode_to_vec())?);
    let footer_length = out.len() as u64 - metadata_length;
    append_postscript(options, footer_length, metadata_length, &mut out)?;
    Ok(out)
}

/// The postscript is never compressed; its own length is the file's last byte.
fn append_postscript(options: &WriterProperties, footer: u64, metadata: u64, out: &mut Vec<u8>) -> Result<()> {
    let compression = match options.codec {
        None => CompressionKind::None,
        Some(Codec::Zlib) => CompressionKind::Zlib,
        Some(Codec::Snappy) => CompressionKind::Snappy,
        Some(Codec::Lzo) => CompressionKind::Lzo,
        Some(Codec::Lz4) => CompressionKind::Lz4,
        Some(Codec::Zstd) => CompressionKind::Zstd,
    };
    let postscript = proto::PostScript {
        footer_length: Some(footer),
        compression: Some(compression.into()),
        compression_block_size: options.codec.map(|_| options.chunk_size_bytes as u64),
        version: FORMAT_VERSION.into(),
        metadata_length: Some(metadata),
        writer_version: Some(WRITER_VERSION),
        stripe_statistics_length: None,
        magic: Some(MAGIC.into()),
    };
    let postscript = postscript.encode_to_vec();
    let length = u8::try_from(postscript.len()).map_err(|_| LayoutError::Write("the postscript is too long".into()))?;
    out.extend_from_slice(&postscript);
    out.push(length);
    Ok(())
}
