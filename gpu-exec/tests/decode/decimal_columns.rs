//! Decimals at their column's scale: scales that differ, the widest values, and those that do not fit.

use grampus_gpu_exec::program::Type;
use grampus_orc_layout::encoded_column::{EncodedValues, RunLength};

use crate::BATCH_BYTES;
use crate::common::random::Random;
use crate::decode_target::{DecodeTarget, decode_targets};
use crate::streams::{self, CodedStream, Column};

/// A column of `decimal(38, scale)`, with a row for each of `scales`.
fn column(runs: RunLength, scale: i8, unscaled: CodedStream, scales: CodedStream) -> Column {
    let ty = Type::Decimal { precision: 38, scale };
    let rows = scales.values.len() as u64;
    Column::new(
        EncodedValues::Decimals(runs, scale),
        ty,
        None,
        unscaled,
        Some(scales),
        rows,
    )
}

/// The only value of a column, or the last one; `None`: an error.
fn last_value(target: &DecodeTarget, column: &Column) -> Option<i64> {
    let decoded = target.decode(column, 0..column.rows(), BATCH_BYTES)?;
    let (_, last) = decoded.values.split_last_chunk().expect("eight bytes");
    Some(i64::from_le_bytes(*last))
}

#[test]
fn decimals_take_their_columns_scale() {
    const MOST: i64 = i64::MAX;
    // Stored value, its scale, the column's scale, and the value. `None`: an error.
    let cases: &[(i64, i64, i8, Option<i64>)] = &[
        (MOST, 4, 4, Some(MOST)),
        (i64::MIN, 4, 4, Some(i64::MIN)),
        (i64::MIN, 0, 0, Some(i64::MIN)),
        // Half of the last digit and more is rounded away from zero.
        (124, 2, 1, Some(12)),
        (125, 2, 1, Some(13)),
        (-124, 2, 1, Some(-12)),
        (-125, 2, 1, Some(-13)),
        (12_499, 4, 1, Some(12)),
        (12_500, 4, 1, Some(13)),
        (-12_499, 4, 1, Some(-12)),
        (-12_500, 4, 1, Some(-13)),
        // Rounding digit by digit would give 1.
        (449, 3, 0, Some(0)),
        (-449, 3, 0, Some(0)),
        (499, 3, 0, Some(0)),
        (500, 3, 0, Some(1)),
        (-500, 3, 0, Some(-1)),
        (MOST, 1, 0, Some(922_337_203_685_477_581)),
        (i64::MIN, 1, 0, Some(-922_337_203_685_477_581)),
        (MOST, 18, 0, Some(9)),
        (i64::MIN, 18, 0, Some(-9)),
        (MOST, 19, 0, Some(1)),
        (4_999_999_999_999_999_999, 19, 0, Some(0)),
        (5_000_000_000_000_000_000, 19, 0, Some(1)),
        (-4_999_999_999_999_999_999, 19, 0, Some(0)),
        (-5_000_000_000_000_000_000, 19, 0, Some(-1)),
        (MOST, 20, 0, Some(0)),
        (i64::MIN, 20, 0, Some(0)),
        (MOST, MOST, 18, Some(0)),
        (-5, 1, 0, Some(-1)),
        (-4, 1, 0, Some(0)),
        // Zeros are appended, as far as the value fits.
        (-123, 2, 4, Some(-12_300)),
        (5, -3, 2, Some(500_000)),
        (922_337_203_685_477_580, 3, 4, Some(9_223_372_036_854_775_800)),
        (-922_337_203_685_477_580, 3, 4, Some(-9_223_372_036_854_775_800)),
        (922_337_203_685_477_581, 3, 4, None),
        (-922_337_203_685_477_581, 3, 4, None),
        (MOST, 3, 4, None),
        (i64::MIN, 3, 4, None),
        (9, 0, 18, Some(9_000_000_000_000_000_000)),
        (10, 0, 18, None),
        (1, 0, 19, None),
        (1, 0, 38, None),
        (1, -MOST, 0, None),
        (0, 0, 38, Some(0)),
        (0, -MOST, 0, Some(0)),
        // The difference of the scales has more than 63 bits: orc-layout's decoder returns an error.
        (0, i64::MIN, 0, None),
        (0, 2 - MOST, 4, None),
    ];
    for target in decode_targets() {
        for &(value, from, to, wanted) in cases {
            for runs in [RunLength::V1, RunLength::V2] {
                let scales = streams::of_one(runs, from);
                let found = last_value(&target, &column(runs, to, streams::varints(&[value]), scales));
                assert_eq!(found, wanted, "{value} at scale {from} to {to}, {} lanes", target.lanes);
            }
        }
    }
}

