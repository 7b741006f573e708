//! Tests of whole columns: PRESENT, lengths, dictionaries, entry points, and the bytes that a selection costs.

use std::sync::atomic::Ordering;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StringArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{Float64Type, Int64Type};
use proptest::prelude::*;

use super::{Builder, plain};
use crate::codec::Codec;
use crate::decode::int::IntReader;
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::schema::TypeKind;
use crate::selection::RowSelection;

fn all(rows: u64) -> RowSelection {
    RowSelection::range(0..rows)
}

/// Byte RLE in literal runs.
fn byte_rle(bytes: &[u8]) -> Vec<u8> {
    bytes
        .chunks(128)
        .flat_map(|run| [&[(256 - run.len()) as u8], run].concat())
        .collect()
}

fn bit_bytes(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8)
        .map(|byte| {
            byte.iter()
                .enumerate()
                .fold(0, |all, (k, &bit)| all | u8::from(bit) << (7 - k))
        })
        .collect()
}

/// RLE v1 literals: one byte per value below 64 (signed) or 128 (not).
fn literals(values: &[u8]) -> Vec<u8> {
    byte_rle(values)
}

fn picked(array: &ArrayRef, rows: &RowSelection) -> ArrayRef {
    take(array, &UInt64Array::from_iter_values(rows.iter()), None).unwrap()
}

fn selection(rows: u64, steps: &[(u64, u64)]) -> RowSelection {
    let (mut selection, mut at) = (RowSelection::new(), 0);
    for (skip, read) in steps {
        let start = (at + skip).min(rows);
        at = (start + read).min(rows);
        selection.push(start..at);
    }
    selection
}

#[test]
fn nulls_stand_between_values() {
    let present = [true, false, true, true, false, false, false, true, false, true];
    let mut file = Builder::column(TypeKind::Long, Encoding::Direct, 10);
    file.stream(1, Kind::Present, byte_rle(&bit_bytes(&present)));
    file.stream(1, Kind::Data, literals(&[2, 4, 6, 8, 10]));
    let (mut reader, _) = file.reader(None).unwrap();
    let read = reader.read(&all(10)).unwrap();
    let expected = [
        Some(1),
        None,
        Some(2),
        Some(3),
        None,
        None,
        None,
        Some(4),
        None,
        Some(5),
    ];
    assert_eq!(read.as_primitive::<Int64Type>(), &Int64Array::from(expected.to_vec()));
    // Without an index, a step back goes to the start.
    let some = selection(10, &[(1, 2), (4, 1)]);
    assert_eq!(&reader.read(&some).unwrap(), &picked(&read, &some));
}

#[test]
fn column_of_nulls_needs_no_data() {
    for kind in [
        TypeKind::Long,
        TypeKind::Double,
        TypeKind::String,
        TypeKind::Boolean,
        TypeKind::Timestamp,
    ] {
        for encoding in [Encoding::Direct, Encoding::DictionaryV2] {
            if encoding == Encoding::DictionaryV2 && kind != TypeKind::String {
                continue;
            }
            let mut file = Builder::column(kind, encoding, 9);
            file.stream(1, Kind::Present, byte_rle(&[0, 0]));
            let read = file.reader(None).unwrap().0.read(&all(9)).unwrap();
            assert_eq!((read.len(), read.null_count()), (9, 9), "{kind:?}");
        }
    }
}

#[test]
fn missing_and_short_streams_are_named() {
    let file = Builder::column(TypeKind::Long, Encoding::Direct, 9);
    let error = file.reader(None).unwrap().0.read(&all(9)).unwrap_err().to_string();
    assert!(
        error.contains("column 1 (c) DATA stream") && error.contains("missing"),
        "{error}"
    );
    let mut file = Builder::column(TypeKind::String, Encoding::DictionaryV2, 3);
    file.dictionary_size(1, 1);
    file.stream(1, Kind::Data, [0x00, 0x00])
        .stream(1, Kind::Length, [0x00, 0x04]);
    let error = file.reader(None).unwrap().0.read(&all(3)).unwrap_err().to_string();
    assert!(error.contains("DICTIONARY_DATA stream"), "{error}");
}

