//! [`FileReport`], all metadata of a file: a serializable tree for programs, tables for people (`{}` short and `{:#}`
//! in full). Reads no values, only metadata and chunk headers.
//!
//! - `chunks`: compression chunks of a stream
//! - `values`: statistics as numbers and text
//! - `text`: the tables

mod chunks;
mod text;
mod values;

use std::fmt;

use serde::Serialize;

use crate::access::Access;
use crate::error::{LayoutError, Result};
use crate::index::ColumnIndex;
use crate::metadata_reader;
use crate::positions::ColumnPositions;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;
use crate::source::ByteSource;
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;
use crate::writer_zone::WriterZone;

pub use chunks::ChunkReport;
use text::ReportText;
pub use values::{StatisticsReport, ValueReport};

/// Extent of a report. The default is everything.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Read row indexes: entry points, statistics by row group, bloom filters.
    pub row_groups: bool,
    /// Walk the chunk headers of compressed streams: one small read for each chunk.
    pub chunks: bool,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            row_groups: true,
            chunks: true,
        }
    }
}

/// Everything about a file. Offsets are absolute.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in `FileTail`
pub struct FileReport {
    pub file: String,
    pub file_length: u64,
    pub rows: u64,
    pub format_version: String,
    pub writer: String,
    pub writer_version: u32,
    /// `None` if streams are not compressed.
    pub compression: Option<CompressionReport>,
    pub row_index_stride: Option<u32>,
    pub tail_length: u64,
    /// The schema in Hive's notation.
    pub schema: String,
    pub user_metadata: Vec<UserMetadataReport>,
    /// Columns by column id.
    pub columns: Vec<ColumnReport>,
    pub stripes: Vec<StripeReport>,
    /// Structures that could not be read, with their places: the rest of the report is valid.
    pub problems: Vec<String>,
}

/// Codec and block size.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct CompressionReport {
    pub codec: String,
    pub block_size_bytes: u64,
}

/// One entry of the user metadata.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct UserMetadataReport {
    pub name: String,
    pub length: u64,
    /// The value as text; `None` if it is not UTF-8.
    pub text: Option<String>,
}

/// One column over the whole file.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct ColumnReport {
    pub id: ColumnId,
    /// Dotted name; empty for the root.
    pub name: String,
    /// Without its children.
    #[serde(rename = "type")]
    pub kind: String,
    pub children: Vec<ColumnId>,
    pub encrypted: bool,
    /// Bytes of its data streams (not of its children's), as stored.
    pub data_bytes: u64,
    /// Bytes of its index streams.
    pub index_bytes: u64,
    /// Encodings of the column in its stripes.
    pub encodings: Vec<String>,
    /// Number of stripes in which the column is direct.
    pub direct_stripes: usize,
    pub statistics: Option<StatisticsReport>,
}

/// One stripe.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct StripeReport {
    pub index: usize,
    pub offset: u64,
    pub index_length: u64,
    pub data_length: u64,
    pub footer_length: u64,
    pub first_row: u64,
    pub rows: u64,
    pub row_groups: usize,
    pub writer_timezone: String,
    /// Columns by column id; empty if the footer could not be read.
    pub columns: Vec<StripeColumnReport>,
}

/// One column of one stripe.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct StripeColumnReport {
    pub id: ColumnId,
    pub name: String,
    pub encoding: String,
    /// 0 unless the encoding is a dictionary.
    pub dictionary_size: u32,
    pub access: AccessReport,
    pub streams: Vec<StreamReport>,
    pub statistics: Option<StatisticsReport>,
    /// Empty without a row index.
    pub row_groups: Vec<RowGroupReport>,
    pub bloom_filters: Option<BloomReport>,
}

/// Access to the column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AccessReport {
    /// Segments of raw values: row i of a segment is at its offset + width * i.
    Direct {
        /// Bytes per value.
        width: u32,
        /// Runs of consecutive values.
        segments: usize,
        /// Offset of the first value.
        offset: u64,
        /// Largest power of two, up to 4096, that divides every segment's offset.
        alignment: u64,
    },
    /// Decoded from the start of a row group.
    DecodeFromRowGroup,
    /// Decoded from the start of the stripe.
    DecodeFromStripe,
    /// Encrypted: not at all.
    Encrypted,
    /// The column's metadata is corrupt, or its type or encoding unknown: see the problems.
    Unreadable,
}

/// One stream of a column.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct StreamReport {
    pub kind: String,
    pub offset: u64,
    pub length: u64,
    /// `None` without compression, or if chunks were not requested.
    pub chunks: Option<ChunkReport>,
}

/// One row group of a column.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct RowGroupReport {
    /// Stripe-relative.
    pub first_row: u64,
    pub rows: u64,
    /// Entry points, one per stream with positions.
    pub entry_points: Vec<EntryPoint>,
    pub statistics: StatisticsReport,
}

