//! Input of the writer, accepted and refused: Arrow types beyond those of a reader, sliced arrays, options, failing
//! sinks.

mod tables;

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::*;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use tables::{Nulls, assert_same, every_type, one_column, read_with_orc_rust, write};

/// Writes one column, whole and without its first rows, and reads it back as `expected`'s type.
fn check(array: ArrayRef, expected: ArrayRef) {
    for skip in [0, 3].into_iter().filter(|skip| *skip <= array.len()) {
        let rows = array.len() - skip;
        let given = RecordBatch::try_from_iter([("column", array.slice(skip, rows))]).unwrap();
        let wanted = RecordBatch::try_from_iter([("column", expected.slice(skip, rows))]).unwrap();
        for dictionary_threshold in [0.0, 1.0] {
            let options = WriterProperties {
                dictionary_threshold,
                row_index_stride: 2,
                ..WriterProperties::default()
            };
            let file = write(std::slice::from_ref(&given), options);
            assert_same(&wanted, &read_with_orc_rust(file, wanted.schema()));
        }
    }
}

/// Writes the same values as another type.
fn check_as(array: ArrayRef, given: &DataType) {
    check(cast(&array, given).unwrap(), array);
}

#[test]
fn unsigned_integers_are_widened() {
    let small: ArrayRef = Arc::new(Int16Array::from(vec![Some(0), Some(255), None, Some(7), Some(1)]));
    check_as(small, &DataType::UInt8);
    let middle: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), Some(65_535), None, Some(7), Some(1)]));
    check_as(middle, &DataType::UInt16);
    let large: ArrayRef = Arc::new(Int64Array::from(vec![
        Some(0),
        Some(u32::MAX.into()),
        None,
        Some(7),
        Some(1),
    ]));
    check_as(large, &DataType::UInt32);
}

#[test]
fn strings_and_binary_round_trip_in_every_form() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![
        Some("a"),
        None,
        Some(""),
        Some("a"),
        Some("a longer one than a view holds"),
    ]));
    for given in [DataType::LargeUtf8, DataType::Utf8View] {
        check_as(text.clone(), &given);
    }
    for values in [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View] {
        let given = DataType::Dictionary(Box::new(DataType::Int16), Box::new(values.clone()));
        let utf8 = DataType::Dictionary(Box::new(DataType::Int16), Box::new(DataType::Utf8));
        let keyed = cast(&text, &utf8).unwrap();
        let keyed = keyed.as_dictionary::<Int16Type>();
        let array = keyed.with_values(cast(keyed.values(), &values).unwrap());
        assert_eq!(array.data_type(), &given);
        check(Arc::new(array), text.clone());
    }
    let binary: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![
        Some(b"ab"),
        None,
        Some(b"\xff\x00"),
        Some(b"cd"),
        None,
    ]));
    for given in [
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::FixedSizeBinary(2),
    ] {
        check_as(binary.clone(), &given);
    }
}

#[test]
fn dictionary_entry_null_is_a_null() {
    let entries: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("y")]));
    let keys = Int8Array::from(vec![Some(0), Some(1), None, Some(2), Some(0)]);
    let array = DictionaryArray::new(keys, entries);
    let expected = StringArray::from(vec![Some("x"), None, None, Some("y"), Some("x")]);
    check(Arc::new(array), Arc::new(expected));
}

