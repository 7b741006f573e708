//! The reader's builder against a full read: projections, row selections, filters, batch sizes, offsets and limits give
//! the same rows, and read no byte that these rows do not need.

mod common;
mod tables;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchReader, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Float64Type, Int64Type};
use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::arrow_reader::{ArrowPredicateFn, OrcReaderBuilder, ProjectionMask, RowFilter};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::row_selector::RowSelector;
use grampus_orc_layout::selection::RowSelection;
use grampus_orc_layout::source::{ByteSource, ChunkReader};
use grampus_orc_layout::write::WriterProperties;
use proptest::prelude::*;
use tables::{Nulls, assert_same, every_type, read_with_orc_rust};

/// A file in memory that records what is read.
#[derive(Debug)]
struct Counting {
    bytes: Bytes,
    read: Mutex<Vec<Range<u64>>>,
}

impl Counting {
    fn new(bytes: Bytes) -> Arc<Self> {
        Arc::new(Self {
            bytes,
            read: Mutex::default(),
        })
    }

    /// The bytes read since the last call.
    fn taken(&self) -> u64 {
        let read = std::mem::take(&mut *self.read.lock().unwrap());
        read.iter().map(|range| range.end - range.start).sum()
    }
}

impl ByteSource for Counting {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        self.read.lock().unwrap().push(range.clone());
        self.bytes.read(range)
    }
}

impl ChunkReader for Counting {
    fn length(&self) -> u64 {
        self.bytes.length()
    }
}

const ROWS: usize = 4_000;

fn options(codec: Option<Codec>) -> WriterProperties {
    WriterProperties {
        codec,
        chunk_size_bytes: 1024,
        row_index_stride: 200,
        stripe_rows: 1_500,
        ..WriterProperties::default()
    }
}

fn all(reader: impl RecordBatchReader) -> RecordBatch {
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.expect("readable rows")).collect();
    assert!(batches.iter().all(|batch| batch.schema() == schema));
    concat_batches(&schema, &batches).expect("one schema")
}

fn at(table: &RecordBatch, rows: &[u64]) -> RecordBatch {
    take_record_batch(table, &UInt64Array::from(rows.to_vec())).unwrap()
}

fn builder(file: &Bytes) -> OrcReaderBuilder<Bytes> {
    OrcReaderBuilder::try_new(file.clone()).unwrap()
}

#[test]
fn full_reads_equal_the_written_rows_and_orc_rust() {
    for codec in [None, Some(Codec::Zstd)] {
        let table = every_type(ROWS, Nulls::Some, 5);
        let file = tables::write(std::slice::from_ref(&table), options(codec));
        for batch_size in [1, 333, 1_024, 1_500, 100_000] {
            let reader = builder(&file).with_batch_size(batch_size).build().unwrap();
            let sizes: Vec<usize> = reader.map(|batch| batch.unwrap().num_rows()).collect();
            assert!(
                sizes[..sizes.len() - 1].iter().all(|&rows| rows == batch_size),
                "{sizes:?}"
            );
            assert_eq!(sizes.iter().sum::<usize>(), ROWS);
            let read = all(builder(&file).with_batch_size(batch_size).build().unwrap());
            assert_same(&table, &read);
        }
        assert_same(
            &read_with_orc_rust(file.clone(), table.schema()),
            &all(builder(&file).build().unwrap()),
        );
    }
}

#[test]
fn stripes_are_read_in_the_wanted_order() {
    let table = every_type(ROWS, Nulls::None, 6);
    let file = tables::write(std::slice::from_ref(&table), options(None));
    let mut selection = RowSelection::new();
    selection.push(990..1_010);
    let read = all(builder(&file)
        .with_stripes(vec![2, 0])
        .with_row_selection(selection)
        .build()
        .unwrap());
    // Stripe 2 has the rows from 3,000 on, 1,000 of them.
    let rows: Vec<u64> = (3_990..4_000).chain(0..10).collect();
    assert_same(&at(&table, &rows), &read);
}

