//! The writer's API and the types that other tables do not have: unions, CHAR, VARCHAR, attributes, properties of
//! single columns.

mod tables;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DictionaryArray, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    StructArray, UnionArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema, UnionFields, UnionMode};
use bytes::Bytes;
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::arrow_reader::{ArrowReaderOptions, OrcReaderBuilder};
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::read_options::CharPadding;
use grampus_orc_layout::schema::TypeKind;
use grampus_orc_layout::text_type::{TEXT_TYPE_KEY, TextType};
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};
use tables::{Nulls, assert_same, every_type};

fn write(batch: &RecordBatch, properties: WriterProperties) -> Bytes {
    tables::write(std::slice::from_ref(batch), properties)
}

fn read_with(file: &Bytes, options: &ArrowReaderOptions) -> RecordBatch {
    let builder = OrcReaderBuilder::try_new_with_options(file.clone(), options).unwrap();
    let schema = builder.schema().clone();
    let batches: Vec<RecordBatch> = builder.build().unwrap().map(|batch| batch.unwrap()).collect();
    concat_batches(&schema, &batches).unwrap()
}

fn read(file: &Bytes) -> RecordBatch {
    read_with(file, &ArrowReaderOptions::new())
}

fn one(name: &str, array: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap()
}

/// What a union's row holds: its variant, and the value's text; a null has none.
fn union_rows(union: &UnionArray) -> Vec<(usize, Option<String>)> {
    let DataType::Union(fields, _) = union.data_type() else {
        panic!("no union");
    };
    let ids: Vec<i8> = fields.iter().map(|(id, _)| id).collect();
    let row = |row: usize| {
        let variant = ids.iter().position(|&id| id == union.type_id(row)).unwrap();
        let value = union.value(row);
        let text = arrow::util::display::array_value_to_string(&value, 0).unwrap();
        (variant, value.is_valid(0).then_some(text))
    };
    (0..union.len()).map(row).collect()
}

fn unions(count: usize, mode: UnionMode) -> UnionArray {
    let fields = UnionFields::try_new(
        [7, 2, 9],
        [
            Field::new("n", DataType::Int64, true),
            Field::new("t", DataType::Utf8, true),
            Field::new("unused", DataType::Float64, true),
        ],
    )
    .unwrap();
    let ids: Vec<i8> = (0..count).map(|k| if k * k % 7 < 3 { 7 } else { 2 }).collect();
    let number = |k: usize| (!k.is_multiple_of(5)).then_some(k as i64);
    let text = |k: usize| (!k.is_multiple_of(4)).then(|| format!("t{k}"));
    let none: ArrayRef =
        arrow::array::new_null_array(&DataType::Float64, if mode == UnionMode::Dense { 0 } else { count });
    let (numbers, texts, offsets): (Int64Array, StringArray, _) = match mode {
        UnionMode::Sparse => ((0..count).map(number).collect(), (0..count).map(text).collect(), None),
        UnionMode::Dense => {
            // The values lie in reverse order.
            let of = |id: i8| (0..count).rev().filter(|&k| ids[k] == id).collect::<Vec<_>>();
            let (of_numbers, of_texts) = (of(7), of(2));
            let at = |k: usize| {
                let rows = if ids[k] == 7 { &of_numbers } else { &of_texts };
                rows.iter().position(|&row| row == k).unwrap() as i32
            };
            let offsets: Vec<i32> = (0..count).map(at).collect();
            let numbers = of_numbers.iter().map(|&k| number(k)).collect();
            (
                numbers,
                of_texts.iter().map(|&k| text(k)).collect(),
                Some(offsets.into()),
            )
        }
    };
    UnionArray::try_new(
        fields,
        ids.into(),
        offsets,
        vec![Arc::new(numbers), Arc::new(texts), none],
    )
    .unwrap()
}

#[test]
fn unions_of_both_modes_keep_variants_and_nulls() {
    for mode in [UnionMode::Sparse, UnionMode::Dense] {
        for codec in [None, Some(Codec::Zstd)] {
            let union = unions(500, mode);
            // Slices have offsets of their own.
            let sliced = union.slice(13, 450);
            let properties = WriterProperties {
                codec,
                row_index_stride: 60,
                stripe_rows: 170,
                ..WriterProperties::default()
            };
            let file = write(&one("u", Arc::new(sliced.clone())), properties);
            let back = read(&file);
            assert_eq!(union_rows(back.column(0).as_union()), union_rows(&sliced));
        }
    }
}

