//! Encoded columns of decimals: their streams, and where each row group's varints and scales begin.

mod common;

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, RecordBatch};
use bytes::Bytes;
use common::edited_file::edited;
use common::{Memory, Random};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::encoded_column::{EncodedColumn, EncodedStream, EncodedValues, RunLength, may_be_encoded};
use grampus_orc_layout::metadata_reader::{read_index, read_stripe, read_tail};
use grampus_orc_layout::proto::column_encoding::Kind as Encoding;
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

const STRIDE: usize = 100;

fn write(values: &[Option<i128>], (precision, scale): (u8, i8), codec: Option<Codec>) -> Bytes {
    let decimals = Decimal128Array::from(values.to_vec()).with_precision_and_scale(precision, scale);
    let batch = RecordBatch::try_from_iter_with_nullable([("d", Arc::new(decimals.unwrap()) as ArrayRef, true)]);
    let batch = batch.unwrap();
    let options = WriterProperties {
        row_index_stride: STRIDE as u32,
        codec,
        chunk_size_bytes: 256,
        ..WriterProperties::default()
    };
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(options)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap().into()
}

/// The column of a file's only stripe, and whether the footer allows it.
fn encoded(file: Bytes) -> (Option<EncodedColumn>, bool) {
    let source = Memory(file);
    let tail = read_tail(&"written".into(), source.0.len() as u64, &source).unwrap();
    let stripe = read_stripe(&tail, &source, 0).unwrap();
    let index = read_index(&tail, &stripe, &source, 1).unwrap();
    let column = EncodedColumn::of(&tail, &stripe, 1, Some(&index), &source);
    (column, may_be_encoded(&tail, &stripe, 1))
}

/// Random decimals of up to `digits` digits, some missing.
fn decimals(random: &mut Random, digits: u32, rows: usize) -> Vec<Option<i128>> {
    let value = |_| {
        let magnitude = 10i128.pow(1 + random.below(digits as usize) as u32);
        let value = i128::from(random.next()) << 64 | i128::from(random.next());
        (random.below(4) > 0).then_some(value % magnitude)
    };
    (0..rows).map(value).collect()
}

/// Bytes of the zigzag varints of the values.
fn varint_bytes(values: &[Option<i128>]) -> u64 {
    let bits = |value: &i128| 128 - (value << 1 ^ value >> 127).leading_zeros().min(127);
    values
        .iter()
        .flatten()
        .map(|value| u64::from(bits(value).div_ceil(7)))
        .sum()
}

fn groups(rows: usize) -> impl Iterator<Item = Range<usize>> {
    (0..rows)
        .step_by(STRIDE)
        .map(move |first| first..rows.min(first + STRIDE))
}

#[test]
fn decimals_are_entered_at_the_varints_of_each_row_group() {
    let mut random = Random(3);
    for (precision, scale, codec) in [
        (18, 2, None),
        (18, 0, Some(Codec::Snappy)),
        (7, 7, Some(Codec::Zlib)),
        (38, 10, None),
        (38, 10, Some(Codec::Lz4)),
    ] {
        let values = decimals(&mut random, u32::from(precision), 1050);
        let (column, _) = encoded(write(&values, (precision, scale), codec));
        let column = column.unwrap();
        assert_eq!(column.values, EncodedValues::Decimals(RunLength::V2, scale));
        assert_eq!(column.group_rows, STRIDE as u64);
        let secondary = column.secondary.unwrap();
        for stream in [&column.data, &secondary, column.present.as_ref().unwrap()] {
            assert_eq!((stream.entries.len(), stream.chunks.is_some()), (11, codec.is_some()));
        }
        let mut at = 0;
        for (entry, rows) in column.data.entries.iter().zip(groups(values.len())) {
            let end = at + varint_bytes(&values[rows]);
            assert_eq!(
                (entry.at, entry.skip, entry.end),
                (at, 0, end),
                "{precision}, {codec:?}"
            );
            at = end;
        }
        assert_eq!(column.data.length, at);
        check_scales(&secondary);
    }
}

/// Each row group has a run of two bytes or more.
fn check_scales(scales: &EncodedStream) {
    for pair in scales.entries.windows(2) {
        assert!(
            pair[0].at + 2 <= pair[0].end && pair[0].at + 2 <= pair[1].at,
            "{pair:?}"
        );
    }
    assert_eq!(scales.entries.last().map(|last| last.end), Some(scales.length));
}

#[test]
fn version_1_scales_are_those_of_the_direct_encoding() {
    let file = edited(&write(&[Some(7), None, Some(-8)], (9, 2), None), |parts| {
        parts.stripe_footer.columns[1].kind = Some(Encoding::Direct as i32);
    });
    let (column, _) = encoded(file.into());
    assert_eq!(column.unwrap().values, EncodedValues::Decimals(RunLength::V1, 2));
}

#[test]
fn decimals_without_scales_of_their_own_are_not_encoded() {
    let values = [Some(7), None, Some(-8)];
    assert!(encoded(write(&values, (9, 2), None)).1);
    let file = edited(&write(&values, (9, 2), None), |parts| {
        let scales = parts.stripe_footer.streams.iter_mut();
        for stream in scales.filter(|stream| stream.kind() == Kind::Secondary) {
            stream.kind = Some(Kind::Length as i32);
        }
    });
    assert_eq!(encoded(file.into()), (None, false));
    // No value has a scale.
    assert_eq!(encoded(write(&[None; 3], (9, 2), None)).0, None);
}
