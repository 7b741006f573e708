//! `EncodedColumn`: one stripe's streams of a column, with the places where a GPU can start to decode each row group,
//! and with the chunks of compressed streams.

use std::sync::Arc;

use super::chunk_list::{ChunkList, Codec};
use crate::program::Type;

/// Rows of a row group: one warp decodes a row group, in a few milliseconds.
pub const MAX_GROUP_ROWS: u64 = 1 << 18;
/// Entries of a dictionary: their codes are copied with each batch of the column.
pub const MAX_DICTIONARY_CODES: u32 = 1 << 16;
/// Changes of a zone's clock, which are copied with each batch of the column.
pub const MAX_ZONE_CHANGES: usize = 1 << 10;

/// A stripe's column.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedColumn {
    /// Encoding of the values.
    pub values: Values,
    /// Rows of a row group. The last one has the remainder.
    pub group_rows: u64,
    /// Rows that have a value, as bits in byte runs. `None`: all rows.
    pub present: Option<EncodedStream>,
    /// The values of those rows.
    pub data: EncodedStream,
    /// Nanoseconds of [`Values::Timestamps`], scales of [`Values::Decimals`].
    pub secondary: Option<EncodedStream>,
}

/// Encodings of values.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Raw, of their type's width.
    Raw,
    /// Bits in byte runs.
    Booleans,
    /// Byte runs.
    Bytes,
    /// Signed integers of their type's width.
    Integers(Runs),
    /// Indexes into a dictionary with this number of entries.
    /// [`Decode::dictionary_codes`](crate::input::Decode::dictionary_codes) returns a code for each entry.
    Codes(Runs, u32),
    /// Seconds by a clock, and nanoseconds without their trailing zeros.
    Timestamps(Runs, Clock),
    /// Unscaled decimals as signed varints, and the scale of each. The number is the scale of the decoded values.
    Decimals(Runs, i8),
}

/// Integer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Run-length encoding, version 1.
    V1,
    /// Version 2.
    V2,
}

/// Origin and zone of stored seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Seconds from 1970 to the stored second 0.
    pub epoch: i64,
    /// Offsets from UTC, ascending by time. The last entry only ends the table. `None`: the clock is UTC.
    pub zone: Option<Arc<[Change]>>,
}

/// A change of a zone's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// First second, since 1970, of this offset.
    pub from: i64,
    /// Seconds by which the clock is ahead of UTC.
    pub offset: i64,
}

/// A stream of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedStream {
    /// Offset of the stream in the file.
    pub offset: u64,
    /// Length of the stream, decompressed.
    pub bytes: u64,
    /// Start of each row group, in the decompressed stream.
    pub entries: Vec<Entry>,
    /// The chunks of a compressed stream. `None`: the bytes lie in the file as they are.
    pub chunks: Option<ChunkList>,
}

/// Place of a row group's values in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Byte of the stream at which a run begins.
    pub at: u64,
    /// Values (bits, bytes) of that run that belong to the previous group.
    pub skip: u32,
    /// Byte of the stream before which all of the group ends.
    pub end: u64,
}

impl EncodedColumn {
    /// Whether the decoding kernel takes this column as values of `ty`, for a stripe of `rows` rows in a file of
    /// `file_bytes`.
    ///
    /// **Invariant:** every offset and count is checked here, because the kernel uses them unchecked.
    pub fn fits(&self, ty: Type, rows: u64, file_bytes: u64) -> bool {
        let is_of_type = match &self.values {
            Values::Raw => matches!(ty, Type::Float32 | Type::Float64),
            Values::Booleans => ty == Type::Bool,
            Values::Bytes => ty == Type::Int8,
            Values::Integers(_) => matches!(ty, Type::Int16 | Type::Int32 | Type::Int64 | Type::Date32),
            // The caller gives a number of four bytes for each entry: a code, or a value.
            Values::Codes(_, numbers) => {
                matches!(ty, Type::Code | Type::Int32 | Type::Date32) && *numbers <= MAX_DICTIONARY_CODES
            }
            Values::Timestamps(_, clock) => {
                let changes = clock.zone.as_ref().map_or(0, |zone| zone.len());
                matches!(ty, Type::Timestamp(crate::program::TimeUnit::Nanosecond)) && changes <= MAX_ZONE_CHANGES
            }
            Values::Decimals(_, to) => matches!(ty, Type::Decimal { scale, .. } if scale == *to && scale >= 0),
        };
        let groups = rows.div_ceil(self.group_rows.max(1));
        let has_secondary = matches!(self.values, Values::Timestamps(..) | Values::Decimals(..));
        is_of_type
            && (1..=MAX_GROUP_ROWS).contains(&self.group_rows)
            && self.secondary.is_some() == has_secondary
            && self.streams().all(|stream| stream.fits(groups, file_bytes))
            && self.codecs().all(|codec| Some(codec) == self.codec())
    }

