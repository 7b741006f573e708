//! Random tables in random layouts, read back by orc-rust (whole) and by our own decoder (whole and by scattered rows).

mod common;
mod tables;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::concat;
use bytes::Bytes;
use common::plan_check::{Plans, check_plans};
use common::{Memory, Random};
use grampus_orc_layout::access::Access;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::decode::ColumnReader;
use grampus_orc_layout::metadata_reader;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use proptest::prelude::*;
use tables::{Nulls, assert_same, every_type, read_with_orc_rust};

/// Reads a whole file with our decoder.
fn read_with_ours(file: Bytes, expected: &RecordBatch) -> RecordBatch {
    let source = Arc::new(Memory(file.clone()));
    let tail = Arc::new(metadata_reader::read_tail(&"written".into(), file.len() as u64, &*source).unwrap());
    let mut parts: Vec<Vec<ArrayRef>> = vec![vec![]; expected.num_columns()];
    for info in &tail.stripes {
        let stripe = Arc::new(metadata_reader::read_stripe(&tail, &*source, info.index).unwrap());
        for (part, &column) in parts.iter_mut().zip(tail.schema.fields()) {
            let index = Arc::new(metadata_reader::read_index(&tail, &stripe, &*source, column).unwrap());
            let access = Access::of(&tail, &stripe, column, Some(&index), &*source, true).unwrap();
            let mut reader = ColumnReader::new(
                tail.clone(),
                stripe.clone(),
                column,
                Some(index),
                access,
                source.clone(),
            )
            .unwrap();
            part.push(reader.read(&RowSelection::range(0..info.rows)).unwrap());
        }
    }
    let columns = parts.iter().zip(tail.schema.arrow.fields()).map(|(part, field)| {
        let part: Vec<&dyn arrow::array::Array> = part.iter().map(|array| &**array).collect();
        let empty = || arrow::array::new_empty_array(field.data_type());
        if part.is_empty() {
            empty()
        } else {
            concat(&part).unwrap()
        }
    });
    RecordBatch::try_new(tail.schema.arrow.clone(), columns.collect()).unwrap()
}

#[derive(Debug, Clone)]
struct Case {
    rows: usize,
    nulls: Nulls,
    seed: u64,
    batch_rows: usize,
    options: WriterProperties,
}

fn cases() -> impl Strategy<Value = Case> {
    let codec = prop_oneof![
        Just(None),
        Just(Some(Codec::Zlib)),
        Just(Some(Codec::Snappy)),
        Just(Some(Codec::Lz4)),
        Just(Some(Codec::Zstd)),
    ];
    let nulls = prop_oneof![1 => Just(Nulls::None), 3 => Just(Nulls::Some), 1 => Just(Nulls::All)];
    let rows = prop_oneof![0usize..3, 0usize..3000];
    let chunk = prop_oneof![64usize..2000, Just(64 * 1024)];
    let chunk = (chunk, any::<Option<u16>>());
    let stride = prop_oneof![1u32..60, (1u32..190).prop_map(|eighths| eighths * 8), Just(10_000)];
    let stripe = (
        prop_oneof![1usize..40, 300usize..4000],
        prop_oneof![Just(1usize), 1000usize..100_000, Just(1 << 28)],
    );
    let threshold = prop_oneof![Just(0.0), Just(0.5), Just(1.0)];
    let alignment = prop_oneof![Just(1u64), Just(8), Just(512), Just(4096)];
    (
        (codec, nulls, rows, any::<u64>(), 1usize..1000),
        (chunk, stride, stripe, threshold, alignment, any::<bool>()),
    )
        .prop_map(
            |((codec, nulls, rows, seed, batch_rows), (chunk, stride, stripe, threshold, alignment, direct))| Case {
                rows: rows.min(stripe.0.min(stride as usize) * 60),
                nulls,
                seed,
                batch_rows,
                options: WriterProperties {
                    codec,
                    chunk_size_bytes: chunk.0,
                    number_chunk_size_bytes: chunk.1.map(|bytes| usize::from(bytes).clamp(64, chunk.0)),
                    direct_columns: if direct {
                        ["float", "double"].map(String::from).into()
                    } else {
                        vec![]
                    },
                    row_index_stride: stride,
                    stripe_rows: stripe.0,
                    stripe_size_bytes: if stripe.1 == 1 { 20_000 } else { stripe.1 },
                    alignment_bytes: alignment,
                    dictionary_threshold: threshold,
                    bloom_filter_columns: if direct { vec!["word".into()] } else { vec![] },
                    ..WriterProperties::default()
                },
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(debug_assertions) { 48 } else { 1000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_layouts_round_trip(case in cases()) {
        let stride = case.options.row_index_stride;
        let table = every_type(case.rows, case.nulls, case.seed);
        let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(case.options)).unwrap();
        for start in (0..case.rows).step_by(case.batch_rows) {
            writer.write(&table.slice(start, case.batch_rows.min(case.rows - start))).unwrap();
        }
        let file = Bytes::from(writer.into_inner().unwrap());
        assert_same(&table, &read_with_orc_rust(file.clone(), table.schema()));
        assert_same(&table, &read_with_ours(file.clone(), &table));
        // A row group that ends within a byte of PRESENT needs the run that begins there. A plan cannot know that run's
        // length.
        if stride.is_multiple_of(8) {
            check_plans("written", file, &mut Random(case.seed), &mut Plans::default());
        }
    }
}