#[test]
fn reads_cost_what_the_rows_and_columns_need() {
    let table = every_type(ROWS, Nulls::None, 7);
    let file = tables::write(std::slice::from_ref(&table), options(None));
    let source = Counting::new(file.clone());
    let open = || {
        let builder = OrcReaderBuilder::try_new(source.clone()).unwrap();
        source.taken();
        builder
    };
    let columns =
        |names: &[&str]| ProjectionMask::columns(open().orc_schema(), names.iter().copied()).expect("known columns");
    let cost = |builder: OrcReaderBuilder<Arc<Counting>>| {
        let rows = all(builder.build().unwrap()).num_rows();
        (rows, source.taken())
    };
    // Without columns, rows are known without a byte.
    assert_eq!(cost(open().with_projection(ProjectionMask::none())), (ROWS, 0));
    assert_eq!(cost(open().with_limit(0)), (0, 0));
    let footers: u64 = open()
        .metadata()
        .stripes
        .iter()
        .map(|stripe| stripe.footer_length)
        .sum();
    // "double" has no nulls and is stored raw: 8 bytes a row.
    let (_, whole) = cost(open().with_projection(columns(&["double"])));
    assert_eq!(whole, footers + 8 * ROWS as u64);
    // Three rows of one stripe: its footer and three values.
    let first_footer = open().metadata().stripes[1].footer_length;
    let selection = RowSelection::from(vec![
        RowSelector::skip(1_600),
        RowSelector::select(1),
        RowSelector::skip(500),
        RowSelector::select(2),
    ]);
    let (rows, some) = cost(
        open()
            .with_projection(columns(&["double"]))
            .with_row_selection(selection),
    );
    assert_eq!((rows, some), (3, first_footer + 3 * 8));
    // A limit is a selection.
    let (rows, some) = cost(
        open()
            .with_projection(columns(&["double"]))
            .with_offset(10)
            .with_limit(7),
    );
    assert_eq!((rows, some), (7, open().metadata().stripes[0].footer_length + 7 * 8));
    // One row of an encoded column costs a row group, not a stripe.
    let (_, whole) = cost(open().with_projection(columns(&["text"])));
    let one = RowSelection::range(1_000..1_001);
    let (_, some) = cost(open().with_projection(columns(&["text"])).with_row_selection(one));
    assert!(some * 6 < whole, "{some} of {whole} bytes");
}

#[test]
fn filters_read_other_columns_for_the_rows_that_pass() {
    let table = every_type(ROWS, Nulls::None, 8);
    let file = tables::write(std::slice::from_ref(&table), options(None));
    let source = Counting::new(file.clone());
    let run = |limit: f64, output: &[&str]| {
        let builder = OrcReaderBuilder::try_new(source.clone()).unwrap();
        let mask = |names: &[&str]| ProjectionMask::columns(builder.orc_schema(), names.iter().copied()).unwrap();
        let predicate = ArrowPredicateFn::new(mask(&["double"]), move |batch: RecordBatch| {
            let values = batch.column(0).as_primitive::<Float64Type>();
            Ok(values
                .iter()
                .map(|value| value.map(|value| value < limit))
                .collect::<BooleanArray>())
        });
        let output = mask(output);
        source.taken();
        let filter = RowFilter::new(vec![Box::new(predicate)]);
        let rows = all(builder.with_projection(output).with_row_filter(filter).build().unwrap());
        (rows, source.taken())
    };
    let footers: u64 = {
        let builder = OrcReaderBuilder::try_new(file.clone()).unwrap();
        builder
            .metadata()
            .stripes
            .iter()
            .map(|stripe| stripe.footer_length)
            .sum()
    };
    // The predicate's column is read once, although it is returned too.
    let (rows, cost) = run(50.0, &["double"]);
    let doubles = table.column_by_name("double").unwrap().as_primitive::<Float64Type>();
    let passing: Vec<u64> = (0..ROWS as u64)
        .filter(|&row| doubles.value(row as usize) < 50.0)
        .collect();
    assert!(!passing.is_empty() && passing.len() < ROWS / 2);
    assert_eq!(rows.num_rows(), passing.len());
    assert_eq!(cost, footers + 8 * ROWS as u64);
    // No row passes: the other column is not read at all, but its row indexes are.
    let (none, cost) = run(-1.0, &["wild", "double"]);
    assert_eq!((none.num_rows(), cost), (0, footers + 8 * ROWS as u64));
    // "wild" is raw too: 8 bytes for each row that passes.
    let (rows, cost) = run(50.0, &["wild", "double"]);
    assert_eq!(cost, footers + 8 * (ROWS + passing.len()) as u64);
    let wanted = at(&table, &passing);
    assert_eq!(
        rows.column_by_name("wild").unwrap(),
        wanted.column_by_name("wild").unwrap()
    );
}

