//! Whether the decode kernel takes a column as it is stored, and row groups of another size.
//!
//! **Invariant:** every offset and count of an [`EncodedColumn`] is checked by [`fits`], because kernels use them
//! unchecked.

use grampus_orc_layout::encoded_chunk::EncodedChunks;
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedEntry, EncodedStream, EncodedValues};

use crate::program::{TimeUnit, Type};

/// Rows of a row group: one warp decodes a row group, in a few milliseconds.
pub const MAX_GROUP_ROWS: u64 = 1 << 18;
/// Entries of a dictionary: their codes are copied with each batch of the column.
pub const MAX_DICTIONARY_CODES: u32 = 1 << 16;
/// Changes of a zone's clock, which are copied with each batch of the column.
pub const MAX_ZONE_CHANGES: usize = 1 << 10;
/// Stored and decompressed bytes of a chunk are fewer: a chunk's header has 23 bits for its length.
const MAX_CHUNK_BYTES: u64 = 1 << 23;

/// Whether the decoding kernel takes a column as values of `ty`, for a stripe of `rows` rows in a file of `file_bytes`.
pub fn fits(column: &EncodedColumn, ty: Type, rows: u64, file_bytes: u64) -> bool {
    let is_of_type = match &column.values {
        EncodedValues::Floats => matches!(ty, Type::Float32 | Type::Float64),
        EncodedValues::Booleans => ty == Type::Bool,
        EncodedValues::Bytes => ty == Type::Int8,
        EncodedValues::Integers(_) => matches!(ty, Type::Int16 | Type::Int32 | Type::Int64 | Type::Date32),
        // The caller gives a number of four bytes for each entry: a code, or a value.
        EncodedValues::Dictionary(_, numbers) => {
            matches!(ty, Type::Code | Type::Int32 | Type::Date32) && *numbers <= MAX_DICTIONARY_CODES
        }
        EncodedValues::Timestamps(_, clock) => {
            let changes = clock.changes.as_ref().map_or(0, |changes| changes.len());
            matches!(ty, Type::Timestamp(TimeUnit::Nanosecond)) && changes <= MAX_ZONE_CHANGES
        }
        EncodedValues::Decimals(_, to) => matches!(ty, Type::Decimal { scale, .. } if scale == *to && scale >= 0),
    };
    let groups = rows.div_ceil(column.group_rows.max(1));
    let has_secondary = matches!(
        column.values,
        EncodedValues::Timestamps(..) | EncodedValues::Decimals(..)
    );
    let mut codecs = column
        .streams()
        .filter_map(|stream| stream.chunks.as_ref())
        .map(|chunks| chunks.codec);
    is_of_type
        && (1..=MAX_GROUP_ROWS).contains(&column.group_rows)
        && column.secondary.is_some() == has_secondary
        && column.streams().all(|stream| stream_fits(stream, groups, file_bytes))
        && codecs.all(|codec| Some(codec) == column.codec())
}

fn stream_fits(stream: &EncodedStream, groups: u64, file_bytes: u64) -> bool {
    let inside = |e: &EncodedEntry| e.at <= e.end && e.end <= stream.length && e.skip <= 1 << 16;
    let ascend = |pair: &[EncodedEntry]| pair[0].at <= pair[1].at;
    let is_in_file = match &stream.chunks {
        Some(chunks) => chunks_fit(chunks, stream.length, file_bytes),
        None => stream
            .offset
            .checked_add(stream.length)
            .is_some_and(|end| end <= file_bytes),
    };
    is_in_file
        && stream.entries.len() as u64 == groups
        && stream.entries.iter().all(inside)
        && stream.entries.windows(2).all(ascend)
}

/// Whether chunks make up a stream of so many bytes, and lie in a file of `file_bytes`.
fn chunks_fit(chunks: &EncodedChunks, stream_bytes: u64, file_bytes: u64) -> bool {
    let mut ends = chunks.chunks.iter().skip(1).map(|next| (next.start, next.offset));
    chunks.bytes == stream_bytes
        && chunks.chunks.first().is_some_and(|first| first.start == 0)
        && chunks.chunks.iter().all(|chunk| {
            let (end, stored_end) = ends.next().unwrap_or((stream_bytes, file_bytes));
            let bytes = end.saturating_sub(chunk.start);
            (1..MAX_CHUNK_BYTES).contains(&bytes)
                && (1..MAX_CHUNK_BYTES).contains(&u64::from(chunk.length))
                && chunk
                    .offset
                    .checked_add(u64::from(chunk.length))
                    .is_some_and(|end| end <= stored_end)
        })
}

