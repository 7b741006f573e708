//! Tables for the writer's tests, and the oracle that reads files back: orc-rust, whole columns.
#![allow(dead_code)]

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
    TimestampNanosecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

/// Writes batches to memory.
pub(crate) fn write(batches: &[RecordBatch], options: WriterProperties) -> Bytes {
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batches[0].schema(), Some(options)).expect("a schema that can be stored");
    for batch in batches {
        writer.write(batch).expect("values that can be stored");
    }
    Bytes::from(writer.into_inner().expect("memory takes everything"))
}

/// Reads a whole file with orc-rust, as `schema`. By itself, orc-rust calls columns without nulls not nullable, stripe
/// by stripe.
pub(crate) fn read_with_orc_rust(file: Bytes, schema: SchemaRef) -> RecordBatch {
    let reader = orc_rust::ArrowReaderBuilder::try_new(file)
        .expect("a readable tail")
        .with_batch_size(3000)
        .build();
    let as_expected = |batch: RecordBatch| {
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()).expect("a comparable type"));
        RecordBatch::try_new(schema.clone(), columns.collect()).expect("one schema")
    };
    let batches: Vec<RecordBatch> = reader.map(|batch| as_expected(batch.expect("readable rows"))).collect();
    concat_batches(&schema, &batches).expect("one schema")
}

/// Compares two tables column by column and bit by bit; NaN equals NaN.
pub(crate) fn assert_same(expected: &RecordBatch, actual: &RecordBatch) {
    assert_eq!(expected.num_rows(), actual.num_rows(), "rows");
    assert_eq!(expected.num_columns(), actual.num_columns(), "columns");
    for (index, field) in expected.schema().fields().iter().enumerate() {
        let (expected, actual) = (expected.column(index), actual.column(index));
        let actual = cast(actual, expected.data_type()).expect("a comparable type");
        if expected.to_data() == actual.to_data() {
            continue;
        }
        for row in 0..expected.len() {
            let (a, b) = (expected.slice(row, 1), actual.slice(row, 1));
            assert_eq!(format!("{a:?}"), format!("{b:?}"), "column {} row {row}", field.name());
        }
    }
}

/// A small deterministic generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Distribution of a column's nulls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Nulls {
    None,
    Some,
    All,
}