#[test]
fn unions_below_structs_and_lists_keep_their_values() {
    let union = unions(300, UnionMode::Sparse);
    let field = Field::new("u", union.data_type().clone(), true);
    let nulls: NullBuffer = (0..300).map(|k| k % 6 != 0).collect();
    let structs = StructArray::new(Fields::from(vec![field]), vec![Arc::new(union.clone())], Some(nulls));
    let back = read(&write(
        &one("s", Arc::new(structs.clone())),
        WriterProperties::default(),
    ));
    let found = back.column(0).as_struct();
    assert_eq!(found.nulls(), structs.nulls());
    let (found, wanted) = (union_rows(found.column(0).as_union()), union_rows(&union));
    for row in (0..300).filter(|&row| structs.is_valid(row)) {
        assert_eq!(found[row], wanted[row]);
    }
}

#[test]
fn char_and_varchar_round_trip_from_every_text_type() {
    let texts = [
        Some("a"),
        None,
        Some("Zürich"),
        Some(""),
        Some("日本  "),
        Some("sixsix"),
    ];
    let dictionary: DictionaryArray<Int32Type> = texts.into_iter().collect();
    let arrays: [ArrayRef; 4] = [
        Arc::new(StringArray::from(texts.to_vec())),
        Arc::new(LargeStringArray::from(texts.to_vec())),
        Arc::new(StringViewArray::from(texts.to_vec())),
        Arc::new(dictionary),
    ];
    for array in arrays {
        for threshold in [0.0, 1.0] {
            let batch =
                RecordBatch::try_from_iter_with_nullable([("c", array.clone(), true), ("v", array.clone(), true)])
                    .unwrap();
            let properties = WriterProperties::builder()
                .set_column_text_type("c", TextType::Char { length: 6 })
                .set_column_text_type("v", TextType::Varchar { length: 6 })
                .set_column_dictionary_threshold("c", threshold)
                .set_column_dictionary_threshold("v", threshold)
                .build();
            let file = write(&batch, properties);
            let back = read(&file);
            let wanted: StringArray = texts
                .iter()
                .map(|text| text.map(|text| text.trim_end_matches(' ')))
                .collect();
            assert_eq!(back.column(0).as_string::<i32>(), &wanted);
            assert_eq!(back.column(1).as_string::<i32>(), &StringArray::from(texts.to_vec()));
            // The fields state the types, so that a copy has them too.
            let schema = back.schema();
            assert_eq!(schema.field(0).metadata()[TEXT_TYPE_KEY], "char(6)");
            let copy = write(&back, WriterProperties::default());
            let tail = OrcReaderBuilder::try_new(copy).unwrap();
            assert_eq!(tail.orc_schema().column(1).kind, TypeKind::Char { length: 6 });
            assert_eq!(tail.orc_schema().column(2).kind, TypeKind::Varchar { length: 6 });
            // As stored, CHAR values have six characters.
            let kept = read_with(&file, &ArrowReaderOptions::new().with_char_padding(CharPadding::Kept));
            let lengths = kept
                .column(0)
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(|text| text.chars().count());
            assert!(lengths.into_iter().all(|length| length == 6));
        }
    }
}

#[test]
fn attributes_are_stored_and_read() {
    let inner = Field::new("x", DataType::Int64, true).with_metadata([("depth".into(), "1".into())].into());
    let structs = StructArray::new(
        Fields::from(vec![inner]),
        vec![Arc::new(Int64Array::from(vec![1]))],
        None,
    );
    let metadata: HashMap<String, String> = [("b", "2"), ("a", "1")].map(|(k, v)| (k.into(), v.into())).into();
    let field = Field::new("s", structs.data_type().clone(), true).with_metadata(metadata.clone());
    let schema = Arc::new(Schema::new(vec![field]));
    let batch = RecordBatch::try_new(schema, vec![Arc::new(structs)]).unwrap();
    let properties = WriterProperties::builder()
        .set_column_attribute("s", "a", "replaced")
        .set_column_attribute("s.x", "unit", "m")
        .build();
    let file = write(&batch, properties);
    let builder = OrcReaderBuilder::try_new(file).unwrap();
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    };
    assert_eq!(
        builder.orc_schema().column(1).attributes,
        pairs(&[("a", "replaced"), ("b", "2")])
    );
    assert_eq!(
        builder.orc_schema().column(2).attributes,
        pairs(&[("depth", "1"), ("unit", "m")])
    );
    assert_eq!(builder.schema().field(0).metadata()["a"], "replaced");
}

