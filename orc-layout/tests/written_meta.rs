//! Metadata of written files: every statistic and filter agrees with the values, the planned ranges hold, and the
//! requested columns are direct.

mod common;
mod tables;

use arrow::array::RecordBatch;
use bytes::Bytes;
use common::plan_check::{Plans, check_plans};
use common::statistics_check::check_statistics;
use common::{Memory, Random};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::metadata_reader;
use grampus_orc_layout::report::FileReport;
use grampus_orc_layout::write::WriterProperties;
use tables::{Nulls, every_type, write};

/// Row groups that start in the middle of a byte of PRESENT share that byte's run. The plan knows the length of a run;
/// a decoder that reads 512 bytes instead fails.
#[test]
fn row_groups_of_partial_bytes_stay_inside_the_plan() {
    let batch = every_type(20_000, Nulls::Some, 3);
    let mut random = Random(5);
    for row_index_stride in [1001, 1500, 2047] {
        let options = WriterProperties {
            row_index_stride,
            ..WriterProperties::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        let mut found = Plans::default();
        for _ in 0..8 {
            check_plans("written", file.clone(), &mut random, &mut found);
        }
        assert!(found.partial > 50, "{found:?}");
    }
}

const CODECS: [Option<Codec>; 5] = [
    None,
    Some(Codec::Zlib),
    Some(Codec::Snappy),
    Some(Codec::Lz4),
    Some(Codec::Zstd),
];

fn check(batch: &RecordBatch, file: Bytes, random: &mut Random, found: &mut Plans) {
    let source = Memory(file.clone());
    let tail = metadata_reader::read_tail(&"written".into(), file.len() as u64, &source).unwrap();
    assert_eq!(tail.rows, batch.num_rows() as u64);
    assert_eq!(tail.writer, concat!("grampus ", env!("CARGO_PKG_VERSION")));
    let (statistics, filters) = check_statistics(&tail, &source, batch.columns());
    assert!(
        statistics > 100 && filters > 10,
        "{statistics} statistics, {filters} filters"
    );
    check_plans("written", file, random, found);
    let report = FileReport::build(&tail, &source, &Default::default()).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn statistics_filters_and_plans_hold() {
    let mut random = Random(3);
    let mut found = Plans::default();
    for (k, codec) in CODECS.into_iter().enumerate() {
        for nulls in [Nulls::None, Nulls::Some] {
            let batch = every_type(3000, nulls, k as u64);
            let options = WriterProperties {
                codec,
                chunk_size_bytes: 1000,
                direct_columns: vec!["double".into(), "float".into()],
                row_index_stride: 500,
                stripe_rows: 2000,
                bloom_filter_columns: ["int", "double", "word", "text"].map(str::to_owned).to_vec(),
                ..WriterProperties::default()
            };
            check(
                &batch,
                write(std::slice::from_ref(&batch), options),
                &mut random,
                &mut found,
            );
        }
    }
    // Without nulls and codec, all three columns of floats are direct; with a codec, only the requested ones.
    println!("{found:?}");
    assert_eq!(found.direct_columns, 2 * (3 + 4 * 2));
}

#[test]
fn direct_columns_lie_at_the_offsets_of_their_access() {
    for codec in CODECS {
        let batch = every_type(3000, Nulls::None, 1);
        let options = WriterProperties {
            codec,
            chunk_size_bytes: 1000,
            direct_columns: vec!["double".into()],
            ..WriterProperties::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        let source = Memory(file.clone());
        let tail = metadata_reader::read_tail(&"written".into(), file.len() as u64, &source).unwrap();
        let stripe = metadata_reader::read_stripe(&tail, &source, 0).unwrap();
        let field = batch.schema().index_of("double").unwrap();
        let column = tail.schema.fields()[field];
        let Access::Direct(direct) = Access::of(&tail, &stripe, column, None, &source, true).unwrap() else {
            panic!("{codec:?}: not direct");
        };
        let values = arrow::array::AsArray::as_primitive::<arrow::datatypes::Float64Type>(batch.column(field));
        for row in 0..3000 {
            let at = direct.offset_of(row).unwrap() as usize;
            let stored: [u8; 8] = file[at..at + 8].try_into().unwrap();
            assert_eq!(
                f64::from_le_bytes(stored),
                values.value(row as usize),
                "{codec:?} row {row}"
            );
        }
    }
}
