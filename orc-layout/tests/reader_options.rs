//! The types in which a reader returns columns: strings as views and dictionaries, units and zones of timestamps, whole
//! schemas, and files on disk.

mod tables;

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchReader, StringArray, TimestampNanosecondArray};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit, UInt32Type};
use bytes::Bytes;
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::arrow_reader::{ArrowReaderOptions, OrcReaderBuilder, StringType};
use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::read_options::TimestampUnit;
use grampus_orc_layout::write::WriterProperties;
use tables::{Nulls, assert_same, every_type};

fn file(nulls: Nulls) -> (RecordBatch, Bytes) {
    let table = every_type(2_000, nulls, 3);
    let properties = WriterProperties::builder()
        .set_max_stripe_row_count(700)
        .set_row_index_stride(100);
    let file = tables::write(std::slice::from_ref(&table), properties.build());
    (table, file)
}

fn read(file: &Bytes, options: &ArrowReaderOptions) -> RecordBatch {
    let reader = OrcReaderBuilder::try_new_with_options(file.clone(), options)
        .unwrap()
        .build()
        .unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    assert!(batches.iter().all(|batch| batch.schema() == schema));
    concat_batches(&schema, &batches).unwrap()
}

#[test]
fn strings_are_views_or_dictionaries_with_the_same_values() {
    for nulls in [Nulls::None, Nulls::Some, Nulls::All] {
        let (table, file) = file(nulls);
        let views = read(&file, &ArrowReaderOptions::new().with_string_type(StringType::Utf8View));
        assert_same(&table, &views);
        for name in ["word", "text"] {
            assert_eq!(views.column_by_name(name).unwrap().data_type(), &DataType::Utf8View);
        }
        // Below a struct and a map too.
        let DataType::Struct(fields) = views.column_by_name("struct").unwrap().data_type().clone() else {
            panic!("no struct");
        };
        assert_eq!(fields[1].data_type(), &DataType::Utf8View);
        let coded = read(
            &file,
            &ArrowReaderOptions::new().with_string_type(StringType::Dictionary),
        );
        assert_same(&table, &coded);
        let words = coded.column_by_name("word").unwrap().as_dictionary::<UInt32Type>();
        // The stripes' dictionaries of eight words were taken over, and some joined.
        assert!(words.values().len() <= 100, "{} entries", words.values().len());
    }
}

#[test]
fn instants_have_the_wanted_unit_and_zone() {
    let (table, file) = file(Nulls::Some);
    let options = ArrowReaderOptions::new()
        .with_timestamp_unit(TimestampUnit::Microsecond)
        .with_zone("Europe/Berlin");
    let read = read(&file, &options);
    let time = read.column_by_name("time").unwrap();
    assert_eq!(time.data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let instant = read.column_by_name("instant").unwrap();
    let wanted = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into()));
    assert_eq!(instant.data_type(), &wanted);
    // The same instants, without what is below a microsecond.
    let stored = table.column_by_name("instant").unwrap();
    let nanoseconds = cast(stored, &DataType::Int64).unwrap();
    let microseconds = cast(instant, &DataType::Int64).unwrap();
    let (nanoseconds, microseconds) = (
        nanoseconds.as_primitive::<arrow::datatypes::Int64Type>(),
        microseconds.as_primitive::<arrow::datatypes::Int64Type>(),
    );
    for (nanoseconds, microseconds) in nanoseconds.iter().zip(microseconds) {
        assert_eq!(nanoseconds.map(|value| value.div_euclid(1_000)), microseconds);
    }
    for zone in ["+05:30", "-23:59", "UTC", "America/New_York"] {
        let options = ArrowReaderOptions::new().with_zone(zone);
        assert!(
            OrcReaderBuilder::try_new_with_options(file.clone(), &options).is_ok(),
            "{zone}"
        );
    }
    for zone in ["", "Berlin", "+5:30", "+24:00", "05:30"] {
        let options = ArrowReaderOptions::new().with_zone(zone);
        let error = OrcReaderBuilder::try_new_with_options(file.clone(), &options).unwrap_err();
        assert!(error.to_string().contains("is no zone"), "{error}");
    }
}

