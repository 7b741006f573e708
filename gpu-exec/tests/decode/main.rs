//! The decoding kernel on hand-made streams: the specification's examples, every kind of run at every width, and any
//! range of rows.
//!
//! ```text
//! decode_target    devices that decode
//! streams          streams and columns with their values
//! random_columns   a column of each encoding
//! decimal_columns  scales of decimals, and values that do not fit
//! damaged_streams  malformed streams
//! sanitized_input  the kernel under sanitizers
//! ```
//!
//! The engine's tests compare the kernel with orc-layout's decoder on files.

#[path = "../common/mod.rs"]
mod common;
mod damaged_streams;
mod decimal_columns;
mod decode_target;
mod random_columns;
mod sanitized_input;
mod streams;

use std::sync::Arc;

use common::random::Random;
use decode_target::{DecodeTarget, decode_targets};
use grampus_gpu_exec::program::Type;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::{Clock, ClockChange};
use grampus_orc_layout::encoded_column::{EncodedValues, RunLength};
use random_columns::{TIME, random_columns};
use streams::{CodedStream, Column};

const BATCH_BYTES: usize = 1 << 22;

/// Checks all rows and a few ranges, in large batches and in small ones.
fn check_ranges(target: &DecodeTarget, column: &Column, random: &mut Random, what: &str) {
    let rows = column.rows();
    target.check(column, 0..rows, BATCH_BYTES, what);
    for _ in 0..4 {
        let (a, b) = (random.below(rows + 1), random.below(rows + 1));
        target.check(column, a.min(b)..a.max(b), BATCH_BYTES, what);
    }
    let first = random.below(rows);
    target.check(column, first..first + 1, BATCH_BYTES, what);
    // No batch holds less than a row group, and of a compressed one the chunks.
    if column.encoded.data.chunks.is_none() {
        target.check(column, 0..rows, column.largest_group_bytes(), what);
    }
}

#[test]
fn examples_of_the_specification_decode() {
    let zigzag = |v: i64| (v >> 1) ^ -(v & 1);
    let v2: &[(&[u8], Vec<i64>)] = &[
        (&[0x0a, 0x27, 0x10], vec![zigzag(10_000); 5]),
        (
            &[0x5e, 0x03, 0x5c, 0xa1, 0xab, 0x1e, 0xde, 0xad, 0xbe, 0xef],
            [23713, 43806, 57005, 48879].map(zigzag).to_vec(),
        ),
        (
            &[
                0x8e, 0x13, 0x2b, 0x21, 0x07, 0xd0, 0x1e, 0x00, 0x14, 0x70, 0x28, 0x32, 0x3c, 0x46, 0x50, 0x5a, 0x64,
                0x6e, 0x78, 0x82, 0x8c, 0x96, 0xa0, 0xaa, 0xb4, 0xbe, 0xfc, 0xe8,
            ],
            [2030, 2000, 2020, 1_000_000]
                .into_iter()
                .chain((2040..=2190).step_by(10))
                .collect(),
        ),
        // The specification stores the first prime unsigned: as a signed base it is half of it.
        (
            &[0xc6, 0x09, 0x02, 0x02, 0x22, 0x42, 0x42, 0x46],
            [2, 3, 5, 7, 11, 13, 17, 19, 23, 29].map(|v| v - 1).to_vec(),
        ),
    ];
    let v1: &[(&[u8], Vec<i64>)] = &[
        (&[0x61, 0x00, 0x07], vec![zigzag(7); 100]),
        (&[0x61, 0xff, 0x64], (0..100).map(|k| zigzag(100) - k).collect()),
        (
            &[0xfb, 0x02, 0x03, 0x06, 0x07, 0x0b],
            [2, 3, 6, 7, 11].map(zigzag).to_vec(),
        ),
    ];
    let bytes: &[(&[u8], Vec<i64>)] = &[(&[0x61, 0x00], vec![0; 100]), (&[0xfe, 0x44, 0x45], vec![0x44, 0x45])];
    let bits: &[(&[u8], Vec<i64>)] = &[(&[0xff, 0x80], vec![1, 0, 0, 0, 0, 0, 0, 0])];
    let all = [
        (v2, EncodedValues::Integers(RunLength::V2), Type::Int64),
        (v1, EncodedValues::Integers(RunLength::V1), Type::Int64),
        (bytes, EncodedValues::Bytes, Type::Int8),
        (bits, EncodedValues::Booleans, Type::Bool),
    ];
    for target in decode_targets() {
        for (examples, values, ty) in &all {
            for (bytes, wanted) in *examples {
                let data = CodedStream::of_bytes(bytes, wanted.clone());
                let column = Column::new(values.clone(), *ty, None, data, None, wanted.len() as u64);
                target.check(&column, 0..wanted.len() as u64, BATCH_BYTES, &format!("{bytes:02x?}"));
            }
        }
        // Unsigned values, as a dictionary's indexes: the direct run, and the primes.
        let codes: [(&[u8], Vec<i64>); 2] = [
            (v2[1].0, vec![23713, 43806, 57005, 48879]),
            (v2[3].0, vec![2, 3, 5, 7, 11, 13, 17, 19, 23, 29]),
        ];
        for (bytes, indexes) in codes {
            let rows = indexes.len() as u64;
            let mut column = Column::new(
                EncodedValues::Dictionary(RunLength::V2, 1 << 16),
                Type::Code,
                None,
                CodedStream::of_bytes(bytes, indexes),
                None,
                rows,
            );
            column.use_codes((0..1 << 16).map(|k| k * 7 + 3).collect());
            target.check(&column, 0..rows, BATCH_BYTES, "indexes");
        }
    }
}

