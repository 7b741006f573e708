//! Streams that no writer makes: the kernel ends in an error or in values, on every device alike.

use grampus_gpu_exec::program::Type;
use grampus_orc_layout::encoded_column::{EncodedValues, RunLength};

use crate::BATCH_BYTES;
use crate::common::random::Random;
use crate::decode_target::decode_targets;
use crate::random_columns::random_columns;
use crate::streams::{CodedStream, Column};

#[test]
fn malformed_streams_are_errors() {
    let integers = |bytes: &[u8], runs, ty, rows: usize| {
        Column::new(
            EncodedValues::Integers(runs),
            ty,
            None,
            CodedStream::of_bytes(bytes, vec![0; rows]),
            None,
            rows as u64,
        )
    };
    let nulls = {
        let present = CodedStream::of_bytes(&[0xff, 0x80], vec![1, 0, 0, 0, 0, 0, 0, 0]);
        let data = CodedStream::of_bytes(&[0xff, 0x02], vec![1]);
        let mut column = Column::new(
            EncodedValues::Integers(RunLength::V1),
            Type::Int64,
            Some(present),
            data,
            None,
            8,
        );
        column.nullable = false;
        column
    };
    let mut too_large = Column::new(
        EncodedValues::Dictionary(RunLength::V1, 4),
        Type::Code,
        None,
        CodedStream::of_bytes(&[0xff, 0x04], vec![4]),
        None,
        1,
    );
    too_large.use_codes(vec![5, 6, 7, 8]);
    let cases = [
        ("no bytes", integers(&[], RunLength::V2, Type::Int64, 1)),
        (
            "a header without a body",
            integers(&[0x5e, 0x03, 0x5c], RunLength::V2, Type::Int64, 4),
        ),
        (
            "fewer values than rows",
            integers(&[0x0a, 0x27, 0x10], RunLength::V2, Type::Int64, 6),
        ),
        (
            "an endless varint",
            integers(&[0xff; 40], RunLength::V1, Type::Int64, 1),
        ),
        (
            "eleven bytes of varint",
            integers(
                &[0xff, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1],
                RunLength::V1,
                Type::Int64,
                1,
            ),
        ),
        // A run of eight values of one bit, with one patch of one bit and a gap of 9.
        (
            "a patch beyond its run",
            integers(&[0x80, 7, 0x00, 0x61, 0x00, 0xff, 0x98], RunLength::V2, Type::Int64, 8),
        ),
        (
            "a patch of more than 64 bits",
            integers(
                &[0x80, 0, 0x1f, 0x01, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                RunLength::V2,
                Type::Int64,
                1,
            ),
        ),
        (
            "a value of 17 bits",
            integers(&[0xff, 0x80, 0x80, 0x04], RunLength::V1, Type::Int16, 1),
        ),
        ("an index beyond the dictionary", too_large),
        ("a missing value where there must be one", nulls),
    ];
    for target in decode_targets() {
        for (name, column) in &cases {
            let rows = column.rows();
            assert_eq!(
                target.decode(column, 0..rows, BATCH_BYTES),
                None,
                "{name}, {} lanes",
                target.lanes
            );
        }
    }
}

/// Random bytes are damaged. The kernel ends, writes nowhere else
/// ([`decode`](grampus_gpu_exec::decode::standalone::decode) checks that), and all devices agree on the result.
#[test]
fn damaged_streams_end_in_values_or_in_an_error() {
    let targets = decode_targets();
    let (mut errors, mut values) = (0, 0);
    for seed in 100..130 {
        let mut random = Random(seed);
        for (name, mut column) in random_columns(&mut random, seed) {
            if seed % 2 == 0 && column.can_be_compressed() {
                column = column.compressed(&mut random);
            }
            let len = column.file.len() as u64;
            for _ in 0..1 + random.below(4) {
                let at = random.below(len) as usize;
                column.file[at] = random.below(256) as u8;
            }
            let (a, b) = (random.below(column.rows() + 1), random.below(column.rows() + 1));
            let rows = a.min(b)..a.max(b);
            let found: Vec<_> = targets
                .iter()
                .map(|t| t.decode(&column, rows.clone(), BATCH_BYTES))
                .collect();
            match found.first() {
                Some(None) => errors += 1,
                Some(Some(_)) => values += 1,
                None => {}
            }
            assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{name}, rows {rows:?}");
        }
    }
    println!("{errors} errors, {values} decoded");
    assert!(
        targets.is_empty() || (errors > 50 && values > 50),
        "{errors} errors, {values} decoded"
    );
}