/// A table of every type that can be stored, with `rows` rows, nulls, extremes and runs.
pub(crate) fn every_type(rows: usize, nulls: Nulls, seed: u64) -> RecordBatch {
    let mut r = Random(seed);
    let mut columns: Vec<(String, ArrayRef)> = vec![];
    let mut add = |name: &str, array: ArrayRef| columns.push((name.into(), array));
    let mask = |r: &mut Random| -> Vec<bool> {
        let mut valid = true;
        (0..rows)
            .map(|_| match nulls {
                Nulls::None => true,
                Nulls::All => false,
                Nulls::Some => {
                    if r.below(8) == 0 {
                        valid = r.below(3) > 0;
                    }
                    valid
                }
            })
            .collect()
    };
    macro_rules! column {
        ($name:literal, $array:ty, $value:expr) => {{
            let valid = mask(&mut r);
            #[allow(unused_mut)]
            let mut value = $value;
            let array: $array = valid
                .iter()
                .map(|&v| {
                    let x = value(&mut r);
                    v.then_some(x)
                })
                .collect();
            add($name, Arc::new(array));
        }};
    }
    let mut run = 0i64;
    column!("flag", BooleanArray, |r: &mut Random| r.below(3) == 0);
    column!("tiny", Int8Array, |r: &mut Random| if r.below(2) == 0 {
        5
    } else {
        r.next() as i8
    });
    column!("small", Int16Array, |r: &mut Random| r.next() as i16);
    column!("int", Int32Array, |r: &mut Random| {
        run += r.below(4) as i64;
        run as i32
    });
    column!("long", Int64Array, |r: &mut Random| match r.below(50) {
        0 => i64::MIN,
        1 => i64::MAX,
        shift => (r.next() as i64) >> shift,
    });
    column!("near", Int64Array, |r: &mut Random| 1_500_000_000
        + r.below(1000) as i64);
    column!("float", Float32Array, |r: &mut Random| f32::from_bits(
        (r.next() >> 40) as u32
    ) + r.below(100) as f32);
    column!("double", Float64Array, |r: &mut Random| r.below(100_000) as f64 / 100.0);
    column!("wild", Float64Array, |r: &mut Random| match r.below(20) {
        0 => f64::NAN,
        1 => f64::INFINITY,
        2 => f64::NEG_INFINITY,
        3 => -0.0,
        4 => f64::MIN_POSITIVE,
        _ => f64::from_bits(r.next() & !(0x7ff << 52) | 0x3ff << 52),
    });
    let words = ["", "a", "yellow", "green", "Zürich", "日本", "CRD", "CSH"];
    column!("word", StringArray, |r: &mut Random| words[r.below(8) as usize]);
    column!("text", StringArray, |r: &mut Random| format!(
        "{:x}-{}",
        r.next(),
        "x".repeat(r.below(20) as usize)
    ));
    column!("blob", BinaryArray, |r: &mut Random| r.next().to_le_bytes()
        [..r.below(9) as usize]
        .to_vec());
    column!("day", Date32Array, |r: &mut Random| r.below(200_000) as i32 - 100_000);
    column!("time", TimestampNanosecondArray, timestamp);
    let valid = mask(&mut r);
    let instants: TimestampNanosecondArray = valid
        .iter()
        .map(|&v| {
            let x = timestamp(&mut r);
            v.then_some(x)
        })
        .collect();
    add("instant", Arc::new(instants.with_timezone("UTC")));
    for (name, precision, scale) in [("money", 10, 2), ("huge", 38, 10)] {
        let valid = mask(&mut r);
        let array: Decimal128Array = valid
            .iter()
            .map(|&v| {
                let wide = if precision == 38 {
                    i128::from(r.next()) * i128::from(r.next() >> 8)
                } else {
                    i128::from(r.below(1_000_000))
                };
                v.then_some(if r.below(2) == 0 { wide } else { -wide })
            })
            .collect();
        add(
            name,
            Arc::new(array.with_precision_and_scale(precision, scale).unwrap()),
        );
    }
    add("struct", Arc::new(structs(&mut r, rows, mask)));
    add("list", lists(&mut r, rows, nulls));
    add("map", maps(&mut r, rows, nulls));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

/// Times from 1900 to 2200, many before 1970, of all precisions; not in the last second before 1970.
fn timestamp(r: &mut Random) -> i64 {
    let seconds = r.below(9_466_848_000) as i64 - 2_208_988_800;
    let nanos = match r.below(4) {
        0 => 0,
        1 => r.below(1000) as i64 * 1_000_000,
        2 => r.below(1_000_000) as i64,
        _ => r.below(1_000_000_000) as i64,
    };
    if seconds == -1 {
        0
    } else {
        seconds * 1_000_000_000 + nanos
    }
}

fn structs(r: &mut Random, rows: usize, mut mask: impl FnMut(&mut Random) -> Vec<bool>) -> StructArray {
    let (x, y) = (mask(r), mask(r));
    let x: Int32Array = x.iter().map(|&v| v.then_some(r.next() as i32)).collect();
    let y: StringArray = y.iter().map(|&v| v.then_some(format!("s{}", r.below(50)))).collect();
    let fields = Fields::from(vec![
        Field::new("x", DataType::Int32, true),
        Field::new("y", DataType::Utf8, true),
    ]);
    let nulls = NullBuffer::from(mask(r));
    StructArray::new(fields, vec![Arc::new(x), Arc::new(y)], (rows > 0).then_some(nulls))
}

fn offsets(r: &mut Random, rows: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths((0..rows).map(|_| r.below(5) as usize))
}

fn row_nulls(r: &mut Random, rows: usize, nulls: Nulls) -> Option<NullBuffer> {
    match nulls {
        Nulls::None => None,
        // Null rows have elements too.
        Nulls::Some => Some((0..rows).map(|_| r.below(4) > 0).collect()),
        Nulls::All => Some(NullBuffer::new_null(rows)),
    }
}

fn lists(r: &mut Random, rows: usize, nulls: Nulls) -> ArrayRef {
    let offsets = offsets(r, rows);
    let count = *offsets.last().unwrap() as usize;
    let values: Int64Array = (0..count)
        .map(|_| (r.below(5) > 0).then_some(r.below(1000) as i64))
        .collect();
    let item = Arc::new(Field::new_list_field(DataType::Int64, true));
    Arc::new(ListArray::new(
        item,
        offsets,
        Arc::new(values),
        row_nulls(r, rows, nulls),
    ))
}

fn maps(r: &mut Random, rows: usize, nulls: Nulls) -> ArrayRef {
    let offsets = offsets(r, rows);
    let count = *offsets.last().unwrap() as usize;
    let keys: StringArray = (0..count).map(|i| Some(format!("k{i}"))).collect();
    let values: Float64Array = (0..count)
        .map(|_| (r.below(5) > 0).then_some(r.below(1000) as f64))
        .collect();
    let fields = Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Float64, true),
    ]);
    let entries = StructArray::new(fields.clone(), vec![Arc::new(keys), Arc::new(values)], None);
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    Arc::new(MapArray::new(field, offsets, entries, row_nulls(r, rows, nulls), false))
}

/// A schema of one nullable column.
pub(crate) fn one_column(name: &str, data_type: DataType) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, data_type, true)]))
}

/// Nanoseconds without a zone.
pub(crate) fn local_nanoseconds() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, None)
}
