//! The stream of batches against the iterator: the same rows, in few requests, and no byte beyond those rows' ranges.

mod common;
mod tables;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Float64Type;
use bytes::Bytes;
use futures::executor::block_on;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::TryStreamExt;
use grampus_orc_layout::arrow_reader::{
    ArrowPredicateFn, ArrowReaderBuilder, OrcReaderBuilder, ProjectionMask, RowFilter,
};
use grampus_orc_layout::async_reader::{AsyncByteSource, ObjectStoreSource, OrcStreamBuilder};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::write::WriterProperties;
use grampus_orc_layout::{LayoutError, Result};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use tables::{Nulls, assert_same, every_type};

/// A file in memory that records the requests: the ranges of each call.
#[derive(Clone)]
struct Recording {
    bytes: Bytes,
    calls: Arc<Mutex<Vec<Vec<Range<u64>>>>>,
    /// Bytes that are missing at the end of each answer.
    short_by: usize,
}

impl AsyncByteSource for Recording {
    fn get_range(&self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        self.calls.lock().unwrap().push(vec![range.clone()]);
        async move { self.bytes.read(range) }.boxed()
    }

    fn get_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.calls.lock().unwrap().push(ranges.clone());
        let cut = |bytes: Bytes| bytes.slice(..bytes.len().saturating_sub(self.short_by));
        async move {
            ranges
                .into_iter()
                .map(|range| self.bytes.read(range).map(cut))
                .collect()
        }
        .boxed()
    }

    fn length(&self) -> BoxFuture<'_, Result<u64>> {
        async move { Ok(self.bytes.len() as u64) }.boxed()
    }
}

fn recording(bytes: &Bytes) -> Recording {
    Recording {
        bytes: bytes.clone(),
        calls: Arc::default(),
        short_by: 0,
    }
}

const ROWS: usize = 5_000;

fn file(codec: Option<Codec>, nulls: Nulls) -> (RecordBatch, Bytes) {
    let table = every_type(ROWS, nulls, 11);
    let options = WriterProperties {
        codec,
        chunk_size_bytes: 1024,
        row_index_stride: 200,
        stripe_rows: 2_000,
        ..WriterProperties::default()
    };
    let file = tables::write(std::slice::from_ref(&table), options);
    (table, file)
}

/// Column 7 is "double".
fn below(threshold: f64) -> RowFilter {
    let predicate = ArrowPredicateFn::new(ProjectionMask::roots([7]), move |batch: RecordBatch| {
        let values = batch.column(0).as_primitive::<Float64Type>();
        Ok(values
            .iter()
            .map(|value| value.map(|value| value < threshold))
            .collect::<BooleanArray>())
    });
    RowFilter::new(vec![Box::new(predicate)])
}

fn sparse() -> RowSelection {
    let mut selection = RowSelection::new();
    for range in [3..4, 700..1_100, 3_999..4_001, 4_998..5_000] {
        selection.push(range);
    }
    selection
}

/// The requests of both kinds of readers.
fn ask<S>(builder: ArrowReaderBuilder<S>, case: usize) -> ArrowReaderBuilder<S> {
    let builder = builder.with_batch_size([1_024, 100, 10_000][case % 3]);
    let builder = match case / 2 % 3 {
        0 => builder,
        1 => builder.with_projection(ProjectionMask::roots([1, 9, 10, 18, 19])),
        _ => builder.with_projection(ProjectionMask::none()),
    };
    let builder = match case % 2 {
        0 => builder,
        _ => builder.with_row_selection(sparse()),
    };
    match case / 6 % 3 {
        0 => builder,
        1 => builder.with_row_filter(below(100.0)),
        _ => builder.with_row_filter(below(500.0)).with_offset(20).with_limit(50),
    }
}

async fn collect(stream: grampus_orc_layout::async_reader::OrcRecordBatchStream) -> Result<RecordBatch> {
    let schema = stream.schema().clone();
    let batches: Vec<RecordBatch> = stream.try_collect().await?;
    Ok(concat_batches(&schema, &batches).expect("one schema"))
}

#[test]
fn streams_give_the_rows_of_the_iterator() {
    for (codec, nulls) in [
        (None, Nulls::None),
        (Some(Codec::Zstd), Nulls::Some),
        (Some(Codec::Lz4), Nulls::All),
    ] {
        let (_, file) = file(codec, nulls);
        for case in 0..18 {
            let reader = ask(OrcReaderBuilder::try_new(file.clone()).unwrap(), case)
                .build()
                .unwrap();
            let schema = arrow::array::RecordBatchReader::schema(&reader);
            let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
            let expected = concat_batches(&schema, &batches).unwrap();
            let builder = block_on(OrcStreamBuilder::try_new(recording(&file))).unwrap();
            let read = block_on(collect(ask(builder, case).build().unwrap())).unwrap();
            assert_same(&expected, &read);
        }
    }
}

