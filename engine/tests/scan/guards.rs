//! Conditions that guard others: a cast, a division or a function fails on rows that an earlier condition excludes.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use grampus_orc_layout::write::WriterProperties;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};

use super::common::{context_with, failure, register, value, write_orc};

const ROWS: i64 = 20_000;
/// The rows before this one are the good ones.
const GOOD: i64 = 1_000;

/// `few` and `many` are numbers in the good rows and `x` in others, with few and with many different texts. `zero` and
/// `cheap` are 0 from the first bad row on; `id` numbers the rows.
fn table() -> RecordBatch {
    let rows = || 0..ROWS;
    let good = |row: i64, text: String| if row < GOOD { text } else { "x".to_owned() };
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(rows().map(|row| row * 7919 % ROWS)));
    let id_of = |row: i64| row * 7919 % ROWS;
    let few = StringArray::from_iter_values(rows().map(|row| good(id_of(row), (id_of(row) % 5).to_string())));
    let many = StringArray::from_iter_values(rows().map(|row| good(id_of(row), id_of(row).to_string())));
    let zero = Int64Array::from_iter_values(rows().map(|row| i64::from(id_of(row) < GOOD)));
    let cheap = Float64Array::from_iter_values(rows().map(|row| f64::from(u8::from(id_of(row) < GOOD))));
    RecordBatch::try_from_iter([
        ("few", Arc::new(few) as ArrayRef),
        ("id", ids),
        ("many", Arc::new(many)),
        ("zero", Arc::new(zero)),
        ("cheap", Arc::new(cheap)),
    ])
    .unwrap()
}

/// Conditions and the rows that pass.
const CONDITIONS: [(&str, i64); 8] = [
    ("id < 1000 AND CAST(few AS INT) = 1", 200),
    ("id < 1000 AND CAST(many AS INT) % 10 = 1", 100),
    ("id < 1000 AND few <> 'x' AND CAST(few AS INT) = 1 AND cheap = 1", 200),
    ("many <> 'x' AND CAST(many AS BIGINT) = id AND zero = 1", 1000),
    ("few <> 'x' AND CAST(few AS INT) IN (1, 2)", 400),
    ("zero <> 0 AND 10 / zero = 10 AND cheap > 0", 1000),
    ("id < 1000 AND 10 / zero = 10", 1000),
    (
        "cheap > 0 AND to_timestamp(CAST(many AS BIGINT)) < TIMESTAMP '1970-01-01 00:00:10'",
        10,
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn conditions_written_before_one_that_may_fail_guard_it() {
    let folder = tempfile::tempdir().unwrap();
    let batch = table();
    for (k, dictionary_threshold) in [0.0, 1.0].into_iter().enumerate() {
        let path = folder.path().join(format!("{k}.orc"));
        let options = WriterProperties {
            dictionary_threshold,
            ..WriterProperties::default()
        };
        write_orc(&path, std::slice::from_ref(&batch), options);
        for settings in [&[][..], &[("grampus.tile_rows", "300"), ("grampus.prune", "false")][..]] {
            let local = context_with(2, settings).await;
            register(&local, "t", &path).await;
            let remote = context_with(2, settings).await;
            let store = Arc::new(InMemory::new());
            let bytes = std::fs::read(&path).unwrap();
            store.put(&"t.orc".into(), bytes.into()).await.unwrap();
            remote.register_object_store(&url::Url::parse("memory://b").unwrap(), store as Arc<dyn ObjectStore>);
            grampus::session::register_orc(&remote, "t", "memory://b/t.orc")
                .await
                .unwrap();
            for context in [&local, &remote] {
                for (condition, expected) in CONDITIONS {
                    let sql = format!("SELECT count(*) FROM t WHERE {condition}");
                    assert_eq!(value(context, &sql).await, expected.to_string(), "{sql} {settings:?}");
                }
                // Without a guard, the value is named.
                let words = failure(context, "SELECT count(*) FROM t WHERE CAST(few AS INT) = 1").await;
                assert!(words.contains("'x'"), "{words}");
            }
        }
    }
}