#[test]
fn properties_of_columns_shape_their_streams() {
    let table = every_type(3_000, Nulls::None, 21);
    let base = WriterProperties::builder()
        .set_compression(Some(Codec::Zstd))
        .set_row_index_stride(500);
    let statistics = |properties: WriterProperties| {
        let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), Some(properties)).unwrap();
        writer.write(&table).unwrap();
        let tail = writer.finish().unwrap();
        let file = Bytes::from(writer.into_inner().unwrap());
        assert_eq!(tail.file_length, file.len() as u64);
        assert_same(&table, &read(&file));
        (file, tail)
    };
    let (plain, tail) = statistics(base.clone().build());
    assert_eq!((tail.rows, tail.stripes.len()), (3_000, 1));
    let small = base.clone().set_column_chunk_size("near", 64).build();
    let (chunked, _) = statistics(small);
    assert!(chunked.len() > plain.len(), "more chunk headers");
    let (direct, _) = statistics(base.clone().set_column_dictionary_enabled("word", false).build());
    assert!(direct.len() > plain.len(), "words one by one");
    let fine = base
        .set_column_bloom_filter_enabled("long", true)
        .set_column_bloom_filter_fpp("long", 0.0001);
    let coarse = fine.clone().set_column_bloom_filter_fpp("long", 0.5);
    let (fine, coarse) = (statistics(fine.build()).0.len(), statistics(coarse.build()).0.len());
    assert!(fine > coarse, "{fine} and {coarse} bytes");
}

#[test]
fn stripes_end_where_the_caller_flushes() {
    let table = every_type(1_000, Nulls::Some, 22);
    let mut writer = ArrowWriter::try_new(Vec::new(), table.schema(), None).unwrap();
    writer.write(&table.slice(0, 300)).unwrap();
    assert_eq!(writer.in_progress_rows(), 300);
    assert!(writer.in_progress_size() > 0);
    writer.flush().unwrap();
    assert_eq!(writer.in_progress_rows(), 0);
    assert_eq!(writer.inner().len() as u64, writer.bytes_written());
    writer.flush().unwrap();
    writer.write(&table.slice(300, 700)).unwrap();
    let tail = writer.finish().unwrap();
    let rows: Vec<u64> = tail.stripes.iter().map(|stripe| stripe.rows).collect();
    assert_eq!(rows, [300, 700]);
    for error in [
        writer.write(&table).unwrap_err(),
        writer.flush().unwrap_err(),
        writer.finish().unwrap_err(),
    ] {
        assert!(error.to_string().contains("the file is finished"), "{error}");
    }
    assert_same(&table, &read(&Bytes::from(writer.into_inner().unwrap())));
}

#[test]
fn properties_and_values_that_do_not_fit_are_refused() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["abc", "abcd "]));
    let batch =
        RecordBatch::try_from_iter([("t", texts), ("n", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef)]).unwrap();
    let refused = |properties: WriterProperties| {
        let writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties));
        let error = match writer {
            Ok(mut writer) => writer.write(&batch).unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, LayoutError::Write(_)));
        error.to_string()
    };
    let builder = WriterProperties::builder;
    let char_of = |length| builder().set_column_text_type("t", TextType::Char { length });
    let cases = [
        (
            refused(char_of(3).build()),
            "column t (char(3)): a text has 4 characters",
        ),
        (
            refused(
                builder()
                    .set_column_text_type("t", TextType::Varchar { length: 4 })
                    .build(),
            ),
            "column t (varchar(4)): a text has 5 characters",
        ),
        (
            refused(
                builder()
                    .set_column_text_type("n", TextType::Char { length: 3 })
                    .build(),
            ),
            "column n: Int64 cannot be stored as char(3)",
        ),
        (
            refused(builder().set_column_chunk_size("x", 100).build()),
            "column x: there are properties for it",
        ),
        (
            refused(builder().set_column_chunk_size("n", 1 << 20).build()),
            "the chunk size must be between",
        ),
        (
            refused(builder().set_column_dictionary_threshold("n", 0.5).build()),
            "only text has dictionaries",
        ),
        (
            refused(builder().set_column_bloom_filter_fpp("n", 0.5).build()),
            "needs a bloom filter",
        ),
        (
            refused(char_of(9).set_column_bloom_filter_enabled("t", true).build()),
            "column t: no bloom filters are made of",
        ),
    ];
    for (error, wanted) in cases {
        assert!(error.contains(wanted), "{error}");
    }
    let empty = tables::one_column("u", DataType::Union(UnionFields::empty(), UnionMode::Sparse));
    let error = ArrowWriter::try_new(Vec::new(), empty, None).unwrap_err().to_string();
    assert!(error.contains("without variants"), "{error}");
}