/// A column in groups of `group_rows` rows, for a stripe of `rows` rows with values of `width` bytes. A value may lie
/// in two chunks; both are chunks of its group. `None`: decoding cannot begin at every value, since they are encoded,
/// or some are missing.
pub(crate) fn regrouped(column: &EncodedColumn, group_rows: u64, rows: u64, width: u64) -> Option<EncodedColumn> {
    if column.values != EncodedValues::Floats || column.present.is_some() || group_rows == 0 {
        return None;
    }
    let data = &column.data;
    let byte = |row: u64| row.saturating_mul(width).min(data.length);
    let entry = |group: u64| EncodedEntry {
        at: byte(group * group_rows),
        skip: 0,
        end: byte(rows.min((group + 1) * group_rows)),
    };
    Some(EncodedColumn {
        group_rows,
        data: EncodedStream {
            entries: (0..rows.div_ceil(group_rows)).map(entry).collect(),
            chunks: data.chunks.clone(),
            ..*data
        },
        values: EncodedValues::Floats,
        present: None,
        secondary: None,
    })
}

#[cfg(test)]
mod tests {
    use grampus_orc_layout::codec::Codec;
    use grampus_orc_layout::encoded_chunk::EncodedChunk;
    use grampus_orc_layout::encoded_column::RunLength;

    use super::*;

    fn raw(bytes: u64) -> EncodedColumn {
        EncodedColumn {
            values: EncodedValues::Floats,
            group_rows: 1000,
            present: None,
            data: EncodedStream {
                offset: 5,
                length: bytes,
                entries: Vec::new(),
                chunks: None,
            },
            secondary: None,
        }
    }

    #[test]
    fn raw_values_can_be_entered_at_any_row() {
        let column = regrouped(&raw(8 * 2500), 512, 2500, 8).unwrap();
        let places: Vec<(u64, u64)> = column.data.entries.iter().map(|entry| (entry.at, entry.end)).collect();
        let expected = [
            (0, 4096),
            (4096, 8192),
            (8192, 12_288),
            (12_288, 16_384),
            (16_384, 20_000),
        ];
        assert_eq!(places, expected);
        assert!(fits(&column, Type::Float64, 2500, 20_005));
        // A stream that ends early has no byte for the last rows: the kernel finds out.
        let short = regrouped(&raw(10_000), 512, 2500, 8).unwrap();
        assert_eq!((short.data.entries[2].end, short.data.entries[4].at), (10_000, 10_000));
        assert!(fits(&short, Type::Float64, 2500, 10_005));
    }

    #[test]
    fn encoded_and_missing_values_are_entered_at_row_groups_alone() {
        let mut column = raw(20_000);
        column.present = Some(column.data.clone());
        assert_eq!(regrouped(&column, 512, 2500, 8), None);
        column.present = None;
        column.values = EncodedValues::Integers(RunLength::V2);
        assert_eq!(regrouped(&column, 512, 2500, 8), None);
        column.values = EncodedValues::Floats;
        assert_eq!(regrouped(&column, 0, 2500, 8), None);
    }

    #[test]
    fn decimals_have_scales_and_take_any_precision() {
        let stream = regrouped(&raw(400), 1000, 50, 8).unwrap().data;
        let column = |to: i8, scales: Option<EncodedStream>| EncodedColumn {
            values: EncodedValues::Decimals(RunLength::V2, to),
            data: stream.clone(),
            secondary: scales,
            ..raw(400)
        };
        let takes = |column: &EncodedColumn, precision, scale| {
            fits(column, Type::Decimal { precision, scale }, 50, 405) && !fits(column, Type::Int64, 50, 405)
        };
        let decimals = column(2, Some(stream.clone()));
        assert_eq!([takes(&decimals, 18, 2), takes(&decimals, 38, 2)], [true; 2]);
        assert!(!takes(&decimals, 18, 3), "another scale");
        assert!(!takes(&column(2, None), 18, 2), "no scales");
        assert!(!takes(&column(-2, Some(stream.clone())), 18, -2), "a scale below zero");
    }

    fn list() -> EncodedChunks {
        let chunk = |offset, start| EncodedChunk {
            offset,
            length: 10,
            original: false,
            start,
        };
        EncodedChunks {
            codec: Codec::Lz4,
            bytes: 1700,
            chunks: vec![chunk(103, 0), chunk(116, 1000), chunk(129, 1500)],
        }
    }

    #[test]
    fn chunks_out_of_order_or_of_the_file_do_not_fit() {
        let fits = |change: &dyn Fn(&mut EncodedChunks)| {
            let mut list = list();
            change(&mut list);
            chunks_fit(&list, 1700, 139)
        };
        assert!(fits(&|_| {}));
        assert!(
            !chunks_fit(&list(), 1500, 139)
                && !chunks_fit(&list(), 1700, 138)
                && !chunks_fit(&list(), 1500 + (1 << 23), 139)
        );
        assert!(!fits(&|l| l.chunks.clear()));
        assert!(!fits(&|l| l.chunks[0].start = 1));
        assert!(!fits(&|l| l.chunks[1].start = 1500));
        assert!(!fits(&|l| l.chunks[1].start = 1501));
        assert!(!fits(&|l| l.chunks[1].length = 0));
        assert!(!fits(&|l| l.chunks[1].length = 14));
        assert!(!fits(&|l| l.chunks[2].offset = u64::MAX));
    }
}
