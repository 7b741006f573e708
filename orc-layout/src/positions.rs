//! [`ColumnPositions`], row-index positions by stream: the streams of a column that have positions, their order, and
//! their arities (ORC v1, "Indexes"). The specification lists no arities; they follow from each writer's records.
//!
//! ```text
//! every stream     compressed: offset of a chunk's header, then bytes into that chunk once decompressed
//!                  as it is:   offset of a byte
//!   then, values to skip in the run that starts there:
//!   raw bytes        -                   FLOAT, DOUBLE, decimal varints, string bytes
//!   byte run         values              BYTE, union tags
//!   integer run      values              everything that is RLE v1 or v2
//!   bit run          bytes, then bits    BOOLEAN, PRESENT
//!
//! column's streams, in order:
//!   PRESENT (only if the stripe has nulls), then
//!   BOOLEAN … DOUBLE, DATE       DATA
//!   strings, dictionary          DATA             (DICTIONARY_DATA and LENGTH are read whole)
//!   strings, direct; BINARY      DATA, LENGTH
//!   TIMESTAMP, DECIMAL           DATA, SECONDARY  (DECIMAL as integers, "decimal64": DATA)
//!   LIST, MAP                    LENGTH
//!   UNION                        DATA
//!   STRUCT                       -
//! ```

use std::ops::Range;

use crate::proto::column_encoding;
use crate::proto::stream::Kind;
use crate::schema::{ColumnId, TypeKind};
use crate::statistics::ColumnStatistics;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// Coding of a stream, as far as positions need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Raw bytes or values: nothing follows the offset.
    Bytes,
    /// Byte run-length encoding: values to skip.
    ByteRuns,
    /// Integer run-length encoding, version 1 or 2: values to skip.
    IntegerRuns,
    /// Bits in byte runs: bytes to skip, then bits.
    BitRuns,
}

impl Coding {
    /// Numbers after the offset.
    fn skips(self) -> usize {
        match self {
            Self::Bytes => 0,
            Self::ByteRuns | Self::IntegerRuns => 1,
            Self::BitRuns => 2,
        }
    }

    /// Longest run in values: the limit of a position's skip.
    fn longest_run(self) -> u64 {
        match self {
            Self::Bytes => 0,
            // RLE v1 and byte runs: 3 to 130 equal values; RLE v2: up to 512.
            Self::ByteRuns | Self::BitRuns => 130,
            Self::IntegerRuns => 512,
        }
    }

    /// Bytes of one run at most.
    fn longest_run_bytes(self) -> u64 {
        match self {
            Self::Bytes => 0,
            Self::ByteRuns | Self::BitRuns => 1 + 128,
            // Patched base of 512 values of 64 bits with 31 patches: header, base, values, patches.
            Self::IntegerRuns => 4 + 8 + 512 * 8 + 31 * 16,
        }
    }
}

/// Start of a row group in one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StreamPosition {
    /// Bytes from the start of the stream: to a chunk's header in a compressed file, to a byte otherwise.
    pub(crate) offset: u64,
    /// Bytes into the decompressed chunk. A value equal to the chunk's size means the next chunk's start. 0 without
    /// compression.
    pub(crate) byte_in_chunk: u64,
    /// Values of the run at this position which belong to the previous group (bytes of eight values, for bits).
    pub(crate) values_to_skip: u64,
    /// Bits of the next byte which belong to the group before.
    pub(crate) bits_to_skip: u32,
}

impl StreamPosition {
    /// Bytes behind this position, decompressed, that a group before it may need: of the run that both share.
    pub(crate) fn shared_bytes(&self, coding: Coding) -> u64 {
        match self.values_to_skip + u64::from(self.bits_to_skip) {
            0 => 0,
            _ => coding.longest_run_bytes(),
        }
    }
}

/// End of a row group in one stream, in bytes from the stream's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GroupEnd {
    /// Position of the next group.
    pub(crate) next: u64,
    /// Latest end of the run or chunk that the two groups share.
    pub(crate) last: u64,
}

/// Positions of one column's streams by row group.
#[derive(Debug, Clone)]
pub struct ColumnPositions {
    streams: Vec<(Kind, Coding, Vec<StreamPosition>)>,
    compressed: bool,
    block_size: u64,
}

