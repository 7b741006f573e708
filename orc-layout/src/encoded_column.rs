//! [`EncodedColumn`], a column of a stripe as stored, for a device that decodes it: streams, their chunks, and each row
//! group's entry points. The device's values must equal those of [`ColumnReader`](crate::decode::ColumnReader).

use crate::calendar::FIRST_GREGORIAN_DAY;
use crate::codec::Codec;
use crate::decode::Clock;
use crate::encoded_chunk::{EncodedChunks, first_chunk, is_for_devices};
use crate::index::ColumnIndex;
use crate::positions::{Coding, ColumnPositions, StreamPosition};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::schema::{ColumnId, TypeKind};
use crate::source::ByteSource;
use crate::statistics::TypedStatistics;
use crate::streams::Stream;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// A column of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedColumn {
    /// Type and coding of the values.
    pub values: EncodedValues,
    /// Rows of a row group; the last group has the rest. All rows of the stripe if there are no entry points.
    pub group_rows: u64,
    /// PRESENT; `None`: every row has a value.
    pub present: Option<EncodedStream>,
    /// DATA.
    pub data: EncodedStream,
    /// SECONDARY, of timestamps and decimals.
    pub secondary: Option<EncodedStream>,
}

/// Type and coding of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EncodedValues {
    /// FLOAT, DOUBLE: raw.
    Floats,
    /// BOOLEAN: bits in byte runs.
    Booleans,
    /// BYTE: byte runs.
    Bytes,
    /// SHORT, INT, LONG, DATE: signed integer runs.
    Integers(RunLength),
    /// Strings by dictionary: unsigned integer runs of indexes. The number is the dictionary's entries.
    Dictionary(RunLength, u32),
    /// TIMESTAMP, TIMESTAMP_INSTANT: signed runs of seconds, unsigned ones of scaled nanoseconds.
    Timestamps(RunLength, Clock),
    /// DECIMAL of this scale: unbounded signed varints, and the scale of each in signed integer runs.
    Decimals(RunLength, i8),
}

/// Version of integer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// Encodings DIRECT and DICTIONARY.
    V1,
    /// Encodings DIRECT_V2 and DICTIONARY_V2.
    V2,
}

/// A stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedStream {
    /// Absolute offset of its first byte.
    pub offset: u64,
    /// Bytes of the stream, decompressed.
    pub length: u64,
    /// Entry points by row group.
    pub entries: Vec<EncodedEntry>,
    /// The chunks of a compressed stream; `None`: the bytes lie in the file as they are.
    pub chunks: Option<EncodedChunks>,
}

/// Position of a row group in a stream, from the decompressed stream's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodedEntry {
    /// Start of a run (raw values: of the first value).
    pub at: u64,
    /// Values (bits, bytes) of that run which belong to the previous group.
    pub skip: u32,
    /// Offset at or beyond the end of everything in the group.
    pub end: u64,
}

/// Whether `column` may have an encoded form, as far as the footer tells.
pub fn may_be_encoded(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let Some(encoding) = stripe.encodings.get(column as usize) else {
        return false;
    };
    let dictionary = matches!(encoding.kind, Encoding::Dictionary | Encoding::DictionaryV2);
    let decodable = match tail.schema.column(column).kind {
        TypeKind::Boolean | TypeKind::Byte | TypeKind::Short | TypeKind::Int | TypeKind::Long => true,
        TypeKind::Float | TypeKind::Double | TypeKind::Date => true,
        TypeKind::Timestamp | TypeKind::TimestampInstant => true,
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. } => dictionary,
        // Version 1.9999 of the format stores integers at the column's scale, without a scale of each.
        TypeKind::Decimal { .. } => stripe.stream(column, Kind::Secondary).is_some(),
        TypeKind::Binary => false,
        TypeKind::Struct | TypeKind::List | TypeKind::Map | TypeKind::Union | TypeKind::Unknown { .. } => false,
    };
    decodable
        && !(tail.is_hybrid_calendar && may_be_julian(tail, stripe, column))
        && tail
            .compression
            .is_none_or(|compression| is_for_devices(compression.codec))
        && tail.schema.has_row_per_value(column)
        && tail.encrypted_columns.binary_search(&column).is_err()
        && stripe.unknown_encoding(tail, column).is_none()
}

/// Whether days or seconds of the column may be before 1582-10-15, which a device does not convert.
fn may_be_julian(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let statistics = tail.stripe_statistics.get(stripe.info.index);
    let statistics = statistics.and_then(|columns| columns.get(column as usize)?.typed.as_ref());
    match (tail.schema.column(column).kind, statistics) {
        (TypeKind::Date, Some(TypedStatistics::Date { min, .. })) => i64::from(*min) < FIRST_GREGORIAN_DAY,
        (TypeKind::Timestamp | TypeKind::TimestampInstant, Some(TypedStatistics::Timestamp { min, .. })) => {
            *min < i128::from(FIRST_GREGORIAN_DAY) * 86_400_000_000_000
        }
        (TypeKind::Date | TypeKind::Timestamp | TypeKind::TimestampInstant, _) => true,
        _ => false,
    }
}

/// Chunks of a column whose values lie raw in them, none missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawChunks {
    /// Decompressed bytes of the first chunk. Writers make all chunks but the last one of this length.
    pub bytes: u64,
    /// The first chunk is the only one.
    pub is_alone: bool,
}

