//! Folders whose files differ: types, order, names and number of columns, as a table's files do after years.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, StructArray,
};
use arrow::datatypes::{DataType, Field};
use grampus_orc_layout::write::WriterProperties;

use crate::support::write_orc;

/// Rows per file.
const ROWS: i64 = 400;

/// Writes the folders `evolved` and `positions`.
pub(crate) fn write(folder: &Path) {
    let evolved = folder.join("evolved");
    write_rows(
        &evolved.join("1.orc"),
        &narrow(0, ["k", "small", "f", "dec", "big", "t", "s"]),
    );
    write_rows(&evolved.join("2.orc"), &wide(ROWS));
    write_rows(
        &evolved.join("3.orc"),
        &narrow(2 * ROWS, ["K", "small", "F", "dec", "big", "T", "s"]),
    );
    std::fs::write(evolved.join("4.orc"), "").expect("a file of 0 bytes");

    let positions = folder.join("positions");
    let ints: ArrayRef = Arc::new(Int32Array::from_iter_values(0..3));
    let halves: ArrayRef = Arc::new(Float32Array::from_iter_values([0.5, 1.5, 2.5]));
    write_rows(
        &positions.join("part-0.orc"),
        &batch(vec![("id", ints), ("half", halves)]),
    );
    let longs: ArrayRef = Arc::new(Int64Array::from_iter_values([3, 1 << 40]));
    let halves: ArrayRef = Arc::new(Float64Array::from_iter_values([3.5, 4.5]));
    let more: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let unnamed = batch(vec![("_col0", longs), ("_col1", halves), ("_col2", more)]);
    write_rows(&positions.join("000000_0"), &unnamed);
}

/// The columns of the first version.
fn narrow(start: i64, names: [&str; 7]) -> RecordBatch {
    let keys = start..start + ROWS;
    let columns: [ArrayRef; 7] = [
        Arc::new(Int32Array::from_iter_values(keys.clone().map(|k| k as i32))),
        Arc::new(Int8Array::from_iter_values(keys.clone().map(|k| (k % 100) as i8))),
        Arc::new(Float32Array::from_iter_values(keys.clone().map(|k| k as f32 / 4.0))),
        decimals(keys.clone(), 10),
        Arc::new(Int16Array::from_iter_values(keys.clone().map(|k| k as i16))),
        Arc::new(StringArray::from_iter_values(
            keys.clone().map(|k| format!("w{}", k % 7)),
        )),
        struct_of(vec![(
            "a",
            Arc::new(Int32Array::from_iter_values(keys.map(|k| k as i32))),
        )]),
    ];
    batch(names.into_iter().zip(columns).collect())
}

/// Wider and reordered columns, one more and one fewer.
fn wide(start: i64) -> RecordBatch {
    let keys = start..start + ROWS;
    let longs =
        |value: &dyn Fn(i64) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(keys.clone().map(value))) };
    batch(vec![
        (
            "f",
            Arc::new(Float64Array::from_iter_values(keys.clone().map(|k| k as f64 / 4.0))),
        ),
        ("extra", longs(&|k| k * 10)),
        ("k", longs(&|k| k)),
        (
            "small",
            Arc::new(Int32Array::from_iter_values(keys.clone().map(|k| (k % 100) as i32))),
        ),
        ("big", longs(&|k| k + (1 << 40))),
        ("dec", decimals(keys.clone(), 12)),
        (
            "s",
            struct_of(vec![
                (
                    "b",
                    Arc::new(StringArray::from_iter_values(keys.clone().map(|k| format!("b{k}")))),
                ),
                ("a", longs(&|k| k)),
            ]),
        ),
    ])
}

fn decimals(keys: std::ops::Range<i64>, precision: u8) -> ArrayRef {
    let values = Decimal128Array::from_iter_values(keys.map(|k| i128::from(k) * 25));
    Arc::new(
        values
            .with_precision_and_scale(precision, 2)
            .expect("values of few digits"),
    )
}

fn struct_of(columns: Vec<(&str, ArrayRef)>) -> ArrayRef {
    let field = |name: &str, data_type: &DataType| Arc::new(Field::new(name, data_type.clone(), true));
    let columns = columns
        .into_iter()
        .map(|(name, array)| (field(name, array.data_type()), array));
    Arc::new(StructArray::from(columns.collect::<Vec<_>>()))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of equal length")
}

fn write_rows(path: &Path, rows: &RecordBatch) {
    std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder");
    let schema = rows.schema();
    let names = schema.fields().iter().map(|field| field.name().clone());
    let options = WriterProperties {
        row_index_stride: 100,
        bloom_filter_columns: names
            .filter(|name| matches!(name.as_str(), "k" | "K" | "f" | "F"))
            .collect(),
        ..WriterProperties::default()
    };
    write_orc(path, rows.schema(), std::slice::from_ref(rows), options);
}
