//! MAP columns: the names of their fields, and functions that trust the names.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int32Array, Int64Array, ListArray, MapArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context, register, run, value, write_orc};

/// What a map's entries and their fields are called, and whether values may be NULL.
type Names<'a> = (&'a str, &'a str, &'a str, bool);

/// `{a: 1, b: 2}`, NULL, `{}`, `{c: 3 or NULL}`, in rows `i` = 0 to 3.
fn table((entries, key, value, has_nulls): Names<'_>) -> RecordBatch {
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), (!has_nulls).then_some(3)]));
    // Iceberg's writers number the fields of a map.
    let numbered = |field: Field| field.with_metadata([("PARQUET:field_id".to_owned(), "7".to_owned())].into());
    let items = StructArray::from(vec![
        (Arc::new(numbered(Field::new(key, DataType::Utf8, false))), keys),
        (Arc::new(Field::new(value, DataType::Int32, has_nulls)), values),
    ]);
    let field = Arc::new(Field::new(entries, items.data_type().clone(), false));
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let map = MapArray::new(
        field,
        OffsetBuffer::from_lengths([2, 0, 0, 1]),
        items,
        Some(nulls),
        false,
    );
    let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..4));
    RecordBatch::try_from_iter_with_nullable([("i", rows, true), ("m", Arc::new(map), true)]).unwrap()
}

const NAMES: [Names<'static>; 4] = [
    ("entries", "key", "value", true),
    ("entries", "keys", "values", true),
    ("key_value", "key", "value", false),
    ("x", "", "y", false),
];

/// Checks the entries of `table`'s maps in table `name`.
async fn check(context: &SessionContext, name: &str, has_nulls: bool) {
    let last = if has_nulls { "" } else { "3" };
    let shown = |text: &str| text.to_owned();
    for (sql, expected) in [
        (
            format!("SELECT map_entries(m) FROM {name} WHERE i = 0"),
            shown("[{key: a, value: 1}, {key: b, value: 2}]"),
        ),
        (format!("SELECT map_entries(m) FROM {name} WHERE i = 1"), shown("")),
        (format!("SELECT map_entries(m) FROM {name} WHERE i = 2"), shown("[]")),
        (
            format!("SELECT map_entries(m) FROM {name} WHERE i = 3"),
            format!("[{{key: c, value: {last}}}]"),
        ),
        (
            format!("SELECT count(*) FROM (SELECT unnest(map_entries(m)) FROM {name})"),
            shown("3"),
        ),
        (
            format!(
                "SELECT string_agg(e['key'], '+' ORDER BY i, e['key']) \
                 FROM (SELECT i, unnest(map_entries(m)) AS e FROM {name})"
            ),
            shown("a+b+c"),
        ),
        (format!("SELECT map_keys(m) FROM {name} WHERE i = 0"), shown("[a, b]")),
        (format!("SELECT map_values(m) FROM {name} WHERE i = 0"), shown("[1, 2]")),
        (
            format!("SELECT map_extract(m, 'b') FROM {name} WHERE i = 0"),
            shown("[2]"),
        ),
        (format!("SELECT cardinality(m) FROM {name} WHERE i = 0"), shown("2")),
    ] {
        assert_eq!(value(context, &sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn map_entries_takes_maps_of_files_and_tables_whatever_their_fields_are_called() {
    let folder = tempfile::tempdir().unwrap();
    for (k, names) in NAMES.into_iter().enumerate() {
        let batch = table(names);
        let has_nulls = names.3;
        let context = context(2);
        let path = folder.path().join(format!("{k}.orc"));
        write_orc(&path, std::slice::from_ref(&batch), WriterProperties::default());
        register(&context, "orc", &path).await;
        check(&context, "orc", has_nulls).await;
        let memory = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
        context.register_table("memory", Arc::new(memory)).unwrap();
        check(&context, "memory", has_nulls).await;
        run(&context, "CREATE TABLE made AS SELECT * FROM orc").await;
        check(&context, "made", has_nulls).await;
        for source in ["orc", "memory"] {
            let parquet = folder.path().join(format!("{k}-{source}.parquet"));
            run(
                &context,
                &format!("COPY (SELECT * FROM {source}) TO '{}'", parquet.display()),
            )
            .await;
            let location = parquet.to_str().unwrap();
            let name = format!("parquet_{source}");
            grampus::session::register_files(&context, &name, location)
                .await
                .unwrap();
            check(&context, &name, has_nulls).await;
        }
    }
    let context = context(1);
    let literal = "SELECT map_entries(MAP {'a': 1, 'b': NULL})";
    assert_eq!(
        value(&context, literal).await,
        "[{key: a, value: 1}, {key: b, value: }]"
    );
}

/// Arrow's names of a map's fields, also deep in other types.
#[tokio::test]
async fn maps_of_files_have_the_fields_key_and_value() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    let maps = table(NAMES[1]).column(1).clone();
    let item = Arc::new(Field::new("item", maps.data_type().clone(), true));
    let list: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([1, 3]), maps, None));
    let batch = RecordBatch::try_from_iter([("l", list)]).unwrap();
    write_orc(&path, &[batch], WriterProperties::default());
    let context = context(1);
    register(&context, "t", &path).await;
    let rows = run(&context, "SELECT l FROM t").await;
    let maps = rows[0].column(0).as_list::<i32>().values().clone();
    let entries = maps.as_map().entries();
    assert_eq!(entries.column_names(), ["key", "value"]);
    assert_eq!(entries.column(1).as_primitive::<Int32Type>().value(1), 2);
    let sql = "SELECT map_entries(l[1]) FROM t LIMIT 1";
    assert_eq!(value(&context, sql).await, "[{key: a, value: 1}, {key: b, value: 2}]");
}