impl RawChunks {
    /// The chunks of a FLOAT or DOUBLE column of a compressed file, in a stripe without NULLs of it. `None`: the column
    /// is stored in another way, or its first chunk makes no sense.
    pub fn of(tail: &FileTail, stripe: &StripeLayout, column: ColumnId, source: &dyn ByteSource) -> Option<Self> {
        let is_float = matches!(tail.schema.column(column).kind, TypeKind::Float | TypeKind::Double);
        let present = stripe.stream(column, Kind::Present);
        let has_nulls = present.is_some_and(|stream| stream.length > 0);
        if !is_float || has_nulls || !may_be_encoded(tail, stripe, column) {
            return None;
        }
        let data = stripe.stream(column, Kind::Data)?;
        let (bytes, has_others) = first_chunk(data, tail.compression?, source)?;
        Some(Self {
            bytes,
            is_alone: !has_others,
        })
    }
}

impl EncodedColumn {
    /// All streams: PRESENT, DATA, SECONDARY.
    pub fn streams(&self) -> impl Iterator<Item = &EncodedStream> {
        self.present
            .iter()
            .chain(std::iter::once(&self.data))
            .chain(&self.secondary)
    }

    /// Codec of the streams; `None`: they are not compressed.
    pub fn codec(&self) -> Option<Codec> {
        self.streams().find_map(|stream| Some(stream.chunks.as_ref()?.codec))
    }

    /// The encoded form of `column`, or `None` if the column is stored in another way. Without a row index that leads
    /// into its streams, all rows are one group. In a compressed file the header of each chunk is read.
    pub fn of(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        index: Option<&ColumnIndex>,
        source: &dyn ByteSource,
    ) -> Option<Self> {
        if !may_be_encoded(tail, stripe, column) || stripe.info.rows == 0 {
            return None;
        }
        let encoding = stripe.encodings[column as usize];
        let runs = match encoding.kind {
            Encoding::Direct | Encoding::Dictionary => RunLength::V1,
            Encoding::DirectV2 | Encoding::DictionaryV2 => RunLength::V2,
        };
        let values = match tail.schema.column(column).kind {
            TypeKind::Float | TypeKind::Double => EncodedValues::Floats,
            TypeKind::Boolean => EncodedValues::Booleans,
            TypeKind::Byte => EncodedValues::Bytes,
            TypeKind::Timestamp => EncodedValues::Timestamps(runs, Clock::of(stripe, false)?),
            TypeKind::TimestampInstant => EncodedValues::Timestamps(runs, Clock::of(stripe, true)?),
            TypeKind::Decimal { scale, .. } => EncodedValues::Decimals(runs, scale),
            kind if kind.is_string() => EncodedValues::Dictionary(runs, encoding.dictionary_size),
            _ => EncodedValues::Integers(runs),
        };
        let positions = match index {
            Some(index) => ColumnPositions::of(tail, stripe, column, &index.positions).ok()?,
            None => None,
        };
        // Outer `None`: there is a stream, and it cannot be used.
        let stream = |kind: Kind| {
            let Some(stream) = stripe.stream(column, kind).filter(|stream| stream.length > 0) else {
                return Some(None);
            };
            let chunks = match tail.compression {
                Some(compression) => Some(EncodedChunks::of(stream, compression, source)?),
                None => None,
            };
            encoded(stream, chunks, positions.as_ref()).map(Some)
        };
        let stride = tail.row_group_stride(&stripe.info).filter(|_| positions.is_some());
        let has_secondary = matches!(values, EncodedValues::Timestamps(..) | EncodedValues::Decimals(..));
        Some(Self {
            values,
            group_rows: stride.map_or(stripe.info.rows, u64::from),
            present: stream(Kind::Present)?,
            data: stream(Kind::Data)??,
            secondary: if has_secondary {
                Some(stream(Kind::Secondary)??)
            } else {
                None
            },
        })
    }
}

/// A stream with its entry points; `None` if a position leaves its chunk.
fn encoded(
    stream: &Stream,
    chunks: Option<EncodedChunks>,
    positions: Option<&ColumnPositions>,
) -> Option<EncodedStream> {
    let length = chunks.as_ref().map_or(stream.length, |chunks| chunks.bytes);
    let offset_of = |at: &StreamPosition| match &chunks {
        Some(chunks) => chunks.offset_of(stream, at.offset, at.byte_in_chunk),
        None => Some(at.offset),
    };
    let whole = EncodedEntry {
        at: 0,
        skip: 0,
        end: length,
    };
    let entry = |positions: &ColumnPositions, group: usize| {
        let coding = positions.coding(stream.kind);
        let start = positions.at(group, stream.kind).unwrap_or_default();
        let at = offset_of(&start)?;
        let end = match positions.at(group + 1, stream.kind) {
            Some(next) => {
                let shared = coding.map_or(0, |coding| next.shared_bytes(coding));
                offset_of(&next)?.saturating_add(shared).min(length)
            }
            None => length,
        };
        Some(EncodedEntry {
            at,
            // For bits: whole bytes and then single bits. `ColumnPositions` limits them to 130 and 8.
            skip: match coding {
                Some(Coding::BitRuns) => start.values_to_skip as u32 * 8 + start.bits_to_skip,
                _ => start.values_to_skip as u32,
            },
            end: end.max(at),
        })
    };
    let entries = match positions {
        None => Some(vec![whole]),
        Some(positions) => (0..positions.row_groups())
            .map(|group| entry(positions, group))
            .collect(),
    };
    Some(EncodedStream {
        offset: stream.offset,
        length,
        entries: entries?,
        chunks,
    })
}
