//! [`StripeStreams`], the streams of one stripe, found by column and kind.

use std::ops::{Deref, Range, RangeInclusive};

use crate::proto::stream::Kind;
use crate::schema::ColumnId;

/// One stream of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// Column of the stream.
    pub column: ColumnId,
    /// Kind of the stream.
    pub kind: Kind,
    /// Absolute file offset of its first byte.
    pub offset: u64,
    /// Stored (compressed) bytes.
    pub length: u64,
}

impl Stream {
    /// Absolute byte range of the stream.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// The streams of a stripe, in file order.
///
/// Opening a column looks for about ten streams. A search over the streams of ten thousand columns each time would take
/// a minute, so the streams are sorted by column too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StripeStreams {
    streams: Vec<Stream>,
    /// Positions in `streams`, ordered by column, then by position.
    by_column: Vec<u32>,
}

impl StripeStreams {
    /// The first stream of this kind of this column.
    pub fn find(&self, column: ColumnId, kind: Kind) -> Option<&Stream> {
        self.of_columns(column..=column).find(|stream| stream.kind == kind)
    }

    /// The streams of these columns, by column; of one column in file order.
    pub fn of_columns(&self, columns: RangeInclusive<ColumnId>) -> impl Iterator<Item = &Stream> {
        let (first, last) = columns.into_inner();
        let from = self
            .by_column
            .partition_point(|&at| self.streams[at as usize].column < first);
        let streams = self.by_column[from..].iter().map(|&at| &self.streams[at as usize]);
        streams.take_while(move |stream| stream.column <= last)
    }

    /// Adds a stream behind the others.
    pub fn push(&mut self, stream: Stream) {
        let at = self
            .by_column
            .partition_point(|&at| self.streams[at as usize].column <= stream.column);
        self.by_column.insert(at, self.streams.len() as u32);
        self.streams.push(stream);
    }
}

impl From<Vec<Stream>> for StripeStreams {
    fn from(streams: Vec<Stream>) -> Self {
        let mut by_column: Vec<u32> = (0..streams.len() as u32).collect();
        by_column.sort_by_key(|&at| streams[at as usize].column);
        Self { streams, by_column }
    }
}

impl Deref for StripeStreams {
    type Target = [Stream];

    fn deref(&self) -> &[Stream] {
        &self.streams
    }
}

impl<'a> IntoIterator for &'a StripeStreams {
    type Item = &'a Stream;
    type IntoIter = std::slice::Iter<'a, Stream>;

    fn into_iter(self) -> Self::IntoIter {
        self.streams.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_found_as_by_a_search_in_file_order() {
        let kinds = [
            Kind::RowIndex,
            Kind::Present,
            Kind::Data,
            Kind::Length,
            Kind::DictionaryData,
        ];
        // Index streams of all columns come before the data streams, and one stream is there twice.
        let mut all: Vec<(ColumnId, Kind)> = (0..50).map(|column| (column, Kind::RowIndex)).collect();
        all.extend((0..50).flat_map(|column| {
            kinds[1..(column % 4 + 2) as usize]
                .iter()
                .map(move |&kind| (column, kind))
        }));
        all.push((7, Kind::Present));
        let stream = |(k, (column, kind))| Stream {
            column,
            kind,
            offset: k as u64,
            length: 1,
        };
        let list: Vec<Stream> = all.into_iter().enumerate().map(stream).collect();
        let streams = StripeStreams::from(list.clone());
        let mut pushed = StripeStreams::default();
        list.iter().for_each(|stream| pushed.push(stream.clone()));
        assert_eq!(pushed, streams);
        for column in 0..52 {
            for kind in kinds {
                let expected = list
                    .iter()
                    .find(|stream| stream.column == column && stream.kind == kind);
                assert_eq!(streams.find(column, kind), expected, "{column} {kind:?}");
            }
            let of_two: Vec<&Stream> = streams.of_columns(column..=column + 1).collect();
            let count = list
                .iter()
                .filter(|stream| (column..=column + 1).contains(&stream.column))
                .count();
            assert_eq!(of_two.len(), count);
            assert!(of_two.is_sorted_by_key(|stream| stream.column));
        }
    }
}