#[test]
fn varints_of_more_than_64_bits_are_errors() {
    let of = |bytes: &[u8]| {
        let scales = streams::literals(&[2, 2, 2], true);
        let unscaled = CodedStream::of_bytes(&[&[0x02, 0x03], bytes].concat(), vec![1, -2, 0]);
        column(RunLength::V1, 2, unscaled, scales)
    };
    let long = |last: &[u8]| [&[0xff; 8], last].concat();
    let cases: [(&str, Vec<u8>, Option<i64>); 9] = [
        ("the greatest value", long(&[0xff, 0x01]), Some(i64::MIN)),
        (
            "the greatest positive value",
            [&[0xfe], &[0xff; 8][..], &[0x01]].concat(),
            Some(i64::MAX),
        ),
        ("nine bytes", long(&[0x7f]), Some(-(1 << 62))),
        ("zero in ten bytes", [&[0x80; 9][..], &[0]].concat(), Some(0)),
        ("a 65th bit", long(&[0xff, 0x03]), None),
        ("a 70th bit", long(&[0xff, 0x40]), None),
        ("eleven bytes", long(&[0xff, 0x81, 0x00]), None),
        ("nineteen bytes", [&[0xff; 18][..], &[0x03]].concat(), None),
        ("no end", long(&[0xff, 0xff]), None),
    ];
    for target in decode_targets() {
        for (name, bytes, wanted) in &cases {
            assert_eq!(
                last_value(&target, &of(bytes)),
                *wanted,
                "{name}, {} lanes",
                target.lanes
            );
        }
    }
}

/// The kernel moves over varints of any length, and does not look at values of rows that are not decoded.
#[test]
fn wide_values_of_other_rows_do_not_matter() {
    let mut unscaled = streams::varints(&[7; 40]);
    let wide = [&[0xff; 18][..], &[0x03]].concat();
    unscaled.run(&wide, [0]);
    for value in 0..60 {
        unscaled.run(&[2 * value], [i64::from(value)]);
    }
    let scales = streams::of_one(RunLength::V2, 3);
    let scales = CodedStream::of_bytes(&scales.bytes.repeat(101), vec![3; 101]);
    let column = column(RunLength::V2, 3, unscaled, scales);
    for target in decode_targets() {
        target.check(&column, 0..40, BATCH_BYTES, "before");
        target.check(&column, 41..101, BATCH_BYTES, "behind");
        assert_eq!(
            target.decode(&column, 0..101, BATCH_BYTES),
            None,
            "{} lanes",
            target.lanes
        );
    }
}

#[test]
fn streams_of_too_few_values_are_errors() {
    let scales =
        |count: usize| CodedStream::of_bytes(&streams::of_one(RunLength::V2, 3).bytes.repeat(count), vec![3; 5]);
    let unscaled = |count: usize| CodedStream::of_bytes(&[14, 16, 18, 20, 22][..count], vec![7, 8, 9, 10, 11]);
    for target in decode_targets() {
        let found = |values, scale| last_value(&target, &column(RunLength::V2, 3, unscaled(values), scales(scale)));
        assert_eq!(found(5, 5), Some(11));
        assert_eq!([found(4, 5), found(5, 4), found(0, 5), found(5, 0)], [None; 4]);
    }
}

/// One value that does not fit fails the task, whichever lane has it.
#[test]
fn one_value_that_does_not_fit_fails_its_row_group() {
    let mut random = Random(11);
    for target in decode_targets() {
        for _ in 0..20 {
            let bad = random.below(100);
            let value = |row| if row == bad { 1 << 61 } else { 1 << 50 };
            let values: Vec<i64> = (0..100).map(value).collect();
            let scales = streams::literals(&[1; 100], true);
            let column = column(RunLength::V1, 2, streams::varints(&values), scales);
            assert_eq!(target.decode(&column, 0..100, BATCH_BYTES), None, "row {bad}");
            target.check(&column, 0..bad, BATCH_BYTES, "rows before");
            target.check(&column, bad + 1..100, BATCH_BYTES, "rows behind");
        }
    }
}