/// The streams of a column that have positions, in their order.
///
/// `present`: the column has a PRESENT stream in this stripe. `decimal_scales`: a decimal column's scales are a stream
/// of their own (false for "decimal64" of files before ORC 2.0).
pub(crate) fn positioned_streams(
    kind: TypeKind,
    encoding: column_encoding::Kind,
    present: bool,
    decimal_scales: bool,
) -> Vec<(Kind, Coding)> {
    use column_encoding::Kind::{Dictionary, DictionaryV2};
    let mut streams = Vec::with_capacity(3);
    if present {
        streams.push((Kind::Present, Coding::BitRuns));
    }
    match kind {
        TypeKind::Boolean => streams.push((Kind::Data, Coding::BitRuns)),
        TypeKind::Byte | TypeKind::Union => streams.push((Kind::Data, Coding::ByteRuns)),
        TypeKind::Short | TypeKind::Int | TypeKind::Long | TypeKind::Date => {
            streams.push((Kind::Data, Coding::IntegerRuns));
        }
        TypeKind::Float | TypeKind::Double => streams.push((Kind::Data, Coding::Bytes)),
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. }
            if matches!(encoding, Dictionary | DictionaryV2) =>
        {
            streams.push((Kind::Data, Coding::IntegerRuns));
        }
        TypeKind::String | TypeKind::Char { .. } | TypeKind::Varchar { .. } | TypeKind::Binary => {
            streams.push((Kind::Data, Coding::Bytes));
            streams.push((Kind::Length, Coding::IntegerRuns));
        }
        TypeKind::Timestamp | TypeKind::TimestampInstant => {
            streams.push((Kind::Data, Coding::IntegerRuns));
            streams.push((Kind::Secondary, Coding::IntegerRuns));
        }
        TypeKind::Decimal { .. } if !decimal_scales => streams.push((Kind::Data, Coding::IntegerRuns)),
        TypeKind::Decimal { .. } => {
            streams.push((Kind::Data, Coding::Bytes));
            streams.push((Kind::Secondary, Coding::IntegerRuns));
        }
        TypeKind::List | TypeKind::Map => streams.push((Kind::Length, Coding::IntegerRuns)),
        TypeKind::Struct | TypeKind::Unknown { .. } => {}
    }
    streams
}

/// Numbers of one entry for these streams.
fn arity(streams: &[(Kind, Coding)], compressed: bool) -> usize {
    let offset = if compressed { 2 } else { 1 };
    streams.iter().map(|(_, coding)| offset + coding.skips()).sum()
}

impl ColumnPositions {
    /// The positions of `column` by stream. `None` if there is no index, or if its entries do not have the numbers that
    /// the column's streams need. The column is then read from the stripe's start.
    ///
    /// # Errors
    /// The reason, if a position leaves its stream or skips more than a run can hold.
    pub fn of(
        tail: &FileTail,
        stripe: &StripeLayout,
        column: ColumnId,
        stored: &[Vec<u64>],
    ) -> Result<Option<Self>, String> {
        if stored.is_empty() {
            return Ok(None);
        }
        let compressed = tail.compression.is_some();
        let present = stripe.stream(column, Kind::Present).is_some();
        let scales = stripe.stream(column, Kind::Secondary).is_some() || !has_decimal64(tail);
        let encoding = stripe.encodings[column as usize].kind;
        let kinds = positioned_streams(tail.schema.column(column).kind, encoding, present, scales);
        let expected = arity(&kinds, compressed);
        // A writer that drops an empty PRESENT stream normally drops its positions too. Some writers keep these three
        // or four numbers.
        let stale = if present {
            0
        } else {
            arity(&[(Kind::Present, Coding::BitRuns)], compressed)
        };
        // The first group starts where the streams start, whatever its entry says. When a Java writer abandons a
        // dictionary halfway, that entry is left without numbers.
        let later = &stored[1..];
        let skip = match later.first().map_or(expected, Vec::len) {
            length if length == expected => 0,
            length if length == expected + stale => stale,
            _ => return Ok(None),
        };
        if later.iter().any(|entry| entry.len() != skip + expected) {
            return Ok(None);
        }
        let mut streams: Vec<(Kind, Coding, Vec<StreamPosition>)> = kinds
            .into_iter()
            .map(|(kind, coding)| (kind, coding, vec![StreamPosition::default()]))
            .collect();
        for entry in later {
            let mut numbers = entry[skip..].iter().copied();
            for (_, coding, positions) in &mut streams {
                positions.push(take(&mut numbers, *coding, compressed));
            }
        }
        let positions = Self {
            streams,
            compressed,
            block_size: tail
                .compression
                .map_or(0, |compression| compression.block_size() as u64),
        };
        positions.check(stripe, column)?;
        Ok(Some(positions))
    }