#[test]
fn random_columns_decode_at_any_rows() {
    for target in decode_targets() {
        // Lockstep lanes on host threads are slow.
        let seeds = if target.device.is_host() && target.lanes > 1 {
            4
        } else {
            12
        };
        for seed in 1..=seeds {
            let mut random = Random(seed);
            for (name, column) in random_columns(&mut random, seed) {
                check_ranges(&target, &column, &mut random, &name);
            }
        }
    }
}

/// Chunks end anywhere: in a run, in a value, in a row group.
#[test]
fn compressed_columns_decode_at_any_rows() {
    for target in decode_targets() {
        let seeds = if target.device.is_host() && target.lanes > 1 {
            2
        } else {
            12
        };
        for seed in 1..=seeds {
            let mut random = Random(seed * 31);
            for (name, column) in random_columns(&mut random, seed) {
                if column.can_be_compressed() {
                    let column = column.compressed(&mut random);
                    check_ranges(&target, &column, &mut random, &format!("{name}, compressed"));
                }
            }
        }
    }
}

/// Row groups of many columns in one launch, as pages that kernels miss: any of them, also neighbours in one chunk.
#[test]
fn row_groups_of_many_columns_decode_together() {
    for target in decode_targets() {
        let seeds = if target.device.is_host() && target.lanes > 1 {
            2
        } else {
            8
        };
        for seed in 1..=seeds {
            let mut random = Random(seed * 57);
            let columns: Vec<Column> = random_columns(&mut random, seed)
                .into_iter()
                .map(|(_, column)| column)
                .collect();
            let compressible = columns.iter().filter(|column| column.can_be_compressed());
            let compressed: Vec<Column> = compressible.map(|column| column.compressed(&mut random)).collect();
            let of_codec = |codec| {
                let same = compressed.iter().filter(|column| column.encoded.codec() == Some(codec));
                same.cloned().collect::<Vec<Column>>()
            };
            for columns in [columns, of_codec(Codec::Snappy), of_codec(Codec::Lz4)] {
                let groups = |column: &Column| column.encoded.data.entries.len();
                let all = columns
                    .iter()
                    .enumerate()
                    .flat_map(|(at, column)| (0..groups(column)).map(move |g| (at, g)));
                let all: Vec<(usize, usize)> = all.collect();
                let some: Vec<_> = all.iter().copied().filter(|_| random.below(3) == 0).collect();
                assert_eq!(target.check_groups(&columns, &some, 16 * BATCH_BYTES), some.len());
                let copied = target.check_groups(&columns, &all, 40_000);
                assert!(copied <= all.len());
            }
        }
    }
}