/// Start of a row group in a stream.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)] // as in `StreamPosition`
pub struct EntryPoint {
    pub stream: String,
    /// Offset of the chunk's header in a compressed file, of a byte otherwise.
    pub offset: u64,
    pub byte_in_chunk: u64,
    pub values_to_skip: u64,
    pub bits_to_skip: u32,
}

/// Bloom filters of a column in a stripe.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct BloomReport {
    /// Number of usable filters, one per row group; 0 if the stored ones cannot be trusted.
    pub usable: usize,
    pub hash_functions: u32,
    /// Bits of one filter.
    pub bits: usize,
}

impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ReportText { report: self }.fmt(f)
    }
}

impl FileReport {
    /// Reads and reports the metadata that `options` selects. A corrupt structure becomes one of
    /// [`problems`](Self::problems).
    ///
    /// # Errors
    /// `Io` from the source.
    pub fn build(tail: &FileTail, source: &dyn ByteSource, options: &ReportOptions) -> Result<Self> {
        let mut builder = Builder {
            tail,
            source,
            options,
            problems: vec![],
            names: (0..tail.schema.types.len() as ColumnId)
                .map(|id| tail.schema.path(id))
                .collect(),
        };
        let mut columns = builder.columns();
        let mut stripes = Vec::with_capacity(tail.stripes.len());
        for index in 0..tail.stripes.len() {
            let stripe = builder.stripe(index)?;
            for (total, column) in columns.iter_mut().zip(&stripe.columns) {
                total.add(column);
            }
            stripes.push(stripe);
        }
        Ok(Self {
            file: tail.file.to_string(),
            file_length: tail.file_length,
            rows: tail.rows,
            format_version: tail.format_version.clone(),
            writer: tail.writer.clone(),
            writer_version: tail.writer_version,
            compression: tail.compression.map(|compression| CompressionReport {
                codec: format!("{:?}", compression.codec).to_lowercase(),
                block_size_bytes: compression.block_size_bytes,
            }),
            row_index_stride: tail.row_index_stride,
            tail_length: tail.tail_length,
            schema: tail.schema.type_text(0),
            user_metadata: tail.user_metadata.iter().map(user_metadata).collect(),
            columns,
            stripes,
            problems: builder.problems,
        })
    }
}

fn user_metadata((name, value): &(String, Vec<u8>)) -> UserMetadataReport {
    UserMetadataReport {
        name: name.clone(),
        length: value.len() as u64,
        text: std::str::from_utf8(value).ok().map(str::to_owned),
    }
}

impl ColumnReport {
    /// Adds one stripe's part.
    fn add(&mut self, stripe: &StripeColumnReport) {
        for stream in &stripe.streams {
            match is_index(&stream.kind) {
                true => self.index_bytes += stream.length,
                false => self.data_bytes += stream.length,
            }
        }
        if !self.encodings.contains(&stripe.encoding) {
            self.encodings.push(stripe.encoding.clone());
        }
        self.direct_stripes += usize::from(matches!(stripe.access, AccessReport::Direct { .. }));
    }
}

fn is_index(kind: &str) -> bool {
    [Kind::RowIndex, Kind::BloomFilter, Kind::BloomFilterUtf8]
        .iter()
        .any(|index| index.as_str_name() == kind)
}

struct Builder<'a> {
    tail: &'a FileTail,
    source: &'a dyn ByteSource,
    options: &'a ReportOptions,
    problems: Vec<String>,
    /// Dotted names by column id.
    names: Vec<String>,
}