#[test]
fn dictionary_entries_are_read_once_and_checked() {
    let mut file = Builder::column(TypeKind::String, Encoding::Dictionary, 6);
    file.dictionary_size(1, 3);
    file.stream(1, Kind::Data, literals(&[2, 0, 1, 1, 0, 2]));
    file.stream(1, Kind::Length, literals(&[1, 0, 3]));
    file.stream(1, Kind::DictionaryData, *b"axyz");
    let (mut reader, memory) = file.reader(None).unwrap();
    let read = reader.read(&all(4)).unwrap();
    assert_eq!(read.as_string::<i32>(), &StringArray::from(vec!["xyz", "a", "", ""]));
    let moved = memory.moved.load(Ordering::Relaxed);
    let read = reader.read(&RowSelection::range(4..6)).unwrap();
    assert_eq!(read.as_string::<i32>(), &StringArray::from(vec!["a", "xyz"]));
    assert_eq!(memory.moved.load(Ordering::Relaxed), moved);
    file.dictionary_size(1, 2);
    let error = file.reader(None).unwrap().0.read(&all(4)).unwrap_err().to_string();
    assert!(error.contains("beyond the 2 entries"), "{error}");
}

#[test]
fn text_must_be_utf8_and_lengths_positive() {
    let mut file = Builder::column(TypeKind::String, Encoding::Direct, 2);
    file.stream(1, Kind::Data, [0xc3, 0xa4])
        .stream(1, Kind::Length, literals(&[1, 1]));
    assert!(file.reader(None).unwrap().0.read(&all(2)).is_err());
    let mut file = Builder::column(TypeKind::Binary, Encoding::Direct, 1);
    let negative = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    file.stream(1, Kind::Data, [1]).stream(1, Kind::Length, negative);
    assert!(file.reader(None).unwrap().0.read(&all(1)).is_err());
}

/// Nullable doubles in an uncompressed file: of DATA only the selected values move.
#[test]
fn nullable_doubles_are_gathered_by_rank() {
    let rows = 8000u64;
    let present: Vec<bool> = (0..rows).map(|row| row % 3 != 1).collect();
    let values: Vec<f64> = (0..rows).filter(|row| row % 3 != 1).map(|row| row as f64).collect();
    let mut file = Builder::column(TypeKind::Double, Encoding::Direct, rows);
    let bits = byte_rle(&bit_bytes(&present));
    let present_length = bits.len() as u64;
    file.stream(1, Kind::Present, bits);
    file.stream(
        1,
        Kind::Data,
        values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>(),
    );
    let whole = file.reader(None).unwrap().0.read(&all(rows)).unwrap();
    let expected: Float64Array = (0..rows)
        .map(|row| present[row as usize].then_some(row as f64))
        .collect();
    assert_eq!(whole.as_primitive::<Float64Type>(), &expected);
    let some = selection(rows, &[(5, 2), (1000, 1), (4000, 3)]);
    let (mut reader, memory) = file.reader(None).unwrap();
    assert_eq!(&reader.read(&some).unwrap(), &picked(&whole, &some));
    let moved = memory.moved.load(Ordering::Relaxed);
    assert!(moved <= present_length + 6 * 8, "{moved}");
}

