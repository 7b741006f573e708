//! The tables of the `.slt` files, written by our writer. Their values are the special cases of SQL and of each type.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::support::write_orc;

/// Registered tables: name, and path below the folder of fixtures.
pub(crate) const TABLES: [(&str, &str); 12] = [
    ("edge", "edge.orc"),
    ("many", "many.orc"),
    ("many_plain", "many_plain.orc"),
    ("customers", "customers.orc"),
    ("orders", "orders.orc"),
    ("nested", "nested.orc"),
    ("nothing", "nothing.orc"),
    ("nulls", "nulls.orc"),
    ("parts", "parts"),
    ("files", "files"),
    ("evolved", "evolved"),
    ("positions", "positions"),
];

/// Writes all tables below `folder`.
pub(crate) fn write(folder: &Path) {
    let default = WriterProperties::default;
    let one = |name: &str, rows: &RecordBatch, options| write_rows(&folder.join(name), rows, options);
    one("edge.orc", &edge(), default());
    one(
        "many.orc",
        &many(0..20_000),
        WriterProperties {
            codec: Some(Codec::Snappy),
            row_index_stride: 1_000,
            stripe_rows: 6_000,
            chunk_size_bytes: 4_096,
            ..default()
        },
    );
    one(
        "many_plain.orc",
        &many(0..20_000),
        WriterProperties {
            row_index_stride: 500,
            stripe_rows: 7_000,
            ..default()
        },
    );
    one(
        "customers.orc",
        &customers(),
        WriterProperties {
            codec: Some(Codec::Zlib),
            ..default()
        },
    );
    one(
        "orders.orc",
        &orders(),
        WriterProperties {
            row_index_stride: 3,
            stripe_rows: 4,
            ..default()
        },
    );
    one(
        "nested.orc",
        &nested(),
        WriterProperties {
            codec: Some(Codec::Zstd),
            ..default()
        },
    );
    one("nothing.orc", &edge().slice(0, 0), default());
    one(
        "nulls.orc",
        &nulls(),
        WriterProperties {
            row_index_stride: 4,
            ..default()
        },
    );

    for (place, values) in [
        ("year=2019/month=1", [1, 2]),
        ("year=2019/month=2", [3, 4]),
        ("year=2020/month=1", [5, 6]),
    ] {
        std::fs::create_dir_all(folder.join("parts").join(place)).expect("a folder");
        one(&format!("parts/{place}/part-0.orc"), &values_table(&values), default());
    }
    std::fs::create_dir_all(folder.join("files")).expect("a folder");
    for (index, start) in [0, 700, 1_400].into_iter().enumerate() {
        one(
            &format!("files/{index}.orc"),
            &many(start..start + 700),
            WriterProperties {
                row_index_stride: 100,
                ..default()
            },
        );
    }
    std::fs::create_dir_all(folder.join("mismatch")).expect("a folder");
    one("mismatch/a.orc", &values_table(&[1]), default());
    let text: ArrayRef = Arc::new(StringArray::from(vec!["one"]));
    one(
        "mismatch/b.orc",
        &RecordBatch::try_from_iter_with_nullable([("v", text, true)]).expect("a batch"),
        default(),
    );
    std::fs::write(
        folder.join("not_orc.orc"),
        "this is no ORC file, it only has the name of one",
    )
    .expect("a file");
    std::fs::write(folder.join("zero.orc"), "").expect("a file");
    let whole = std::fs::read(folder.join("edge.orc")).expect("the file just written");
    std::fs::write(folder.join("truncated.orc"), &whole[..whole.len() / 2]).expect("a file");
    std::fs::create_dir_all(folder.join("empty_folder")).expect("a folder");
}

fn write_rows(path: &Path, rows: &RecordBatch, options: WriterProperties) {
    write_orc(path, rows.schema(), std::slice::from_ref(rows), options);
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of equal length")
}