#[test]
fn version_2_runs_decode_at_every_width() {
    for target in decode_targets() {
        for code in 0..32 {
            let mut random = Random(code as u64 + 77);
            for data in streams::runs_of_width(&mut random, code) {
                let rows = data.values.len() as u64;
                let column = Column::new(
                    EncodedValues::Integers(RunLength::V2),
                    Type::Int64,
                    None,
                    data,
                    None,
                    50,
                );
                target.check(&column, 0..rows, BATCH_BYTES, &format!("width code {code}"));
                let first = random.below(rows);
                target.check(&column, first..rows, BATCH_BYTES, &format!("width code {code}"));
            }
        }
    }
}

/// A layout that does not hold a value fails the column.
#[test]
fn values_beyond_the_layout_fail() {
    for target in decode_targets() {
        for (values, least, greatest) in [
            (vec![0i64, 255, 7], 0, 255),
            (vec![-128, 127, 0], -128, 127),
            (vec![65_535, 0], 0, 65_535),
            (vec![-32_768, 32_767], -32_768, 32_767),
            (vec![0, 1 << 31, u32::MAX.into()], 0, u32::MAX.into()),
            (vec![i32::MIN.into(), 5], i32::MIN.into(), i32::MAX.into()),
        ] {
            let rows = values.len() as u64;
            let data = streams::literals(&values, true);
            let column = Column::new(
                EncodedValues::Integers(RunLength::V1),
                Type::Int64,
                None,
                data,
                None,
                rows,
            );
            target.check(
                &column.within((least, greatest)),
                0..rows,
                BATCH_BYTES,
                "values that fit",
            );
            for beyond in [least - 1, greatest + 1] {
                let data = streams::literals(&[values.clone(), vec![beyond]].concat(), true);
                let column = Column::new(
                    EncodedValues::Integers(RunLength::V1),
                    Type::Int64,
                    None,
                    data,
                    None,
                    rows + 1,
                );
                let column = column.within((least, greatest));
                let found = target.decode(&column, 0..rows + 1, BATCH_BYTES);
                assert_eq!(found, None, "{beyond} in {:?}, {} lanes", column.stored, target.lanes);
            }
        }
        // Floats are whole numbers that fit, and not -0.
        for (ty, width) in [(Type::Float64, 8), (Type::Float32, 4)] {
            let column = |values: &[f64], bounds| {
                let data = streams::floats(values, width);
                Column::new(EncodedValues::Floats, ty, None, data, None, values.len() as u64).within(bounds)
            };
            for (values, bounds) in [
                (vec![0.0, 1.0, 255.0, 128.0], (0, 255)),
                (vec![-128.0, 127.0, -1.0], (-128, 127)),
                (vec![65_535.0, 256.0], (0, 65_535)),
                (vec![-32_768.0, 32_767.0], (-32_768, 32_767)),
            ] {
                let rows = 0..values.len() as u64;
                target.check(&column(&values, bounds), rows.clone(), BATCH_BYTES, "floats that fit");
                let (least, greatest) = (bounds.0 as f64, bounds.1 as f64);
                for other in [
                    least - 1.0,
                    greatest + 1.0,
                    -0.0,
                    0.5,
                    greatest - 0.5,
                    f64::from(f32::MIN_POSITIVE) / 4.0,
                    16_777_216.0,
                    1e30,
                    f64::INFINITY,
                    f64::NAN,
                ] {
                    let column = column(&[values.clone(), vec![other]].concat(), bounds);
                    let found = target.decode(&column, 0..rows.end + 1, BATCH_BYTES);
                    assert_eq!(found, None, "{other} in {:?}, {} lanes", column.stored, target.lanes);
                }
            }
        }
        // Codes, and numbers that a function makes of a dictionary's entries, some of them negative.
        for (ty, numbers, fits) in [
            (Type::Code, vec![0, 255], true),
            (Type::Code, vec![0, 256], false),
            (Type::Int32, vec![200, 3], true),
            (Type::Int32, vec![200, (-1i32).cast_unsigned()], false),
        ] {
            let data = streams::literals(&[0, 1, 1], false);
            let mut column = Column::new(EncodedValues::Dictionary(RunLength::V1, 2), ty, None, data, None, 3);
            column.use_codes(numbers);
            let column = column.within((0, 255));
            let found = target.decode(&column, 0..3, BATCH_BYTES);
            assert_eq!(
                found.is_some(),
                fits,
                "{ty}, {:?}, {} lanes",
                column.codes,
                target.lanes
            );
            if fits {
                target.check(&column, 0..3, BATCH_BYTES, "codes that fit");
            }
        }
    }
}