/// Covers values of a run that begins before a row group's entry point, and reads that end with the next entry point's
/// needs.
#[test]
fn entry_points_lead_into_runs_and_chunks() {
    let rows = 5000u64;
    let values: Vec<u8> = (0..rows).map(|row| (row % 64) as u8).collect();
    let bytes = literals(&values);
    for codec in [None, Some(Codec::Snappy)] {
        let mut file = Builder::column(TypeKind::Long, Encoding::Direct, rows);
        file.codec = codec;
        file.chunks = vec![100, 333];
        file.stride = Some(1000);
        file.stream(1, Kind::Data, bytes.clone());
        let places = file.build().2;
        let positions = (0..5u64).map(|group| {
            let (run, skip) = (group * 1000 / 128, group * 1000 % 128);
            let (chunk, byte) = places[&(1, Kind::Data as i32)][(run * 129) as usize];
            if codec.is_some() {
                vec![chunk, byte, skip]
            } else {
                vec![chunk, skip]
            }
        });
        let positions: Vec<Vec<u64>> = positions.collect();
        let whole = file.reader(None).unwrap().0.read(&all(rows)).unwrap();
        let mut out = vec![0; rows as usize];
        IntReader::new(plain(&bytes), Encoding::Direct, true)
            .read(&mut out)
            .unwrap();
        assert_eq!(whole.as_primitive::<Int64Type>().values(), &out[..]);
        let (mut reader, memory) = file.reader(Some(positions)).unwrap();
        for steps in [
            &[(3999, 1)][..],
            &[(10, 1), (1, 1500)],
            &[(4990, 10)],
            &[(0, 1), (4000, 500)],
        ] {
            let some = selection(rows, steps);
            assert_eq!(&reader.read(&some).unwrap(), &picked(&whole, &some), "{steps:?}");
        }
        if codec.is_none() {
            let reads = memory.asked.lock().unwrap();
            assert!(reads.iter().all(|range| range.end - range.start <= 2000), "{reads:?}");
        }
    }
}