/// Ten rows of limits, NaN, signed zeros, empty strings and NULL.
fn edge() -> RecordBatch {
    const DAY_NS: i64 = 86_400_000_000_000;
    batch(vec![
        ("id", Arc::new(Int32Array::from_iter_values(1..=10))),
        (
            "tiny",
            Arc::new(Int8Array::from(vec![
                Some(1),
                Some(127),
                Some(-128),
                None,
                Some(0),
                Some(5),
                Some(5),
                None,
                Some(-1),
                Some(7),
            ])),
        ),
        (
            "small",
            Arc::new(Int16Array::from(vec![
                Some(1),
                Some(32_767),
                Some(-32_768),
                None,
                Some(0),
                Some(5),
                Some(5),
                None,
                Some(-1),
                Some(7),
            ])),
        ),
        (
            "i",
            Arc::new(Int32Array::from(vec![
                Some(10),
                Some(i32::MAX),
                Some(i32::MIN),
                None,
                Some(0),
                Some(7),
                Some(7),
                None,
                Some(-5),
                Some(20),
            ])),
        ),
        (
            "l",
            Arc::new(Int64Array::from(vec![
                Some(10),
                Some(i64::MAX),
                Some(i64::MIN),
                None,
                Some(0),
                Some(7),
                Some(7),
                None,
                Some(-5),
                Some(20),
            ])),
        ),
        (
            "f",
            Arc::new(Float32Array::from(vec![
                Some(0.5),
                Some(f32::MAX),
                None,
                Some(f32::NAN),
                Some(-0.0),
                Some(0.0),
                Some(-2.25),
                None,
                Some(0.1),
                Some(1.0),
            ])),
        ),
        (
            "d",
            Arc::new(Float64Array::from(vec![
                Some(1.5),
                Some(f64::INFINITY),
                Some(f64::NEG_INFINITY),
                Some(f64::NAN),
                Some(-0.0),
                Some(0.0),
                None,
                Some(2.25),
                Some(-1.5),
                None,
            ])),
        ),
        (
            "b",
            Arc::new(BooleanArray::from(vec![
                Some(true),
                Some(false),
                None,
                Some(true),
                Some(false),
                None,
                Some(true),
                Some(true),
                Some(false),
                Some(false),
            ])),
        ),
        (
            "t",
            Arc::new(StringArray::from(vec![
                Some("apple"),
                Some("banana"),
                None,
                Some(""),
                Some("apple"),
                Some("Äpfel"),
                Some("100%"),
                Some("a_b"),
                Some("axb"),
                Some("banana"),
            ])),
        ),
        (
            "bin",
            Arc::new(BinaryArray::from(vec![
                Some(&b"\x00\xff"[..]),
                Some(b""),
                None,
                Some(b"abc"),
                Some(b"abc"),
                None,
                Some(b"\n"),
                Some(b"z"),
                Some(b"y"),
                Some(b"x"),
            ])),
        ),
        (
            "dec",
            Arc::new(
                Decimal128Array::from(vec![
                    Some(100),
                    Some(9_999_999_999),
                    Some(-9_999_999_999),
                    None,
                    Some(0),
                    Some(1),
                    Some(250),
                    Some(-375),
                    Some(1_010),
                    None,
                ])
                .with_precision_and_scale(10, 2)
                .expect("values of ten digits"),
            ),
        ),
        (
            "day",
            Arc::new(Date32Array::from(vec![
                Some(0),
                Some(18_321),
                None,
                Some(-1),
                Some(16_436),
                Some(-25_567),
                Some(24_855),
                Some(11_322),
                Some(18_062),
                Some(18_078),
            ])),
        ),
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from(vec![
                Some(0),
                Some(18_321 * DAY_NS + 43_200_000_000_000),
                None,
                Some(-1_500_000_001),
                Some(16_436 * DAY_NS),
                Some(-25_567 * DAY_NS + 1_000_000),
                Some(24_855 * DAY_NS + 11_647_000_000_000),
                Some(11_322 * DAY_NS + 86_399_999_999_999),
                Some(18_062 * DAY_NS + 1),
                Some(18_078 * DAY_NS + 9_000_000_000_000),
            ])),
        ),
    ])
}