/// An all-NULL `pandas.Categorical`, `pyarrow.nulls(n, pyarrow.dictionary(…))`, and this crate's reader.
#[test]
fn dictionary_without_entries_has_nulls() {
    let strings: [ArrayRef; 3] = [
        Arc::new(StringArray::from(Vec::<&str>::new())),
        Arc::new(LargeStringArray::from(Vec::<&str>::new())),
        Arc::new(StringViewArray::from(Vec::<&str>::new())),
    ];
    for entries in &strings {
        for rows in [0, 1, 700] {
            let keys = Int8Array::from(vec![None; rows]);
            let array: ArrayRef = Arc::new(DictionaryArray::new(keys, Arc::clone(entries)));
            let expected: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; rows]));
            check(Arc::clone(&array), Arc::clone(&expected));
            // In a list, all of whose elements are NULL.
            let list = |items: &ArrayRef| -> ArrayRef {
                let item = Arc::new(Field::new("item", items.data_type().clone(), true));
                let lengths = OffsetBuffer::from_lengths([rows]);
                Arc::new(ListArray::new(item, lengths, Arc::clone(items), None))
            };
            check(list(&array), list(&expected));
        }
    }
    // Entries in one batch, none in another.
    let (none, some): (DictionaryArray<Int8Type>, DictionaryArray<Int8Type>) = (
        [None::<&str>; 3].into_iter().collect(),
        [Some("a"), None, Some("a")].into_iter().collect(),
    );
    assert!(none.values().is_empty());
    for threshold in [0.0, 1.0] {
        let batch = |array: &DictionaryArray<Int8Type>| {
            RecordBatch::try_from_iter_with_nullable([("word", Arc::new(array.clone()) as ArrayRef, true)]).unwrap()
        };
        let options = WriterProperties {
            dictionary_threshold: threshold,
            row_index_stride: 2,
            ..WriterProperties::default()
        };
        let written = write(&[batch(&none), batch(&some), batch(&none)], options);
        let words = [None, None, None, Some("a"), None, Some("a"), None, None, None];
        let expected = Arc::new(StringArray::from(words.to_vec())) as ArrayRef;
        let expected = RecordBatch::try_from_iter_with_nullable([("word", expected, true)]).unwrap();
        assert_same(&expected, &read_with_orc_rust(written, expected.schema()));
    }
}

#[test]
fn dictionaries_may_change_from_batch_to_batch() {
    let batch = |words: [&str; 3]| {
        let array: DictionaryArray<Int8Type> = words.into_iter().collect();
        RecordBatch::try_from_iter([("word", Arc::new(array) as ArrayRef)]).unwrap()
    };
    let batches = [batch(["a", "b", "a"]), batch(["c", "a", "c"]), batch(["b", "b", "d"])];
    let expected = StringArray::from(vec!["a", "b", "a", "c", "a", "c", "b", "b", "d"]);
    let expected = RecordBatch::try_from_iter([("word", Arc::new(expected) as ArrayRef)]).unwrap();
    for row_index_stride in [2, 100] {
        let options = WriterProperties {
            dictionary_threshold: 1.0,
            row_index_stride,
            stripe_rows: 7,
            ..WriterProperties::default()
        };
        assert_same(
            &expected,
            &read_with_orc_rust(write(&batches, options), expected.schema()),
        );
    }
}

#[test]
fn dictionary_is_abandoned_within_a_stripe() {
    // First equal values, later distinct ones: the first rows are written again, with their row groups' positions.
    let text = |row: usize| {
        if row.is_multiple_of(7) {
            None
        } else if row < 30_000 {
            Some("same".into())
        } else {
            Some(format!("row {row}"))
        }
    };
    let array: ArrayRef = Arc::new((0..150_000).map(text).collect::<StringArray>());
    let batch = RecordBatch::try_from_iter([("text", array)]).unwrap();
    let file = write(
        std::slice::from_ref(&batch),
        WriterProperties {
            codec: Some(Codec::Snappy),
            ..WriterProperties::default()
        },
    );
    assert_same(&batch, &read_with_orc_rust(file, batch.schema()));
}

#[test]
fn dates_and_times_round_trip_in_every_unit() {
    let days: ArrayRef = Arc::new(Date32Array::from(vec![
        Some(0),
        Some(-1),
        None,
        Some(20_000),
        Some(-150_000),
    ]));
    check_as(days, &DataType::Date64);
    let seconds: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![
        Some(0),
        Some(-1_000_000_000),
        None,
        Some(1_600_000_000_000_000_000),
        Some(-5_000_000_000),
    ]));
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond] {
        check_as(seconds.clone(), &DataType::Timestamp(unit, None));
    }
    let instants = cast(&seconds, &DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()))).unwrap();
    check_as(
        instants,
        &DataType::Timestamp(TimeUnit::Second, Some("Europe/Berlin".into())),
    );
}