/// A few doubles far apart in small chunks: the chunks between them are skipped.
#[test]
fn chunks_that_state_their_length_are_skipped_unread() {
    let rows = 10_000u64;
    let bytes: Vec<u8> = (0..rows).flat_map(|row| (row as f64).to_le_bytes()).collect();
    for codec in [Codec::Snappy, Codec::Zstd] {
        let mut file = Builder::column(TypeKind::Double, Encoding::Direct, rows);
        file.codec = Some(codec);
        file.chunks = vec![8000, 4004];
        file.stride = Some(5000);
        file.stream(1, Kind::Data, bytes.clone());
        let place = file.build().2[&(1, Kind::Data as i32)][40_000];
        let (mut reader, memory) = file.reader(Some(vec![vec![0, 0], vec![place.0, place.1]])).unwrap();
        let whole = reader.read(&all(rows)).unwrap();
        let moved = memory.moved.swap(0, Ordering::Relaxed);
        for steps in [
            &[(5400, 1), (2000, 2), (1400, 1)][..],
            &[(0, 1), (9998, 1)],
            &[(4999, 2)],
        ] {
            let some = selection(rows, steps);
            assert_eq!(&reader.read(&some).unwrap(), &picked(&whole, &some), "{steps:?}");
            let few = memory.moved.swap(0, Ordering::Relaxed);
            assert!(few < moved / 2, "{few} of {moved} bytes for {steps:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn string_selections_equal_rows_of_a_full_read(
        strings in proptest::collection::vec(proptest::option::of("[a-zä]{0,20}"), 1..400),
        codec in prop_oneof![Just(None), Just(Some(Codec::Zstd)), Just(Some(Codec::Lz4))],
        chunk in 1usize..500,
        steps in proptest::collection::vec((0u64..60, 0u64..30), 0..20),
    ) {
        let rows = strings.len() as u64;
        let present: Vec<bool> = strings.iter().map(Option::is_some).collect();
        let lengths: Vec<u8> = strings.iter().flatten().map(|text| text.len() as u8).collect();
        let mut file = Builder::column(TypeKind::String, Encoding::Direct, rows);
        file.codec = codec;
        file.chunks = vec![chunk];
        file.stream(1, Kind::Present, byte_rle(&bit_bytes(&present)));
        file.stream(1, Kind::Data, strings.iter().flatten().flat_map(|text| text.bytes()).collect::<Vec<_>>());
        file.stream(1, Kind::Length, literals(&lengths));
        let expected: ArrayRef = std::sync::Arc::new(StringArray::from(strings));
        let (mut reader, _) = file.reader(None).unwrap();
        prop_assert_eq!(&reader.read(&all(rows)).unwrap(), &expected);
        let some = selection(rows, &steps);
        prop_assert_eq!(&reader.read(&some).unwrap(), &picked(&expected, &some));
    }

    /// Short and long entries, ASCII and not, with and without nulls.
    #[test]
    fn dictionary_columns_equal_their_entries(
        entries in proptest::collection::vec(
            prop_oneof!["[a-z]{0,4}", "[a-z]{14,18}", "[a-z]{30,60}"], 1..20),
        umlaut: bool,
        rows in proptest::collection::vec(proptest::option::weighted(0.8, any::<prop::sample::Index>()), 1..300),
        nullable: bool,
        codec in prop_oneof![Just(None), Just(Some(Codec::Snappy)), Just(Some(Codec::Lz4))],
        steps in proptest::collection::vec((0u64..60, 0u64..30), 0..20),
    ) {
        let mut entries = entries;
        if umlaut {
            entries[0].push('ü');
        }
        let indexes: Vec<Option<usize>> = rows.iter().map(|row| row.map(|row| row.index(entries.len()))).collect();
        let indexes: Vec<_> = indexes.into_iter().filter(|index| nullable || index.is_some()).collect();
        let count = indexes.len() as u64;
        let present: Vec<bool> = indexes.iter().map(Option::is_some).collect();
        // A stripe has a row for each entry.
        let rows = count.max(entries.len() as u64);
        let mut file = Builder::column(TypeKind::String, Encoding::Dictionary, rows);
        file.codec = codec;
        file.chunks = vec![100, 7];
        file.dictionary_size(1, entries.len() as u32);
        if nullable {
            file.stream(1, Kind::Present, byte_rle(&bit_bytes(&present)));
        }
        file.stream(1, Kind::Data, literals(&indexes.iter().flatten().map(|&index| index as u8).collect::<Vec<_>>()));
        file.stream(1, Kind::Length, literals(&entries.iter().map(|entry| entry.len() as u8).collect::<Vec<_>>()));
        file.stream(1, Kind::DictionaryData, entries.concat());
        let expected: StringArray = indexes.iter().map(|index| index.map(|index| entries[index].as_str())).collect();
        let expected: ArrayRef = std::sync::Arc::new(expected);
        let (mut reader, _) = file.reader(None).unwrap();
        prop_assert_eq!(&reader.read(&all(count)).unwrap(), &expected);
        let some = selection(count, &steps);
        prop_assert_eq!(&reader.read(&some).unwrap(), &picked(&expected, &some));
    }
}

#[test]
fn dictionary_has_at_most_one_entry_per_row() {
    let mut file = Builder::column(TypeKind::String, Encoding::Dictionary, 6);
    file.dictionary_size(1, u32::MAX);
    file.stream(1, Kind::Data, literals(&[2, 0, 1, 1, 0, 2]));
    // Runs of 130 lengths of 1.
    file.stream(1, Kind::Length, [127, 0, 1].repeat(10_000));
    file.stream(1, Kind::DictionaryData, *b"axyz");
    let error = file.reader(None).unwrap().0.read(&all(6)).unwrap_err().to_string();
    assert!(
        error.contains("column 1 (c)") && error.contains("4294967295 entries in a stripe of 6 rows"),
        "{error}"
    );
}

#[test]
fn text_beyond_the_limit_is_refused_before_it_is_read() {
    let mut file = Builder::column(TypeKind::String, Encoding::Direct, 3);
    file.stream(1, Kind::Data, *b"abcdefghi");
    file.stream(1, Kind::Length, literals(&[3, 3, 3]));
    let (mut reader, _) = file.reader(None).unwrap();
    let error = reader.read_within(&all(3), 8).unwrap_err().to_string();
    assert!(
        error.contains("column c: 3 of its rows, read at once, take more than 8 bytes"),
        "{error}"
    );
    let read = reader.read_within(&RowSelection::range(1..3), 6).unwrap();
    assert_eq!(read.as_string::<i32>(), &StringArray::from(vec!["def", "ghi"]));
}
