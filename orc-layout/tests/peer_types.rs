//! Unions, CHAR, VARCHAR, attributes, and bloom filters of decimals and timestamps in files of our writer: pyarrow and
//! pyorc find the same values, and pyorc's writer makes the same filters.

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Decimal128Array, Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray, UnionArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema, UnionFields};
use bytes::Bytes;
use common::Memory;
use grampus_orc_layout::bloom::BloomFilter;
use grampus_orc_layout::metadata_reader::{read_index, read_stripe, read_tail};
use grampus_orc_layout::proto::stream::Kind;
use grampus_orc_layout::proto::{self, BloomFilterIndex};
use grampus_orc_layout::text_type::TextType;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use grampus_test_support::{Resource, python};
use prost::Message;
use serde_json::{Value, json};

const ROWS: usize = 700;

fn variants() -> UnionFields {
    let fields = [
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ];
    UnionFields::try_new([3, 5], fields).unwrap()
}

/// Row k is the number k, the text "t" + k, or a null text, in turns.
fn dense(count: usize) -> UnionArray {
    let ids = (0..count).map(|k| if k % 3 == 0 { 3 } else { 5 }).collect::<Vec<i8>>();
    let numbers: Int64Array = (0..count).filter(|k| k % 3 == 0).map(|k| Some(k as i64)).collect();
    let texts = (0..count).filter(|k| k % 3 != 0);
    let texts: StringArray = texts.map(|k| (k % 3 == 1).then(|| format!("t{k}"))).collect();
    let mut next = [0, 0];
    let offsets = ids.iter().map(|&id| {
        let next = &mut next[usize::from(id == 5)];
        *next += 1;
        *next - 1
    });
    let offsets: Vec<i32> = offsets.collect();
    UnionArray::try_new(
        variants(),
        ids.into(),
        Some(offsets.into()),
        vec![Arc::new(numbers), Arc::new(texts)],
    )
    .unwrap()
}

fn sparse(count: usize) -> UnionArray {
    let ids: Vec<i8> = (0..count).map(|k| if k % 3 == 0 { 3 } else { 5 }).collect();
    let numbers: Int64Array = (0..count).map(|k| Some(k as i64)).collect();
    let texts: StringArray = (0..count).map(|k| (k % 3 == 1).then(|| format!("t{k}"))).collect();
    UnionArray::try_new(variants(), ids.into(), None, vec![Arc::new(numbers), Arc::new(texts)]).unwrap()
}

fn union_value(k: usize) -> Value {
    match k % 3 {
        0 => json!(k),
        1 => json!(format!("t{k}")),
        _ => Value::Null,
    }
}

/// Lists of 0, 1 and 2 unions in turns; each fifth list is null.
fn lists() -> (ListArray, Vec<Value>) {
    let lengths: Vec<usize> = (0..ROWS).map(|k| k % 3).collect();
    let values = sparse(lengths.iter().sum());
    let field = Arc::new(Field::new_list_field(
        DataType::Union(variants(), arrow::datatypes::UnionMode::Sparse),
        true,
    ));
    let nulls = (0..ROWS).map(|k| k % 5 != 0).collect();
    let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
    let expected = (0..ROWS).map(|k| match k % 5 {
        0 => Value::Null,
        _ => (offsets[k] as usize..offsets[k + 1] as usize)
            .map(union_value)
            .collect(),
    });
    let expected = expected.collect();
    (ListArray::new(field, offsets, Arc::new(values), Some(nulls)), expected)
}

fn text(k: usize) -> Option<String> {
    (!k.is_multiple_of(7)).then(|| format!("é{}", k % 40))
}

/// The table, and its rows as JSON. CHAR values have their blanks there.
fn types() -> (RecordBatch, Vec<Value>) {
    let texts: ArrayRef = Arc::new((0..ROWS).map(text).collect::<StringArray>());
    let (lists, list_values) = lists();
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let columns: [(&str, ArrayRef); 6] = [
        ("dense", Arc::new(dense(ROWS))),
        ("sparse", Arc::new(sparse(ROWS))),
        ("list", Arc::new(lists)),
        ("c", texts.clone()),
        ("v", texts),
        ("number", numbers),
    ];
    let field = |(name, array): &(&str, ArrayRef)| {
        let field = Field::new(*name, array.data_type().clone(), true);
        match *name {
            "number" => field.with_metadata([("iceberg.id".to_owned(), "6".to_owned())].into()),
            _ => field,
        }
    };
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let arrays = columns.iter().map(|(_, array)| array.clone()).collect();
    let rows = (0..ROWS).map(|k| {
        let padded = text(k).map(|text| format!("{text:6}"));
        let union = union_value(k);
        json!([union.clone(), union, list_values[k], padded, text(k), k])
    });
    (RecordBatch::try_new(Arc::new(schema), arrays).unwrap(), rows.collect())
}