#[test]
fn object_stores_are_read() {
    let (table, file) = file(Some(Codec::Zlib), Nulls::Some);
    let store = InMemory::new();
    let path = object_store::path::Path::from("folder/table.orc");
    block_on(store.put(&path, file.clone().into())).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(store);
    for source in [
        ObjectStoreSource::new(store.clone(), path.clone()),
        ObjectStoreSource::new(store.clone(), path).with_length(file.len() as u64),
    ] {
        let builder = block_on(OrcStreamBuilder::try_new(source)).unwrap();
        let read = block_on(collect(builder.build().unwrap())).unwrap();
        assert_same(&table, &read);
    }
    let absent = ObjectStoreSource::new(store, "absent.orc".into());
    let error = block_on(OrcStreamBuilder::try_new(absent)).unwrap_err();
    assert!(error.to_string().starts_with("absent.orc: cannot be opened"), "{error}");
    let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<object_store::Error>());
    assert!(matches!(source, Some(object_store::Error::NotFound { .. })));
}

/// Files of other writers: every second row of the first 3,000, by both readers. What the iterator refuses, the stream
/// refuses too.
#[test]
fn streams_give_the_rows_of_other_writers_files() {
    let Some(corpus) = common::corpus() else {
        return;
    };
    let (mut read, mut refused) = (0, 0);
    for file in common::manifest(&corpus) {
        let name = &file["file"];
        let bytes = Bytes::from(std::fs::read(corpus.join(name)).unwrap());
        let Ok(builder) = OrcReaderBuilder::try_new(bytes.clone()) else {
            assert!(
                block_on(OrcStreamBuilder::try_new(recording(&bytes))).is_err(),
                "{name}"
            );
            continue;
        };
        let rows = builder.metadata().rows.min(3_000);
        let mut selection = RowSelection::new();
        (0..rows)
            .step_by(50)
            .for_each(|row| selection.push(row..rows.min(row + 25)));
        let predicate = || {
            let every_other = |batch: RecordBatch| Ok((0..batch.num_rows()).map(|row| Some(row % 2 == 0)).collect());
            RowFilter::new(vec![Box::new(ArrowPredicateFn::new(
                ProjectionMask::none(),
                every_other,
            ))])
        };
        let reader = builder
            .with_row_selection(selection.clone())
            .with_row_filter(predicate())
            .build();
        let mut reader = reader.unwrap();
        let schema = arrow::array::RecordBatchReader::schema(&reader);
        let batches: Result<Vec<RecordBatch>> = std::iter::from_fn(|| reader.next_batch().transpose()).collect();
        let builder = block_on(OrcStreamBuilder::try_new(recording(&bytes))).unwrap();
        let stream = builder
            .with_row_selection(selection)
            .with_row_filter(predicate())
            .build()
            .unwrap();
        let streamed = block_on(collect(stream));
        match (batches, streamed) {
            (Ok(batches), Ok(streamed)) => {
                assert_same(&concat_batches(&schema, &batches).unwrap(), &streamed);
                read += 1;
            }
            (Err(_), Err(_)) => refused += 1,
            (iterator, stream) => panic!("{name}: {:?}, {:?}", iterator.err(), stream.err()),
        }
    }
    assert!(read >= 70 && refused >= 4, "{read} files read, {refused} refused");
}

/// A footer and the columns for each of the three stripes: two requests, and with a filter one more for the rest.
#[test]
fn requests_of_a_stripe_are_few_and_exact() {
    let (_, file) = file(None, Nulls::None);
    let run = |filter: Option<RowFilter>, columns: &[usize]| {
        let source = recording(&file);
        let builder = block_on(OrcStreamBuilder::try_new(source.clone())).unwrap();
        let footers: u64 = builder
            .metadata()
            .stripes
            .iter()
            .map(|stripe| stripe.footer_length)
            .sum();
        source.calls.lock().unwrap().clear();
        let builder = builder.with_projection(ProjectionMask::roots(columns.iter().copied()));
        let builder = match filter {
            Some(filter) => builder.with_row_filter(filter),
            None => builder,
        };
        let rows = block_on(collect(builder.build().unwrap())).unwrap().num_rows() as u64;
        let calls = source.calls.lock().unwrap();
        let bytes: u64 = calls.iter().flatten().map(|range| range.end - range.start).sum();
        (rows, calls.len(), bytes - footers)
    };
    // "double" and "wild" are raw, and 8 bytes wide.
    assert_eq!(run(None, &[7]), (ROWS as u64, 6, 8 * ROWS as u64));
    let (rows, calls, bytes) = run(Some(below(50.0)), &[7, 8]);
    assert!(rows > 0 && rows < ROWS as u64 / 2);
    assert_eq!((calls, bytes), (9, 8 * (ROWS as u64 + rows)));
    assert_eq!(run(Some(below(-1.0)), &[7, 8]), (0, 6, 8 * ROWS as u64));
}

#[test]
fn short_answers_are_errors() {
    let (_, file) = file(None, Nulls::None);
    let source = Recording {
        short_by: 1,
        ..recording(&file)
    };
    let builder = block_on(OrcStreamBuilder::try_new(source)).unwrap();
    let error = block_on(collect(builder.build().unwrap())).unwrap_err();
    assert!(matches!(error, LayoutError::Io { .. }), "{error}");
    assert!(error.to_string().contains("the source returned"), "{error}");
}
