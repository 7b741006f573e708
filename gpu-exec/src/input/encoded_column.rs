//! A column's values of one stripe as they are stored in the file, uncompressed: what a GPU needs to decode them by row group. Where the
//! streams are and where decoding can start is said here; what a launch makes of it is [`decode`](crate::decode)'s business.

use std::sync::Arc;

use crate::program::Type;

/// Most rows of a row group that one warp decodes: a few milliseconds.
pub const MAX_GROUP_ROWS: u64 = 1 << 18;
/// Most entries of a dictionary: its numbers are brought with each piece of the column.
pub const MAX_DICTIONARY_CODES: u32 = 1 << 16;
/// Most changes of a zone's clock, likewise.
pub const MAX_ZONE_CHANGES: usize = 1 << 10;

/// A stripe's column.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedColumn {
    /// What the values are made of.
    pub values: Values,
    /// Rows of a row group; the last one has what is left.
    pub group_rows: u64,
    /// Which rows have a value: bits in byte runs; `None`: all.
    pub present: Option<EncodedStream>,
    /// The values of those rows.
    pub data: EncodedStream,
    /// Their nanoseconds: [`Values::Timestamps`].
    pub fraction: Option<EncodedStream>,
}

/// What values are made of.
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
    /// Indexes into so many entries of a dictionary, for which [`Decode::numbers`](crate::input::Decode::numbers) has a code each.
    Codes(Runs, u32),
    /// Seconds by a clock, and nanoseconds with their zeros cut off.
    Timestamps(Runs, Clock),
}

/// Integer runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// Run-length encoding, version 1.
    V1,
    /// Version 2.
    V2,
}

/// What stored seconds are counted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Seconds from 1970 to the zero of the stored ones.
    pub epoch: i64,
    /// What the clock is ahead of UTC, ascending; the last entry only says where that ends. `None`: never.
    pub zone: Option<Arc<[Change]>>,
}

/// A change of a zone's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// From this second on, since 1970 …
    pub from: i64,
    /// … the clock is so many seconds ahead of UTC.
    pub offset: i64,
}

/// A stream of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedStream {
    /// The file's byte at which it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: u64,
    /// By row group: where it starts.
    pub entries: Vec<Entry>,
}

/// Where a row group's values are in a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The stream's byte at which a run begins.
    pub at: u64,
    /// Values (bits, bytes) of that run which belong to the group before.
    pub skip: u32,
    /// The stream's byte before which everything of the group ends.
    pub end: u64,
}

impl EncodedColumn {
    /// Whether it is one that the kernel decodes to values of a type, for a stripe of so many rows of a file of so many bytes. Nothing is
    /// believed: kernels read what this says.
    pub fn fits(&self, ty: Type, rows: u64, file_bytes: u64) -> bool {
        let is_of_type = match &self.values {
            Values::Raw => matches!(ty, Type::Float32 | Type::Float64),
            Values::Booleans => ty == Type::Bool,
            Values::Bytes => ty == Type::Int8,
            Values::Integers(_) => matches!(ty, Type::Int16 | Type::Int32 | Type::Int64 | Type::Date32),
            Values::Codes(_, numbers) => ty == Type::Code && *numbers <= MAX_DICTIONARY_CODES,
            Values::Timestamps(_, clock) => {
                let changes = clock.zone.as_ref().map_or(0, |zone| zone.len());
                matches!(ty, Type::Timestamp(crate::program::TimeUnit::Nanosecond)) && changes <= MAX_ZONE_CHANGES
            }
        };
        let groups = rows.div_ceil(self.group_rows.max(1));
        let is_timestamp = matches!(self.values, Values::Timestamps(..));
        is_of_type
            && (1..=MAX_GROUP_ROWS).contains(&self.group_rows)
            && self.fraction.is_some() == is_timestamp
            && self.streams().all(|stream| stream.fits(groups, file_bytes))
    }

    /// All its streams, in the order in which they are brought.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &EncodedStream> {
        self.present
            .iter()
            .chain(std::iter::once(&self.data))
            .chain(&self.fraction)
    }
}

impl EncodedStream {
    fn fits(&self, groups: u64, file_bytes: u64) -> bool {
        let inside = |e: &Entry| e.at <= e.end && e.end <= self.bytes && e.skip <= 1 << 16;
        let ascend = |pair: &[Entry]| pair[0].at <= pair[1].at;
        self.offset.checked_add(self.bytes).is_some_and(|end| end <= file_bytes)
            && self.entries.len() as u64 == groups
            && self.entries.iter().all(inside)
            && self.entries.windows(2).all(ascend)
    }
}