fn blooms() -> RecordBatch {
    let small = Decimal128Array::from_iter_values((0..3_000).map(|k| (k * 10) - 5_000));
    let large = Decimal128Array::from_iter_values((0..3_000i128).map(|k| k * 10i128.pow(25) - k));
    // Microseconds, before and after 1970; pyorc and ORC C++ keep them all.
    let times = (0..3_000).map(|k| k * 700_000_000_123 - 900_000_000_000_000);
    let local = TimestampMicrosecondArray::from_iter_values(times.clone());
    let instant = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
    let columns: [(&str, ArrayRef); 4] = [
        ("small", Arc::new(small.with_precision_and_scale(10, 2).unwrap())),
        ("large", Arc::new(large.with_precision_and_scale(30, 3).unwrap())),
        ("local", Arc::new(local)),
        ("instant", Arc::new(instant)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

fn write(path: &Path, batch: &RecordBatch, properties: WriterProperties) {
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    for start in (0..batch.num_rows()).step_by(97) {
        writer
            .write(&batch.slice(start, 97.min(batch.num_rows() - start)))
            .unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn pyarrow_and_pyorc_read_the_types_and_use_the_filters() {
    let Some(python) = python(&[Resource::Pyarrow, Resource::Pyorc]) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (table, expected) = types();
    let properties = WriterProperties::builder()
        .set_row_index_stride(100)
        .set_max_stripe_row_count(300)
        .set_column_text_type("c", TextType::Char { length: 6 })
        .set_column_text_type("v", TextType::Varchar { length: 5 })
        .set_column_attribute("list.item", "unit", "none")
        .build();
    write(&folder.path().join("types.orc"), &table, properties);
    let mut properties = WriterProperties::builder()
        .set_row_index_stride(1_000)
        .set_bloom_filter_fpp(0.01);
    for column in ["small", "large", "local", "instant"] {
        properties = properties.set_column_bloom_filter_enabled(column, true);
    }
    write(&folder.path().join("blooms.orc"), &blooms(), properties.build());

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/check_types.py");
    let out = Command::new(python)
        .arg(script)
        .arg(folder.path())
        .output()
        .expect("a Python that starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let found: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    for reader in ["pyarrow", "pyorc"] {
        let rows = found[reader]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), ROWS, "{reader}");
        for (row, expected) in rows.iter().zip(&expected) {
            assert_eq!(row, expected, "{reader}");
        }
        assert_eq!(
            found[reader]["attributes"]["number"],
            json!({"iceberg.id": "6"}),
            "{reader}"
        );
    }
    assert_eq!(
        found["pyorc"]["schema"],
        "struct<dense:uniontype<bigint,string>,sparse:uniontype<bigint,string>,list:array<uniontype<bigint,string>>,\
         c:char(6),v:varchar(5),number:bigint>"
    );
    for column in ["small", "large", "local"] {
        let lookups = &found["lookups"][column];
        let present = lookups["present"].as_array().unwrap();
        // Each value is in one row group of 1,000 rows; a filter may let another pass.
        assert!(
            present.iter().all(|rows| rows.as_u64() >= Some(1_000)),
            "{column}: {present:?}"
        );
        assert!(present.iter().filter(|rows| rows.as_u64() == Some(1_000)).count() * 10 > present.len() * 8);
        assert_eq!(lookups["absent"], 0, "{column}");
    }
    let ours = stored_filters(&folder.path().join("blooms.orc"));
    let theirs = stored_filters(&folder.path().join("blooms_of_pyorc.orc"));
    assert_eq!(ours.len(), 4);
    assert_eq!(ours, theirs);
}

/// The filters of the columns 1 to 4 in the only stripe of an uncompressed file.
fn stored_filters(path: &Path) -> Vec<Vec<proto::BloomFilter>> {
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    let source = Memory(bytes.clone());
    let tail = read_tail(&"f".into(), bytes.len() as u64, &source).unwrap();
    assert_eq!(tail.stripes.len(), 1);
    let stripe = read_stripe(&tail, &source, 0).unwrap();
    let filters = (1..=4).map(|column| {
        let range = stripe.stream(column, Kind::BloomFilterUtf8).unwrap().range();
        let index = BloomFilterIndex::decode(&bytes[range.start as usize..range.end as usize]).unwrap();
        index.bloom_filter
    });
    filters.collect()
}

#[test]
fn readers_look_decimals_and_timestamps_up_in_filters() {
    let batch = blooms();
    let mut properties = WriterProperties::builder()
        .set_row_index_stride(1_000)
        .set_bloom_filter_fpp(0.001);
    for column in ["small", "large", "local", "instant"] {
        properties = properties.set_column_bloom_filter_enabled(column, true);
    }
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    let source = Memory(writer.into_inner().unwrap().into());
    let tail = read_tail(&"f".into(), source.0.len() as u64, &source).unwrap();
    let stripe = read_stripe(&tail, &source, 0).unwrap();
    let filters = |column| read_index(&tail, &stripe, &source, column).unwrap().bloom_filters;
    type Lookup = fn(&BloomFilter, i128) -> bool;
    type RowValue = fn(i128) -> i128;
    let cases: [(u32, Lookup, RowValue); 4] = [
        (
            1,
            |filter, value| filter.may_contain_decimal(value, 2),
            |k| k * 10 - 5_000,
        ),
        // The same decimal at another scale.
        (
            2,
            |filter, value| filter.may_contain_decimal(value * 100, 5),
            |k| k * 10i128.pow(25) - k,
        ),
        (3, BloomFilter::may_contain_timestamp, |k| {
            (k * 700_000_000_123 - 900_000_000_000_000) * 1_000
        }),
        (4, BloomFilter::may_contain_timestamp, |k| {
            (k * 700_000_000_123 - 900_000_000_000_000) * 1_000
        }),
    ];
    for (column, may_contain, value) in cases {
        let filters = filters(column);
        assert_eq!(filters.len(), 3, "column {column}");
        let mut wrong = 0;
        for k in 0..3_000 {
            assert!(
                may_contain(&filters[k / 1_000], value(k as i128)),
                "column {column} row {k}"
            );
            wrong += usize::from(may_contain(&filters[(k / 1_000 + 1) % 3], value(k as i128)));
        }
        assert!(
            wrong < 30,
            "column {column}: {wrong} of 3,000 values are found in the wrong filter"
        );
    }
}