#[test]
fn long_lists_and_fields_below_null_structs_round_trip() {
    let item = Arc::new(Field::new_list_field(DataType::Int32, true));
    let values: ArrayRef = Arc::new(Int32Array::from_iter_values(0..10));
    let nulls = NullBuffer::from(vec![true, false, true, true, false]);
    let lengths = [2, 3, 0, 4, 1];
    let long = LargeListArray::new(
        item.clone(),
        OffsetBuffer::from_lengths(lengths),
        values.clone(),
        Some(nulls.clone()),
    );
    let list = ListArray::new(item, OffsetBuffer::from_lengths(lengths), values, Some(nulls.clone()));
    check(Arc::new(long), Arc::new(list.clone()));

    // The null rows have values all the same. A list below a null struct is not written.
    let fields = Fields::from(vec![Field::new("list", list.data_type().clone(), true)]);
    let outer = NullBuffer::from(vec![true, true, false, false, true]);
    let nested: ArrayRef = Arc::new(StructArray::new(
        fields.clone(),
        vec![Arc::new(list.clone())],
        Some(outer.clone()),
    ));
    let both = NullBuffer::union(Some(&nulls), Some(&outer)).unwrap();
    let inner = ListArray::new(
        Arc::new(Field::new_list_field(DataType::Int32, true)),
        list.offsets().clone(),
        list.values().clone(),
        Some(both),
    );
    check(
        nested,
        Arc::new(StructArray::new(fields, vec![Arc::new(inner)], Some(outer))),
    );
}

fn refusal(schema: SchemaRef, options: WriterProperties) -> String {
    ArrowWriter::try_new(Vec::new(), schema, Some(options))
        .expect_err("refused")
        .to_string()
}

#[test]
fn types_that_cannot_be_stored_are_refused_by_name() {
    for data_type in [
        DataType::UInt64,
        DataType::Float16,
        DataType::Null,
        DataType::Time64(TimeUnit::Nanosecond),
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Decimal256(50, 2),
        DataType::Decimal128(10, -2),
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Int64)),
    ] {
        let error = refusal(one_column("strange", data_type.clone()), WriterProperties::default());
        assert!(
            error.contains("column strange") && error.contains(&data_type.to_string()),
            "{error}"
        );
    }
}

#[test]
fn options_that_contradict_are_refused() {
    let schema = || one_column("fare", DataType::Float64);
    let base = WriterProperties::default;
    for (options, word) in [
        (
            WriterProperties {
                codec: Some(Codec::Lzo),
                ..base()
            },
            "LZO",
        ),
        (
            WriterProperties {
                chunk_size_bytes: 1 << 23,
                ..base()
            },
            "chunk size",
        ),
        (
            WriterProperties {
                alignment_bytes: 100,
                ..base()
            },
            "power of two",
        ),
        (
            WriterProperties {
                stripe_rows: 0,
                ..base()
            },
            "stripe",
        ),
        (
            WriterProperties {
                direct_columns: vec!["fair".into()],
                ..base()
            },
            "fair",
        ),
        (
            WriterProperties {
                bloom_filter_columns: vec!["fair".into()],
                ..base()
            },
            "fair",
        ),
        (
            WriterProperties {
                bloom_filter_columns: vec!["fare".into()],
                row_index_stride: 0,
                ..base()
            },
            "row index",
        ),
        (
            WriterProperties {
                bloom_filter_columns: vec!["fare".into()],
                bloom_filter_fpp: 1.5,
                ..base()
            },
            "1.5",
        ),
    ] {
        let error = refusal(schema(), options);
        assert!(error.contains(word), "{error}");
    }
    let bools = one_column("flag", DataType::Boolean);
    assert!(
        refusal(
            bools.clone(),
            WriterProperties {
                direct_columns: vec!["flag".into()],
                ..base()
            }
        )
        .contains("Boolean")
    );
    assert!(
        refusal(
            bools,
            WriterProperties {
                bloom_filter_columns: vec!["flag".into()],
                ..base()
            }
        )
        .contains("bloom")
    );
}