    fn check(&self, stripe: &StripeLayout, column: ColumnId) -> Result<(), String> {
        for (kind, coding, positions) in &self.streams {
            let length = stripe.stream(column, *kind).map_or(0, |stream| stream.length);
            for (group, at) in positions.iter().enumerate() {
                let wrong = |reason: String| Err(format!("row group {group}, {} stream: {reason}", kind.as_str_name()));
                if at.offset > length {
                    return wrong(format!("position {} of {length} bytes", at.offset));
                }
                if at.byte_in_chunk > self.block_size {
                    return wrong(format!("byte {} of a chunk", at.byte_in_chunk));
                }
                if at.values_to_skip > coding.longest_run() || at.bits_to_skip > 8 {
                    return wrong(format!(
                        "{} values and {} bits to skip",
                        at.values_to_skip, at.bits_to_skip
                    ));
                }
            }
        }
        Ok(())
    }

    /// Number of row groups.
    pub(crate) fn row_groups(&self) -> usize {
        self.streams.first().map_or(0, |(_, _, positions)| positions.len())
    }

    /// Coding of a stream; `None` for streams without positions.
    pub(crate) fn coding(&self, kind: Kind) -> Option<Coding> {
        self.streams
            .iter()
            .find(|(k, ..)| *k == kind)
            .map(|(_, coding, _)| *coding)
    }

    /// Start of a row group in a stream; `None` for streams without positions.
    pub(crate) fn at(&self, group: usize, kind: Kind) -> Option<StreamPosition> {
        self.streams.iter().find(|(k, ..)| *k == kind)?.2.get(group).copied()
    }

    /// Absolute bytes of a stream that hold these (non-empty, ascending) row groups. They reach from the first group's
    /// position to the latest end of the run or chunk that the next group shares. Streams without positions
    /// (dictionaries) are needed whole; `None` if the stripe does not have the stream.
    ///
    /// The range is an estimate: a file whose chunks are shorter than the block size may need a little more. A decoder
    /// therefore goes on reading where the range ends.
    pub(crate) fn byte_range(
        &self,
        stripe: &StripeLayout,
        column: ColumnId,
        kind: Kind,
        groups: Range<usize>,
    ) -> Option<Range<u64>> {
        let stream = stripe.stream(column, kind)?;
        let Some((_, coding, positions)) = self.streams.iter().find(|(k, ..)| *k == kind) else {
            return Some(stream.range());
        };
        let start = positions.get(groups.start).map_or(0, |at| at.offset);
        let end = match positions.get(groups.end) {
            Some(next) => self
                .end_before(next, *coding, &positions[groups.end..])
                .min(stream.length),
            None => stream.length,
        };
        let start = start.min(end);
        Some(stream.offset + start..stream.offset + end)
    }

    /// End of everything before row group `group` in a stream; `None` beyond the last group and for streams without
    /// positions.
    pub(crate) fn end_before_group(&self, group: usize, kind: Kind) -> Option<GroupEnd> {
        let (_, coding, positions) = self.streams.iter().find(|(k, ..)| *k == kind)?;
        let next = positions.get(group)?;
        Some(GroupEnd {
            next: next.offset,
            last: self.end_before(next, *coding, &positions[group..]),
        })
    }

    /// Whether a row group has no value: its statistics count none, and every stream of values has the same position in
    /// the next group. Such a group needs no read, not even of its PRESENT stream.
    pub(crate) fn is_empty_group(&self, statistics: &[ColumnStatistics], group: usize) -> bool {
        let counted = statistics.get(group).and_then(|group| group.values);
        let mut values = self.streams.iter().filter(|(kind, ..)| *kind != Kind::Present);
        let stays = |(_, _, at): &(Kind, Coding, Vec<StreamPosition>)| at.get(group + 1) == at.get(group);
        counted == Some(0)
            && self.streams.iter().any(|(kind, ..)| *kind == Kind::Present)
            && group + 1 < self.row_groups()
            && values.all(stays)
    }