    /// Codec of the streams; `None`: they are not compressed.
    pub fn codec(&self) -> Option<Codec> {
        self.codecs().next()
    }

    fn codecs(&self) -> impl Iterator<Item = Codec> {
        let chunks = self.streams().filter_map(|stream| stream.chunks.as_ref());
        chunks.map(|chunks| chunks.codec)
    }

    /// The same column in groups of `group_rows` rows, for a stripe of `rows` rows with values of `width` bytes. A
    /// value may lie in two chunks; both are chunks of its group. `None`: decoding cannot begin at every value, since
    /// they are encoded, or some are missing.
    pub(crate) fn regrouped(&self, group_rows: u64, rows: u64, width: u64) -> Option<Self> {
        if self.values != Values::Raw || self.present.is_some() || group_rows == 0 {
            return None;
        }
        let byte = |row: u64| row.saturating_mul(width).min(self.data.bytes);
        let entry = |group: u64| Entry {
            at: byte(group * group_rows),
            skip: 0,
            end: byte(rows.min((group + 1) * group_rows)),
        };
        Some(Self {
            group_rows,
            data: EncodedStream {
                entries: (0..rows.div_ceil(group_rows)).map(entry).collect(),
                chunks: self.data.chunks.clone(),
                ..self.data
            },
            values: Values::Raw,
            present: None,
            secondary: None,
        })
    }

    /// All streams, in the order in which they are copied to the device.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &EncodedStream> {
        self.present
            .iter()
            .chain(std::iter::once(&self.data))
            .chain(&self.secondary)
    }
}

impl EncodedStream {
    fn fits(&self, groups: u64, file_bytes: u64) -> bool {
        let inside = |e: &Entry| e.at <= e.end && e.end <= self.bytes && e.skip <= 1 << 16;
        let ascend = |pair: &[Entry]| pair[0].at <= pair[1].at;
        let is_in_file = match &self.chunks {
            Some(chunks) => chunks.fits(self.bytes, file_bytes),
            None => self.offset.checked_add(self.bytes).is_some_and(|end| end <= file_bytes),
        };
        is_in_file
            && self.entries.len() as u64 == groups
            && self.entries.iter().all(inside)
            && self.entries.windows(2).all(ascend)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(bytes: u64) -> EncodedColumn {
        EncodedColumn {
            values: Values::Raw,
            group_rows: 1000,
            present: None,
            data: EncodedStream {
                offset: 5,
                bytes,
                entries: Vec::new(),
                chunks: None,
            },
            secondary: None,
        }
    }

    #[test]
    fn raw_values_can_be_entered_at_any_row() {
        let column = raw(8 * 2500).regrouped(512, 2500, 8).unwrap();
        let places: Vec<(u64, u64)> = column.data.entries.iter().map(|entry| (entry.at, entry.end)).collect();
        let expected = [
            (0, 4096),
            (4096, 8192),
            (8192, 12_288),
            (12_288, 16_384),
            (16_384, 20_000),
        ];
        assert_eq!(places, expected);
        assert!(column.fits(Type::Float64, 2500, 20_005));
        // A stream that ends early has no byte for the last rows: the kernel finds out.
        let short = raw(10_000).regrouped(512, 2500, 8).unwrap();
        assert_eq!((short.data.entries[2].end, short.data.entries[4].at), (10_000, 10_000));
        assert!(short.fits(Type::Float64, 2500, 10_005));
    }

    #[test]
    fn encoded_and_missing_values_are_entered_at_row_groups_alone() {
        let mut column = raw(20_000);
        column.present = Some(column.data.clone());
        assert_eq!(column.regrouped(512, 2500, 8), None);
        column.present = None;
        column.values = Values::Integers(Runs::V2);
        assert_eq!(column.regrouped(512, 2500, 8), None);
        column.values = Values::Raw;
        assert_eq!(column.regrouped(0, 2500, 8), None);
    }

    #[test]
    fn decimals_have_scales_and_take_any_precision() {
        let stream = raw(400).regrouped(1000, 50, 8).unwrap().data;
        let column = |to: i8, scales: Option<EncodedStream>| EncodedColumn {
            values: Values::Decimals(Runs::V2, to),
            data: stream.clone(),
            secondary: scales,
            ..raw(400)
        };
        let fits = |column: &EncodedColumn, precision, scale| {
            column.fits(Type::Decimal { precision, scale }, 50, 405) && !column.fits(Type::Int64, 50, 405)
        };
        let decimals = column(2, Some(stream.clone()));
        assert_eq!([fits(&decimals, 18, 2), fits(&decimals, 38, 2)], [true; 2]);
        assert!(!fits(&decimals, 18, 3), "another scale");
        assert!(!fits(&column(2, None), 18, 2), "no scales");
        assert!(!fits(&column(-2, Some(stream.clone())), 18, -2), "a scale below zero");
    }
}