/// Times before 1970, at both ends of the range of nanoseconds, and in a zone with a changing clock.
#[test]
fn timestamps_decode_by_the_rules_of_writers() {
    let epoch = 1_420_070_400;
    let zone: Arc<[ClockChange]> = [(-2_000_000_000, 3600), (0, -28_800), (100, -25_200), (4_000_000_000, 0)]
        .map(|(from, offset)| ClockChange { from, offset })
        .into();
    // Seconds since 1970, stored nanoseconds, and the time by UTC and by the zone. `None`: an error.
    let cases: &[(i64, i64, Option<i64>, Option<i64>)] = &[
        (0, 0, Some(0), Some(-28_800_000_000_000)),
        (
            99,
            5 << 3,
            Some(99_000_000_005),
            Some((99 - 28_800) * 1_000_000_000 + 5),
        ),
        (
            100,
            0x0a,
            Some(100_000_001_000),
            Some((100 - 25_200) * 1_000_000_000 + 1000),
        ),
        // A second that the writer rounded up, and one with too small a fraction for that.
        (-1, 999_000_000 << 3, Some(-1_001_000_000), Some(3_598_999_000_000)),
        (-1, 999_999 << 3, Some(-999_000_001), Some(3_599_000_999_999)),
        (9_223_372_036, 854_775_807 << 3, Some(i64::MAX), None),
        (9_223_372_036, 854_775_808 << 3, None, None),
        (9_223_372_037, 0, None, None),
        (-9_223_372_036, 145_224_192 << 3, Some(i64::MIN), None),
        (-9_223_372_036, 145_224_191 << 3, None, None),
        (0, 1_000_000_000 << 3, None, None),
        (0, (10_000_000 << 3) | 7, None, None),
        (0, -8, None, None),
        (i64::MAX - epoch, 0, None, None),
        (i64::MIN + epoch, 0, None, None),
        (-2_000_000_001, 0, Some(-2_000_000_001_000_000_000), None),
        (4_000_000_000, 0, Some(4_000_000_000_000_000_000), None),
    ];
    for target in decode_targets() {
        for &(seconds, nanos, by_utc, by_zone) in cases {
            for (zone, wanted) in [(None, by_utc), (Some(zone.clone()), by_zone)] {
                let stored = seconds.wrapping_sub(epoch);
                let clock = Clock { epoch, changes: zone };
                let column = Column::new(
                    EncodedValues::Timestamps(RunLength::V1, clock),
                    TIME,
                    None,
                    streams::literals(&[stored], true),
                    Some(streams::literals(&[nanos], false)),
                    1,
                );
                let found = target.decode(&column, 0..1, BATCH_BYTES);
                let found = found.map(|d| i64::from_le_bytes(d.values.try_into().expect("one value")));
                assert_eq!(found, wanted, "{seconds} s, {nanos:#x} stored, {} lanes", target.lanes);
            }
        }
    }
}