impl Builder<'_> {
    /// The value; `None` and a problem for a corrupt structure; an error for failed reads.
    fn noted<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ LayoutError::Io { .. }) => Err(error),
            Err(error) => {
                self.problems.push(error.to_string());
                Ok(None)
            }
        }
    }

    fn columns(&self) -> Vec<ColumnReport> {
        let columns = self.tail.schema.types.iter().zip(&self.names);
        columns
            .map(|(column, name)| ColumnReport {
                id: column.id,
                name: name.clone(),
                kind: column.kind.to_string(),
                children: column.children.clone(),
                encrypted: self.tail.encrypted_columns.binary_search(&column.id).is_ok(),
                data_bytes: 0,
                index_bytes: 0,
                encodings: vec![],
                direct_stripes: 0,
                statistics: self
                    .tail
                    .file_statistics
                    .get(column.id as usize)
                    .map(|statistics| StatisticsReport::new(statistics, column.kind)),
            })
            .collect()
    }

    fn stripe(&mut self, index: usize) -> Result<StripeReport> {
        let info = &self.tail.stripes[index];
        let layout = metadata_reader::read_stripe(self.tail, self.source, index);
        let layout = self.noted(layout)?;
        let mut columns = Vec::new();
        if let Some(layout) = &layout {
            for column in 0..self.tail.schema.types.len() as ColumnId {
                columns.push(self.column(layout, column)?);
            }
        }
        let zone = layout.as_ref().map(|layout| layout.writer_timezone.to_string());
        Ok(StripeReport {
            index,
            offset: info.offset,
            index_length: info.index_length,
            data_length: info.data_length,
            footer_length: info.footer_length,
            first_row: info.first_row,
            rows: info.rows,
            row_groups: layout.as_ref().map_or(0, |layout| layout.row_groups(self.tail)),
            writer_timezone: zone.unwrap_or_else(|| WriterZone::Utc.to_string()),
            columns,
        })
    }

    fn column(&mut self, stripe: &StripeLayout, column: ColumnId) -> Result<StripeColumnReport> {
        let tail = self.tail;
        let kind = tail.schema.column(column).kind;
        let index = match self.options.row_groups {
            true => {
                let index = metadata_reader::read_index(tail, stripe, self.source, column);
                self.noted(index)?
            }
            false => None,
        };
        let access = match tail.encrypted_columns.binary_search(&column) {
            Ok(_) => AccessReport::Encrypted,
            Err(_) => {
                let access = Access::of(tail, stripe, column, index.as_ref(), self.source, self.options.chunks);
                self.noted(access)?.map_or(AccessReport::Unreadable, AccessReport::from)
            }
        };
        let mut streams = Vec::new();
        for stream in stripe.streams.of_columns(column..=column) {
            streams.push(self.stream(stripe, stream)?);
        }
        let encoding = stripe.encodings[column as usize];
        Ok(StripeColumnReport {
            id: column,
            name: self.names[column as usize].clone(),
            encoding: encoding.kind.as_str_name().to_owned(),
            dictionary_size: encoding.dictionary_size,
            access,
            streams,
            statistics: tail
                .stripe_statistics
                .get(stripe.info.index)
                .and_then(|columns| columns.get(column as usize))
                .map(|statistics| StatisticsReport::new(statistics, kind)),
            row_groups: index
                .as_ref()
                .map_or(vec![], |index| row_groups(tail, stripe, column, index)),
            bloom_filters: index.as_ref().and_then(|index| bloom(stripe, column, index)),
        })
    }

    fn stream(&mut self, stripe: &StripeLayout, stream: &Stream) -> Result<StreamReport> {
        let chunks = match self.tail.compression {
            Some(_) if self.options.chunks && !matches!(stream.kind, Kind::EncryptedIndex | Kind::EncryptedData) => {
                let name = &self.names[stream.column as usize];
                let walked = chunks::walk(self.tail, stripe, stream, name, self.source);
                self.noted(walked)?
            }
            _ => None,
        };
        Ok(StreamReport {
            kind: stream.kind.as_str_name().to_owned(),
            offset: stream.offset,
            length: stream.length,
            chunks,
        })
    }
}

fn row_groups(tail: &FileTail, stripe: &StripeLayout, column: ColumnId, index: &ColumnIndex) -> Vec<RowGroupReport> {
    let positions = ColumnPositions::of(tail, stripe, column, &index.positions)
        .ok()
        .flatten();
    let kind = tail.schema.column(column).kind;
    let streams: Vec<&Stream> = stripe.streams.of_columns(column..=column).collect();
    let entry_points = |group: usize| -> Vec<EntryPoint> {
        let Some(positions) = &positions else { return vec![] };
        let at = |stream: &&Stream| {
            positions.at(group, stream.kind).map(|at| EntryPoint {
                stream: stream.kind.as_str_name().to_owned(),
                offset: stream.offset + at.offset,
                byte_in_chunk: at.byte_in_chunk,
                values_to_skip: at.values_to_skip,
                bits_to_skip: at.bits_to_skip,
            })
        };
        streams.iter().filter_map(at).collect()
    };
    let groups = index.statistics.iter().enumerate();
    groups
        .map(|(group, statistics)| {
            let rows = stripe.row_group_rows(tail, group);
            RowGroupReport {
                first_row: rows.start,
                rows: rows.end - rows.start,
                entry_points: entry_points(group),
                statistics: StatisticsReport::new(statistics, kind),
            }
        })
        .collect()
}

fn bloom(stripe: &StripeLayout, column: ColumnId, index: &ColumnIndex) -> Option<BloomReport> {
    let stored = stripe
        .stream(column, Kind::BloomFilterUtf8)
        .or(stripe.stream(column, Kind::BloomFilter));
    let first = index.bloom_filters.first();
    stored.map(|_| BloomReport {
        usable: index.bloom_filters.len(),
        hash_functions: first.map_or(0, |filter| filter.hash_functions()),
        bits: first.map_or(0, |filter| filter.words().len() * 64),
    })
}

impl From<Access> for AccessReport {
    fn from(access: Access) -> Self {
        match access {
            Access::Direct(direct) => {
                let all = direct.segments.iter().fold(4096, |bits, segment| bits | segment.offset);
                Self::Direct {
                    width: direct.width,
                    segments: direct.segments.len(),
                    offset: direct.segments.first().map_or(0, |segment| segment.offset),
                    alignment: 1 << all.trailing_zeros(),
                }
            }
            Access::Decode { seekable: true } => Self::DecodeFromRowGroup,
            Access::Decode { seekable: false } => Self::DecodeFromStripe,
        }
    }
}
