//! Layout of written files: direct streams at aligned offsets, no PRESENT stream without nulls, runs that end with
//! their row group. A file is invalid until it is finished.

mod common;
mod tables;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::compute::take;
use bytes::Bytes;
use common::Memory;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::{Codec, decompress_over};
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::write::{ArrowWriter, CHUNK_ALIGNMENT_BYTES, WriterProperties};
use grampus_orc_layout::{Result, metadata_reader};
use tables::{Nulls, every_type, write};

const DIRECT: [&str; 3] = ["float", "double", "wild"];

fn tail_of(file: &Bytes) -> FileTail {
    metadata_reader::read_tail(&"written".into(), file.len() as u64, &Memory(file.clone())).unwrap()
}

#[test]
fn direct_streams_are_aligned_in_every_stripe() {
    for (codec, alignment) in [
        (None, 4096),
        (None, 64),
        (Some(Codec::Zstd), 4096),
        (Some(Codec::Snappy), 4096),
    ] {
        let batch = every_type(5000, Nulls::None, 1);
        let options = WriterProperties {
            codec,
            chunk_size_bytes: 1000,
            direct_columns: DIRECT.map(String::from).into(),
            stripe_rows: 1234,
            alignment_bytes: alignment,
            ..WriterProperties::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        let tail = tail_of(&file);
        assert_eq!(tail.stripes.len(), 5);
        for info in &tail.stripes {
            let stripe = metadata_reader::read_stripe(&tail, &Memory(file.clone()), info.index).unwrap();
            for name in DIRECT {
                let column = tail.schema.fields()[batch.schema().index_of(name).unwrap()];
                assert!(stripe.stream(column, Kind::Present).is_none());
                let data = stripe.stream(column, Kind::Data).unwrap();
                let (first, step) = match codec {
                    None => (data.offset, alignment),
                    Some(_) => (data.offset + 3, CHUNK_ALIGNMENT_BYTES),
                };
                assert!(
                    first.is_multiple_of(step),
                    "{codec:?} stripe {} {name}: {first}",
                    info.index
                );
            }
        }
    }
}

#[test]
fn chunk_sizes_follow_the_kind_of_the_column() {
    let batch = every_type(40_000, Nulls::None, 5);
    let options = WriterProperties {
        codec: Some(Codec::Zlib),
        chunk_size_bytes: 20_000,
        number_chunk_size_bytes: Some(3000),
        dictionary_threshold: 0.0,
        ..WriterProperties::default()
    };
    let file = write(std::slice::from_ref(&batch), options);
    let tail = tail_of(&file);
    assert_eq!(tail.compression.unwrap().block_size_bytes, 20_000);
    let stripe = metadata_reader::read_stripe(&tail, &Memory(file.clone()), 0).unwrap();
    for (name, kind, expected) in [
        ("double", Kind::Data, 3000),
        ("wild", Kind::Data, 3000),
        ("time", Kind::Data, 3000),
        ("text", Kind::Data, 20_000),
        ("text", Kind::Length, 20_000),
    ] {
        let column = tail.schema.fields()[batch.schema().index_of(name).unwrap()];
        let stream = stripe.stream(column, kind).unwrap();
        let bytes = &file[stream.offset as usize..(stream.offset + stream.length) as usize];
        let header = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
        let chunk = &bytes[3..3 + (header >> 1) as usize];
        let mut plain = Vec::new();
        match header & 1 {
            1 => plain.extend_from_slice(chunk),
            _ => decompress_over(Codec::Zlib, 20_000, chunk, &mut plain).unwrap(),
        }
        assert_eq!(plain.len(), expected, "{name} {kind:?}");
    }
}

#[test]
fn chunk_size_of_numbers_is_at_most_the_chunk_size() {
    let options = WriterProperties {
        chunk_size_bytes: 1000,
        number_chunk_size_bytes: Some(1001),
        ..WriterProperties::default()
    };
    let schema = every_type(1, Nulls::None, 6).schema();
    let error = ArrowWriter::try_new(Vec::new(), schema, Some(options)).err().unwrap();
    assert!(
        error
            .to_string()
            .contains("between 64 and the chunk size of 1000 bytes, not 1001"),
        "{error}"
    );
}

#[test]
fn padding_is_absent_without_alignment() {
    let batch = every_type(3000, Nulls::None, 2);
    let options = WriterProperties {
        alignment_bytes: 1,
        stripe_rows: 1000,
        ..WriterProperties::default()
    };
    let file = write(std::slice::from_ref(&batch), options);
    let mut end = 3;
    for info in &tail_of(&file).stripes {
        assert_eq!(info.offset, end);
        end = info.footer_range().end;
    }
}

#[test]
fn row_groups_are_entered_without_skipping_values() {
    let batch = every_type(3000, Nulls::Some, 3);
    let options = WriterProperties {
        row_index_stride: 700,
        ..WriterProperties::default()
    };
    let file = write(std::slice::from_ref(&batch), options);
    let (tail, source) = (tail_of(&file), Memory(file.clone()));
    let stripe = metadata_reader::read_stripe(&tail, &source, 0).unwrap();
    // PRESENT: byte, bytes to skip, bits; then for each integer stream: byte, values to skip.
    for (name, arity, skips) in [
        ("int", 5, &[1, 4][..]),
        ("time", 7, &[1, 4, 6]),
        ("double", 4, &[1]),
        ("text", 6, &[1, 5]),
    ] {
        let column = tail.schema.fields()[batch.schema().index_of(name).unwrap()];
        let index = metadata_reader::read_index(&tail, &stripe, &source, column).unwrap();
        assert_eq!(index.positions.len(), 5);
        for positions in &index.positions {
            assert_eq!(positions.len(), arity, "{name}");
            assert!(skips.iter().all(|&at| positions[at] == 0), "{name}: {positions:?}");
        }
    }
}

#[test]
fn unfinished_file_is_refused() {
    let batch = every_type(3000, Nulls::None, 4);
    let mut bytes = Vec::new();
    let options = WriterProperties {
        stripe_rows: 1000,
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    assert_eq!(writer.rows(), 3000);
    drop(writer);
    let file = Bytes::from(bytes);
    assert!(file.len() > 100_000);
    assert!(metadata_reader::read_tail(&"written".into(), file.len() as u64, &Memory(file.clone())).is_err());
}

/// Most row groups of a column like `ehail_fee` have no value: nothing of them is read, and their rows are null.
#[test]
fn row_groups_without_a_value_are_not_read() {
    let rows = 10_000;
    let text = |row: usize| (row / 100 == 42).then(|| format!("row {row}"));
    let number = |row: usize| (row / 100 == 42 && row.is_multiple_of(3)).then_some(row as f64);
    let batch = RecordBatch::try_from_iter([
        (
            "number",
            Arc::new(Float64Array::from_iter((0..rows).map(number))) as ArrayRef,
        ),
        ("text", Arc::new(StringArray::from_iter((0..rows).map(text)))),
    ])
    .unwrap();
    for codec in [None, Some(Codec::Snappy)] {
        let options = WriterProperties {
            codec,
            row_index_stride: 100,
            ..WriterProperties::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        let source = Arc::new(Counted(Memory(file.clone()), AtomicU64::new(0)));
        let tail = Arc::new(tail_of(&file));
        let stripe = Arc::new(metadata_reader::read_stripe(&tail, &*source, 0).unwrap());
        for (&column, expected) in tail.schema.fields().iter().zip(batch.columns()) {
            let index = Arc::new(metadata_reader::read_index(&tail, &stripe, &*source, column).unwrap());
            let access = Access::of(&tail, &stripe, column, Some(&index), &*source, true).unwrap();
            let (tail, stripe, counted) = (tail.clone(), stripe.clone(), source.clone());
            let mut reader = ColumnReader::new(tail, stripe, column, Some(index), access, counted).unwrap();
            let mut read = |selected: &[Range<u64>]| {
                let mut selection = RowSelection::new();
                selected.iter().for_each(|range| selection.push(range.clone()));
                source.1.store(0, Ordering::Relaxed);
                let got = reader.read(&selection).unwrap();
                let places = UInt64Array::from_iter_values(selection.iter());
                assert_eq!(&got, &take(expected, &places, None).unwrap(), "{codec:?} {selected:?}");
                source.1.load(Ordering::Relaxed)
            };
            assert_eq!(read(&[0..1, 150..350, 9000..9001]), 0);
            assert!(read(&[7..8, 4150..4260, 9000..9500]) > 0);
            read(&[4199..4301, 4400..4401]);
            read(&[0..4250, 4260..10_000]);
        }
    }
}

/// A source that counts the bytes of every read.
struct Counted(Memory, AtomicU64);

impl ByteSource for Counted {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.1.fetch_add(range.end - range.start, Ordering::Relaxed);
        self.0.read(range)
    }
}