#[test]
fn requests_that_the_file_cannot_answer_are_errors() {
    let table = every_type(10, Nulls::None, 9);
    let file = tables::write(&[table], options(None));
    let refused = |builder: OrcReaderBuilder<Bytes>| builder.build().unwrap_err().to_string();
    let cases = [
        (
            refused(builder(&file).with_stripes(vec![0, 1])),
            "stripe 1 is wanted of 1 stripes",
        ),
        (
            refused(builder(&file).with_projection(ProjectionMask::roots([99]))),
            "column 99 is wanted of 20",
        ),
        (
            refused(builder(&file).with_row_selection(RowSelection::range(9..11))),
            "row 10 is selected of 10 rows",
        ),
        (refused(builder(&file).with_batch_size(0)), "at least one row"),
    ];
    for (error, wanted) in cases {
        assert!(error.contains(wanted), "{error}");
    }
    let error = ProjectionMask::columns(builder(&file).orc_schema(), ["absent"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("no column absent") && error.contains("flag"), "{error}");
}

#[test]
fn failures_of_a_filter_end_the_read() {
    use arrow::error::ArrowError;
    use grampus_orc_layout::LayoutError;
    use std::error::Error;

    let file = tables::write(&[every_type(10, Nulls::None, 9)], options(None));
    let run = |answer: fn() -> std::result::Result<BooleanArray, ArrowError>| {
        let predicate = ArrowPredicateFn::new(ProjectionMask::roots([0]), move |_| answer());
        let filter = RowFilter::new(vec![Box::new(predicate)]);
        let mut reader = builder(&file).with_row_filter(filter).build().unwrap();
        let error = reader.next_batch().unwrap_err();
        assert!(reader.next().is_none());
        error
    };
    let error = run(|| Err(ArrowError::ComputeError("no such function".into())));
    assert!(error.to_string().contains("no such function"), "{error}");
    assert!(error.source().is_some_and(|source| source.is::<ArrowError>()));
    let error = run(|| Ok(BooleanArray::from(vec![true])));
    assert!(matches!(error, LayoutError::Filter { .. }));
    assert!(error.to_string().contains("1 values for 10 rows"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn selections_filters_and_projections_equal_those_of_a_full_read(
        codec in prop::sample::select(vec![None, Some(Codec::Snappy), Some(Codec::Zlib)]),
        nulls in prop::sample::select(vec![Nulls::None, Nulls::Some, Nulls::All]),
        rows in 1usize..2_500,
        seed: u64,
        columns in prop::collection::vec(0usize..20, 0..6),
        selectors in prop::option::of(prop::collection::vec((1usize..400, any::<bool>()), 0..12)),
        thresholds in (prop::option::of(0.0f64..1_000.0), prop::option::of(-5i64..1_000)),
        batch_size in prop::sample::select(vec![1usize, 7, 100, 1_024, 5_000]),
        (offset, limit) in (prop::option::of(0usize..500), prop::option::of(0usize..800)),
        direct: bool,
    ) {
        let table = every_type(rows, nulls, seed);
        let mut layout = options(codec);
        if direct && codec.is_some() {
            layout.direct_columns = vec!["double".into(), "float".into()];
        }
        let file = tables::write(std::slice::from_ref(&table), layout);
        let mut expected: Vec<u64> = (0..rows as u64).collect();
        let projection = ProjectionMask::roots(columns.clone());
        let mut reader = builder(&file).with_batch_size(batch_size).with_projection(projection);
        if let Some(selectors) = selectors {
            let mut left = rows;
            let cut = |(count, skip): (usize, bool)| {
                let row_count = count.min(left);
                left -= row_count;
                RowSelector { row_count, skip }
            };
            let selection = RowSelection::from(selectors.into_iter().map(cut).collect::<Vec<_>>());
            expected = selection.iter().collect();
            reader = reader.with_row_selection(selection);
        }
        let mut predicates: Vec<Box<dyn grampus_orc_layout::arrow_reader::ArrowPredicate>> = vec![];
        if let Some(threshold) = thresholds.0 {
            let doubles = table.column(7).as_primitive::<Float64Type>();
            expected.retain(|&row| doubles.is_valid(row as usize) && doubles.value(row as usize) < threshold);
            predicates.push(Box::new(ArrowPredicateFn::new(ProjectionMask::roots([7]), move |batch: RecordBatch| {
                let values = batch.column(0).as_primitive::<Float64Type>();
                Ok(values.iter().map(|value| value.map(|value| value < threshold)).collect::<BooleanArray>())
            })));
        }
        if let Some(threshold) = thresholds.1 {
            let near = table.column(5).as_primitive::<Int64Type>();
            let longs = table.column(4).as_primitive::<Int64Type>();
            let passes = move |near: Option<i64>, long: Option<i64>| {
                near.is_some_and(|near| near - 1_500_000_000 > threshold) || long.is_some_and(|long| long > 0)
            };
            let value = |array: &arrow::array::Int64Array, row: u64| {
                array.is_valid(row as usize).then(|| array.value(row as usize))
            };
            expected.retain(|&row| passes(value(near, row), value(longs, row)));
            predicates.push(Box::new(ArrowPredicateFn::new(ProjectionMask::roots([5, 4]), move |batch: RecordBatch| {
                let longs = batch.column(0).as_primitive::<Int64Type>();
                let near = batch.column(1).as_primitive::<Int64Type>();
                Ok(near.iter().zip(longs).map(|(near, long)| Some(passes(near, long))).collect::<BooleanArray>())
            })));
        }
        if !predicates.is_empty() {
            reader = reader.with_row_filter(RowFilter::new(predicates));
        }
        if let Some(offset) = offset {
            expected.drain(..offset.min(expected.len()));
            reader = reader.with_offset(offset);
        }
        if let Some(limit) = limit {
            expected.truncate(limit);
            reader = reader.with_limit(limit);
        }
        let mut projected = columns;
        projected.sort_unstable();
        projected.dedup();
        let read = all(reader.build().unwrap());
        prop_assert_eq!(read.num_rows(), expected.len());
        assert_same(&at(&table, &expected).project(&projected).unwrap(), &read);
    }
}
