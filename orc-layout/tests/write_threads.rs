//! Columns that are encoded side by side: files have the same bytes as without threads, and errors are the same.

mod tables;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringViewArray};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, EncodingThreads, WriterProperties};
use tables::{Nulls, every_type, write};

/// Scoped threads, whose number changes with each question.
#[derive(Debug)]
struct Threads {
    counts: &'static [usize],
    asked: AtomicUsize,
    /// Times that work ran on more than one thread.
    runs: AtomicUsize,
}

impl Threads {
    fn new(counts: &'static [usize]) -> Arc<Self> {
        Arc::new(Self {
            counts,
            asked: AtomicUsize::new(0),
            runs: AtomicUsize::new(0),
        })
    }
}

impl EncodingThreads for Threads {
    fn count(&self) -> usize {
        self.counts[self.asked.fetch_add(1, Ordering::Relaxed) % self.counts.len()]
    }

    fn run(&self, count: usize, work: &(dyn Fn() + Sync)) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        std::thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(work))));
    }
}

fn write_with(batches: &[RecordBatch], options: &WriterProperties, threads: &Arc<Threads>) -> Vec<u8> {
    let writer = ArrowWriter::try_new(Vec::new(), batches[0].schema(), Some(options.clone())).unwrap();
    let mut writer = writer.with_threads(Arc::clone(threads) as _);
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn layouts() -> Vec<WriterProperties> {
    let default = WriterProperties::default;
    let codecs = [Codec::Zlib, Codec::Snappy, Codec::Lz4, Codec::Zstd].map(|codec| WriterProperties {
        codec: Some(codec),
        row_index_stride: 1000,
        stripe_size_bytes: 100_000,
        bloom_filter_columns: vec!["word".into()],
        ..default()
    });
    let mut layouts = Vec::from(codecs);
    layouts.extend([
        WriterProperties {
            stripe_rows: 3_500,
            ..default()
        },
        WriterProperties {
            row_index_stride: 0,
            dictionary_threshold: 0.0,
            ..default()
        },
        WriterProperties {
            stripe_size_bytes: 1,
            dictionary_threshold: 1.0,
            ..default()
        },
    ]);
    layouts
}

#[test]
fn files_have_the_same_bytes_with_any_number_of_threads() {
    let table = every_type(9_000, Nulls::Some, 11);
    let view: StringViewArray = (0..9_000)
        .map(|row| (row % 7 > 0).then(|| format!("a text that is too long for a view: {}", row % 1_500)))
        .collect();
    let (mut fields, mut columns) = (table.schema().fields().to_vec(), table.columns().to_vec());
    fields.push(Arc::new(arrow::datatypes::Field::new(
        "view",
        arrow::datatypes::DataType::Utf8View,
        true,
    )));
    columns.push(Arc::new(view) as ArrayRef);
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    let table = RecordBatch::try_new(schema, columns).unwrap();
    for options in layouts() {
        for batch_rows in [700, 9_000] {
            let starts = (0..table.num_rows()).step_by(batch_rows);
            let batches: Vec<_> = starts
                .map(|start| table.slice(start, batch_rows.min(table.num_rows() - start)))
                .collect();
            let expected = write(&batches, options.clone());
            for counts in [&[1][..], &[2], &[64], &[1, 4, 1, 1, 2]] {
                let threads = Threads::new(counts);
                let found = write_with(&batches, &options, &threads);
                assert!(found == expected, "{batch_rows} rows, {counts:?} threads, {options:?}");
                let runs = threads.runs.load(Ordering::Relaxed);
                assert_eq!(runs > 0, counts.iter().any(|&count| count > 1), "{counts:?}");
            }
        }
    }
}

/// Row 60 of `b` and row 90 of `a` cannot be stored. The rows are written ten at a time.
#[test]
fn first_rows_that_cannot_be_stored_make_the_error() {
    let decimals = |bad: i64| {
        let values = (0..200i64).map(|row| if row == bad { 1_000_000 } else { i128::from(row) });
        let array = Decimal128Array::from_iter_values(values).with_precision_and_scale(5, 0);
        Arc::new(array.unwrap()) as ArrayRef
    };
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..200));
    let table = RecordBatch::try_from_iter([("a", decimals(90)), ("n", numbers), ("b", decimals(60))]).unwrap();
    for counts in [&[1][..], &[2], &[3]] {
        let writer = ArrowWriter::try_new(Vec::new(), table.schema(), None).unwrap();
        let mut writer = writer.with_threads(Threads::new(counts));
        let written = (0..20).try_for_each(|portion| writer.write(&table.slice(portion * 10, 10)));
        let error = written.and_then(|()| writer.finish().map(|_| ())).unwrap_err();
        assert!(error.to_string().contains("column b"), "{counts:?} threads: {error}");
        assert!(writer.finish().is_err(), "the file is incomplete");
    }
}