/// 9999-12-31 does not fit nanoseconds: the statistics tell, and the column has microseconds.
#[test]
fn units_follow_from_the_statistics() {
    let late: ArrayRef = Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![
        253_402_214_400_000_000,
    ]));
    let early: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("late", late), ("early", early)]).unwrap();
    let file = tables::write(std::slice::from_ref(&batch), WriterProperties::default());
    assert_same(&batch, &read(&file, &ArrowReaderOptions::new()));
    let unit = ArrowReaderOptions::new().with_timestamp_unit(TimestampUnit::Nanosecond);
    let mut reader = OrcReaderBuilder::try_new_with_options(file, &unit)
        .unwrap()
        .build()
        .unwrap();
    assert!(matches!(reader.next_batch(), Err(LayoutError::OutOfRange { .. })));
}

#[test]
fn columns_are_cast_to_the_wanted_schema_or_refused() {
    let columns: [(&str, ArrayRef); 2] = [
        (
            "n",
            Arc::new(arrow::array::Int32Array::from(vec![Some(1), None, Some(300)])),
        ),
        ("t", Arc::new(StringArray::from(vec!["a", "b", "a"]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap();
    let file = tables::write(std::slice::from_ref(&batch), WriterProperties::default());
    let options = |fields: Vec<Field>| ArrowReaderOptions::new().with_schema(Arc::new(Schema::new(fields)));
    let coded = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::LargeUtf8));
    let wanted = vec![
        Field::new("n", DataType::Decimal128(10, 2), true),
        Field::new("t", coded, true),
    ];
    let cast_batch = read(&file, &options(wanted.clone()));
    assert_eq!(
        cast_batch
            .schema()
            .fields()
            .iter()
            .map(|f| f.as_ref().clone())
            .collect::<Vec<_>>(),
        wanted
    );
    assert_same(&batch, &cast_batch);

    let refused = |fields: Vec<Field>| {
        let builder = OrcReaderBuilder::try_new_with_options(file.clone(), &options(fields));
        let error = match builder {
            Ok(builder) => builder.build().unwrap().next_batch().unwrap_err(),
            Err(error) => error,
        };
        error.to_string()
    };
    let text = || Field::new("t", DataType::Utf8, true);
    let number = |data_type| Field::new("n", data_type, true);
    let cases = [
        (refused(vec![text()]), "the schema has 1 columns, the file 2"),
        (refused(vec![text(), text()]), "a column t where the file has n"),
        (refused(vec![number(DataType::FixedSizeBinary(3)), text()]), "column n"),
        // 300 is no 8-bit integer, and a null is none either.
        (refused(vec![number(DataType::Int8), text()]), "column n"),
        (
            refused(vec![Field::new("n", DataType::Int32, false), text()]),
            "do not fit the schema",
        ),
    ];
    for (error, wanted) in cases {
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn files_on_disk_are_read() {
    let (table, file) = file(Nulls::Some);
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(&file).unwrap();
    let source = FileSource::try_new(on_disk.reopen().unwrap(), "table.orc").unwrap();
    let reader = OrcReaderBuilder::try_new(source).unwrap().build().unwrap();
    let schema = reader.schema();
    let batches: Vec<RecordBatch> = reader.map(|batch| batch.unwrap()).collect();
    assert_same(&table, &concat_batches(&schema, &batches).unwrap());
    // Cut off, the file is refused by name.
    on_disk.as_file().set_len(file.len() as u64 - 1).unwrap();
    let source = FileSource::try_new(on_disk.reopen().unwrap(), "table.orc").unwrap();
    let error = OrcReaderBuilder::try_new(source).unwrap_err().to_string();
    assert!(error.starts_with("table.orc: "), "{error}");
}