    /// Latest end of everything before `next`, from the start of the stream.
    fn end_before(&self, next: &StreamPosition, coding: Coding, later: &[StreamPosition]) -> u64 {
        let run = next.shared_bytes(coding);
        if !self.compressed {
            return next.offset.saturating_add(run);
        }
        if next.byte_in_chunk + run == 0 {
            return next.offset;
        }
        // The chunk at `next` is needed, and the following one if the run may reach into it. Only the last chunk of a
        // stream holds less than a block. Every chunk ends at the latest where a later position names another chunk.
        let chunk = crate::chunk::HEADER_BYTES as u64 + self.block_size;
        let end_of_chunk = |start: u64| {
            let named = later.iter().map(|at| at.offset).find(|&offset| offset > start);
            named.unwrap_or(u64::MAX).min(start.saturating_add(chunk))
        };
        let end = end_of_chunk(next.offset);
        if next.byte_in_chunk + run > self.block_size {
            end_of_chunk(end)
        } else {
            end
        }
    }
}

fn take(numbers: &mut impl Iterator<Item = u64>, coding: Coding, compressed: bool) -> StreamPosition {
    let mut next = || numbers.next().unwrap_or(0);
    StreamPosition {
        offset: next(),
        byte_in_chunk: if compressed { next() } else { 0 },
        values_to_skip: if coding.skips() > 0 { next() } else { 0 },
        bits_to_skip: if coding.skips() > 1 {
            u32::try_from(next()).unwrap_or(u32::MAX)
        } else {
            0
        },
    }
}

/// Files of the unstable version before ORC 2.0 store decimals of up to 18 digits as integers.
fn has_decimal64(tail: &FileTail) -> bool {
    tail.format_version == "1.9999"
}

#[cfg(test)]
mod tests {
    use super::*;
    use column_encoding::Kind as Encoding;

    fn positions(coding: Coding, block_size: u64, at: &[(u64, u64, u64)]) -> ColumnPositions {
        let at = at
            .iter()
            .map(|&(offset, byte_in_chunk, values_to_skip)| StreamPosition {
                offset,
                byte_in_chunk,
                values_to_skip,
                bits_to_skip: 0,
            });
        ColumnPositions {
            streams: vec![(Kind::Data, coding, at.collect())],
            compressed: block_size > 0,
            block_size,
        }
    }

    fn ends(positions: &ColumnPositions) -> Vec<u64> {
        let (_, coding, at) = &positions.streams[0];
        (1..at.len())
            .map(|group| positions.end_before(&at[group], *coding, &at[group..]))
            .collect()
    }

    #[test]
    fn positions_have_the_arities_that_writers_record() {
        let doubles = positioned_streams(TypeKind::Double, Encoding::Direct, true, true);
        assert_eq!((arity(&doubles, false), arity(&doubles, true)), (4, 6));
        let direct = positioned_streams(TypeKind::String, Encoding::DirectV2, false, true);
        assert_eq!((arity(&direct, false), arity(&direct, true)), (3, 5));
        let dictionary = positioned_streams(TypeKind::String, Encoding::DictionaryV2, false, true);
        assert_eq!((arity(&dictionary, false), arity(&dictionary, true)), (2, 3));
        let timestamps = positioned_streams(TypeKind::Timestamp, Encoding::DirectV2, true, true);
        assert_eq!((arity(&timestamps, false), arity(&timestamps, true)), (7, 10));
    }

    #[test]
    fn row_groups_end_with_their_last_shared_run_or_chunk() {
        // Uncompressed: exact for raw bytes, one run further if a run is shared.
        assert_eq!(ends(&positions(Coding::Bytes, 0, &[(0, 0, 0), (800, 0, 0)])), [800]);
        let run = Coding::ByteRuns.longest_run_bytes();
        assert_eq!(
            ends(&positions(Coding::ByteRuns, 0, &[(0, 0, 0), (50, 0, 3), (90, 0, 0)])),
            [50 + run, 90]
        );
        // Compressed: the chunk in which the next group starts, bounded by the next known chunk.
        let shared = positions(
            Coding::Bytes,
            1000,
            &[(0, 0, 0), (0, 800, 0), (60, 0, 0), (60, 700, 0), (90, 10, 0)],
        );
        assert_eq!(ends(&shared), [60, 60, 90, 90 + 1003]);
        // If the run may reach into the following chunk, that chunk is needed too.
        let run = positions(Coding::ByteRuns, 1000, &[(0, 0, 0), (0, 950, 7), (60, 100, 1)]);
        assert_eq!(ends(&run), [60 + 1003, 60 + 1003]);
    }
}