/// Rows with aggregates that can be worked out: `key` counts, and the other columns repeat.
fn many(keys: std::ops::Range<i64>) -> RecordBatch {
    let words = ["amber", "blue", "cyan", "dark", "ebony"];
    let column = |value: &dyn Fn(i64) -> Option<i64>| keys.clone().map(value).collect::<Vec<_>>();
    batch(vec![
        ("key", Arc::new(Int64Array::from(column(&Some)))),
        (
            "grp",
            Arc::new(Int32Array::from_iter(keys.clone().map(|key| Some((key % 10) as i32)))),
        ),
        (
            "val",
            Arc::new(Int64Array::from(column(&|key| (key % 13 != 0).then_some(key % 1_000)))),
        ),
        (
            "x",
            Arc::new(Float64Array::from_iter_values(keys.clone().map(|key| key as f64 / 4.0))),
        ),
        (
            "word",
            Arc::new(StringArray::from_iter(
                keys.clone()
                    .map(|key| (key % 11 != 0).then(|| words[(key % 5) as usize])),
            )),
        ),
        (
            "unique_text",
            Arc::new(StringArray::from_iter_values(
                keys.clone().map(|key| format!("row {key:05}")),
            )),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter_values(
                keys.clone().map(|key| 17_897 + (key / 100) as i32),
            )),
        ),
        (
            "at",
            Arc::new(TimestampNanosecondArray::from_iter_values(
                keys.clone()
                    .map(|key| 1_546_300_800_000_000_000 + key * 864_000_000_000),
            )),
        ),
        (
            "price",
            Arc::new(
                Decimal128Array::from_iter_values(keys.clone().map(|key| i128::from(key % 500) * 25))
                    .with_precision_and_scale(12, 2)
                    .expect("values of twelve digits"),
            ),
        ),
        (
            "even",
            Arc::new(BooleanArray::from_iter(keys.map(|key| Some(key % 2 == 0)))),
        ),
    ])
}

fn customers() -> RecordBatch {
    batch(vec![
        (
            "customer_id",
            Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(3), Some(4), None])),
        ),
        (
            "name",
            Arc::new(StringArray::from(vec!["Ada", "Bob", "Cyd", "Dan", "Eve"])),
        ),
        (
            "city",
            Arc::new(StringArray::from(vec![
                Some("Rome"),
                Some("Oslo"),
                Some("Rome"),
                None,
                Some("Bern"),
            ])),
        ),
    ])
}

fn orders() -> RecordBatch {
    batch(vec![
        ("order_id", Arc::new(Int64Array::from_iter_values(100..109))),
        (
            "customer_id",
            Arc::new(Int32Array::from(vec![
                Some(1),
                Some(1),
                Some(2),
                Some(3),
                Some(3),
                Some(3),
                Some(9),
                None,
                Some(2),
            ])),
        ),
        (
            "amount",
            Arc::new(Float64Array::from(vec![
                Some(10.0),
                Some(20.5),
                Some(5.0),
                Some(1.0),
                None,
                Some(2.5),
                Some(99.0),
                Some(7.0),
                Some(5.0),
            ])),
        ),
    ])
}

fn nested() -> RecordBatch {
    let lists = [
        Some(vec![Some(1), Some(2), Some(3)]),
        Some(vec![]),
        None,
        Some(vec![None, Some(5)]),
        Some(vec![Some(7)]),
    ];
    let a: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None, Some(3), Some(4), Some(5)]));
    let text: ArrayRef = Arc::new(StringArray::from(vec![
        Some("one"),
        Some("two"),
        None,
        Some("four"),
        Some(""),
    ]));
    batch(vec![
        ("id", Arc::new(Int32Array::from_iter_values(1..=5))),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
        ),
        (
            "pair",
            Arc::new(StructArray::from(vec![
                (Arc::new(Field::new("a", DataType::Int32, true)), a),
                (Arc::new(Field::new("text", DataType::Utf8, true)), text),
            ])),
        ),
    ])
}

/// Columns that are NULL in every row, or in whole row groups.
fn nulls() -> RecordBatch {
    batch(vec![
        ("id", Arc::new(Int32Array::from_iter_values(1..=12))),
        ("all_null", Arc::new(Float64Array::from(vec![None; 12]))),
        ("text_null", Arc::new(StringArray::from(vec![None::<&str>; 12]))),
        (
            "middle",
            Arc::new(Int32Array::from_iter(
                (1..=12).map(|id| (id <= 4 || id > 8).then_some(id * 10)),
            )),
        ),
    ])
}

fn values_table(values: &[i32]) -> RecordBatch {
    batch(vec![("v", Arc::new(Int32Array::from(values.to_vec())))])
}