fn write_error(array: ArrayRef) -> String {
    let batch = RecordBatch::try_from_iter([("column", array)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(WriterProperties::default())).unwrap();
    let error = writer.write(&batch).expect_err("refused").to_string();
    assert!(writer.write(&batch).unwrap_err().to_string().contains("incomplete"));
    assert!(writer.finish().unwrap_err().to_string().contains("incomplete"));
    error
}

#[test]
fn timestamps_that_readers_would_change_are_refused() {
    let late = write_error(Arc::new(TimestampNanosecondArray::from(vec![0, -500_000_000])));
    assert!(
        late.contains("1969-12-31T23:59:59.500000000") && late.contains("column column"),
        "{late}"
    );
    let early = write_error(Arc::new(TimestampSecondArray::from(vec![i64::MIN])));
    assert!(early.contains("too early"), "{early}");
    let wide = Decimal128Array::from(vec![12_345]).with_data_type(DataType::Decimal128(4, 0));
    assert!(write_error(Arc::new(wide)).contains("more than 4 digits"));
    let far = write_error(Arc::new(Date64Array::from(vec![i64::MAX])));
    assert!(far.contains("32 bits"), "{far}");
    // Within the first millisecond of that second, nothing is rounded.
    let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![
        -999_000_001,
        -1_000_000_000,
        -1_000_000_001,
        1,
    ]));
    let batch = RecordBatch::try_from_iter([("time", array)]).unwrap();
    let file = write(std::slice::from_ref(&batch), WriterProperties::default());
    assert_same(&batch, &read_with_orc_rust(file, batch.schema()));
}

#[test]
fn batch_of_another_schema_is_refused() {
    let mut writer = ArrowWriter::try_new(
        Vec::new(),
        one_column("a", DataType::Int32),
        Some(WriterProperties::default()),
    )
    .unwrap();
    let other = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = writer.write(&other).unwrap_err().to_string();
    assert!(error.contains("Int64") && error.contains("Int32"), "{error}");
    // Nothing was written, so the file can go on.
    let right = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]).unwrap();
    writer.write(&right).unwrap();
    assert_eq!(writer.rows(), 1);
    writer.finish().unwrap();
}

/// Full after some bytes.
#[derive(Debug)]
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disk_error_has_advice() {
    let batch = every_type(500, Nulls::Some, 1);
    assert!(ArrowWriter::try_new(Full(0), batch.schema(), Some(WriterProperties::default())).is_err());
    for room in [3, 5000, 20_000] {
        let options = WriterProperties {
            stripe_rows: 100,
            ..WriterProperties::default()
        };
        let mut writer = ArrowWriter::try_new(Full(room), batch.schema(), Some(options)).unwrap();
        let error = writer.write(&batch).unwrap_err().to_string();
        assert!(
            error.contains("free some space") && error.contains("removed"),
            "{error}"
        );
        assert!(writer.finish().is_err());
    }
}

#[test]
fn files_without_row_index_or_rows_round_trip() {
    for rows in [0, 1, 25_000] {
        let batch = every_type(rows, Nulls::Some, 5);
        let options = WriterProperties {
            row_index_stride: 0,
            stripe_rows: 9_000,
            ..WriterProperties::default()
        };
        let file = write(std::slice::from_ref(&batch), options);
        assert_same(&batch, &read_with_orc_rust(file, batch.schema()));
    }
}

#[test]
fn stripes_end_by_size_and_equal_rows_make_equal_bytes() {
    let batch = every_type(20_000, Nulls::Some, 6);
    let options = WriterProperties {
        stripe_size_bytes: 500_000,
        row_index_stride: 1000,
        ..WriterProperties::default()
    };
    let file = write(std::slice::from_ref(&batch), options.clone());
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(options)).unwrap();
    for start in (0..20_000).step_by(1000) {
        writer.write(&batch.slice(start, 1000)).unwrap();
    }
    assert!(writer.bytes_written() > 1_000_000);
    assert!(writer.into_inner().unwrap() == file);
}
