//! Seeds of the fuzz targets: small valid files with every type, encoding and codec of the writer, in a few kilobytes
//! each.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

/// Every codec, with the name of its seeds.
pub const CODECS: [(&str, Option<Codec>); 5] = [
    ("none", None),
    ("zlib", Some(Codec::Zlib)),
    ("snappy", Some(Codec::Snappy)),
    ("lz4", Some(Codec::Lz4)),
    ("zstd", Some(Codec::Zstd)),
];

/// The seeds: a name and the file's bytes.
///
/// # Panics
/// If the writer refuses them.
pub fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, codec) in CODECS {
        seeds.push((format!("flat-{name}"), write(&flat(90), codec, 25)));
        seeds.push((format!("nested-{name}"), write(&nested(40), codec, 10)));
    }
    seeds.push(("no-index".into(), write(&flat(30), None, 0)));
    seeds.push(("empty".into(), write(&flat(0), None, 10)));
    seeds
}

fn write(batch: &RecordBatch, codec: Option<Codec>, row_index_stride: u32) -> Vec<u8> {
    let has = |name: &&str| batch.schema().index_of(name).is_ok();
    let direct = ["double"].iter().filter(|name| codec.is_some() && has(name));
    let bloom = ["int", "double", "word"]
        .iter()
        .filter(|name| row_index_stride > 0 && has(name));
    let options = WriterProperties {
        codec,
        chunk_size_bytes: 256,
        direct_columns: direct.map(|&name| name.to_owned()).collect(),
        bloom_filter_columns: bloom.map(|&name| name.to_owned()).collect(),
        row_index_stride,
        stripe_rows: 60,
        alignment_bytes: 1,
        ..WriterProperties::default()
    };
    let mut writer =
        ArrowWriter::try_new(Vec::new(), batch.schema(), Some(options)).expect("a schema that ORC can store");
    writer.write(batch).expect("a batch of the writer's schema");
    writer.into_inner().expect("memory does not run full")
}

fn flat(rows: i64) -> RecordBatch {
    let number = |row: i64| (row % 7 != 3).then_some(row.wrapping_mul(row) % 1_000 - 300);
    let long = |row: i64| row.wrapping_mul(0x5851_F42D_4C95_7F2D) >> (row % 50);
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "boolean",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(|v| v % 3 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        (
            "byte",
            Arc::new((0..rows).map(|r| number(r).map(|v| v as i8)).collect::<Int8Array>()),
        ),
        (
            "short",
            Arc::new((0..rows).map(|r| Some(r as i16 * 3)).collect::<Int16Array>()),
        ),
        (
            "int",
            Arc::new((0..rows).map(|r| number(r).map(|v| v as i32)).collect::<Int32Array>()),
        ),
        (
            "long",
            Arc::new((0..rows).map(|r| Some(long(r))).collect::<Int64Array>()),
        ),
        (
            "float",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(|v| v as f32 / 8.0))
                    .collect::<Float32Array>(),
            ),
        ),
        (
            "double",
            Arc::new((0..rows).map(|r| Some(r as f64 * 0.25)).collect::<Float64Array>()),
        ),
        (
            "word",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(|v| ["yellow", "green", ""][(v % 3).unsigned_abs() as usize]))
                    .collect::<StringArray>(),
            ),
        ),
        (
            "text",
            Arc::new((0..rows).map(|r| Some(format!("trip {r}"))).collect::<StringArray>()),
        ),
        (
            "binary",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(i64::to_le_bytes))
                    .collect::<BinaryArray>(),
            ),
        ),
        (
            "date",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(|v| v as i32 * 40))
                    .collect::<Date32Array>(),
            ),
        ),
        (
            "time",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(|v| v * 86_399_000_000_001))
                    .collect::<TimestampNanosecondArray>(),
            ),
        ),
        (
            "decimal",
            Arc::new(
                (0..rows)
                    .map(|r| number(r).map(i128::from))
                    .collect::<Decimal128Array>(),
            ),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .expect("columns of equal length")
}

fn nested(rows: i32) -> RecordBatch {
    let list: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>((0..rows).map(|r| {
            (r % 5 != 2).then(|| (0..r % 4).map(|v| (v != 1).then_some(v * r)).collect::<Vec<_>>())
        })));
    let inner: ArrayRef = Arc::new(
        (0..rows)
            .map(|r| (r % 3 != 0).then(|| format!("n{}", r % 4)))
            .collect::<StringArray>(),
    );
    let structure: ArrayRef = Arc::new(StructArray::from(vec![(
        Arc::new(Field::new("name", DataType::Utf8, true)),
        inner,
    )]));
    let key: ArrayRef = Arc::new((0..rows).collect::<Int32Array>());
    RecordBatch::try_from_iter_with_nullable([("key", key, true), ("list", list, true), ("struct", structure, true)])
        .expect("columns of equal length")
}
