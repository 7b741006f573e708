//! Files in an object store whose requests are slow, fail, or find another object.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch};
use bytes::Bytes;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::common::{context_with, measured, text, value, write_orc};
use super::filters::{layouts, random_sql, table};
use super::flaky_store::{Faults, FlakyStore};

pub(super) const OBJECT: &str = "data/t.orc";
/// A store that is read in few, long requests, and one that is read in groups of short ones.
pub(super) const NETWORK: &str = "memory://bucket";
const DRIVE: &str = "nvme://0000-01-00.0";

/// The bytes of an ORC file.
pub(super) fn orc(batch: &RecordBatch, options: WriterProperties) -> Bytes {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.orc");
    write_orc(&path, std::slice::from_ref(batch), options);
    read(&path)
}

fn read(path: &Path) -> Bytes {
    std::fs::read(path).unwrap().into()
}

/// A session with the store's object as table `t`.
pub(super) async fn session(store: &Arc<FlakyStore>, partitions: usize, settings: &[(&str, String)]) -> SessionContext {
    session_at(NETWORK, store, partitions, settings).await
}

/// Like [`session`], with the store at a URL.
pub(super) async fn session_at(
    url: &str,
    store: &Arc<FlakyStore>,
    partitions: usize,
    settings: &[(&str, String)],
) -> SessionContext {
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let context = context_with(partitions, &settings).await;
    let store_url = url::Url::parse(url).unwrap();
    context.register_object_store(&store_url, Arc::clone(store) as _);
    grampus::session::register_orc(&context, "t", &format!("{url}/data/"))
        .await
        .unwrap();
    context
}

/// Settings with which a stripe has many tiles, and a fetch few of them.
pub(super) fn small_steps(tile_rows: usize, window_bytes: usize) -> Vec<(&'static str, String)> {
    vec![
        ("grampus.tile_rows", tile_rows.to_string()),
        ("grampus.fetched_tile_rows", "1".to_owned()),
        ("grampus.fetch_window_bytes", window_bytes.to_string()),
        ("grampus.min_partition_rows", "1".to_owned()),
    ]
}

async fn answer(context: &SessionContext, sql: &str) -> Result<String, DataFusionError> {
    Ok(text(&context.sql(sql).await?.collect().await?))
}

/// The weak, cheap condition comes first until its rows are counted. Then the other one is read first.
#[tokio::test]
async fn conjunct_that_becomes_the_first_is_fetched() {
    let rows = 20_000;
    let cheap: ArrayRef = Arc::new(Float64Array::from_iter_values((0..rows).map(f64::from)));
    let strong: ArrayRef = Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row * 7919 % 1000)));
    let batch = RecordBatch::try_from_iter([("cheap", cheap), ("strong", strong)]).unwrap();
    let store = FlakyStore::with_object(OBJECT, orc(&batch, WriterProperties::default())).await;
    let mut settings = small_steps(1000, 1);
    settings.push(("grampus.prune", "false".to_owned()));
    let context = session(&store, 1, &settings).await;
    let sql = "SELECT count(*) FROM t WHERE cheap >= 0 AND strong = 5";
    assert_eq!(value(&context, sql).await, "20");
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_in_small_steps_equal_those_in_memory() {
    let batch = table(19, 2_500);
    let memory = SessionContext::new();
    let rows = MemTable::try_new(batch.schema(), vec![vec![batch.clone()]]).unwrap();
    memory.register_table("t", Arc::new(rows)).unwrap();
    let mut layouts = layouts();
    // Runs reach over many chunks, beyond the end that a plan of ranges assumes.
    layouts.push((
        "tiny chunks",
        WriterProperties {
            codec: Some(Codec::Zstd),
            chunk_size_bytes: 64,
            row_index_stride: 100,
            stripe_rows: 2_000,
            ..WriterProperties::default()
        },
    ));
    for (k, (name, options)) in layouts.into_iter().enumerate() {
        let store = FlakyStore::with_object(OBJECT, orc(&batch, options)).await;
        let mut random = ChaCha8Rng::seed_from_u64(k as u64);
        for partitions in [1, 2, 7] {
            let steps = small_steps(random.random_range(1..300), 1 << random.random_range(0..16));
            let url = [NETWORK, DRIVE][(k + partitions / 2) % 2];
            let context = session_at(url, &store, partitions, &steps).await;
            for _ in 0..8 {
                store.set(Faults {
                    max_delay_us: random.random_range(0..500),
                    ..Faults::default()
                });
                let sql = random_sql(&mut random);
                let expected = answer(&memory, &sql).await.unwrap();
                match answer(&context, &sql).await {
                    Ok(answer) => assert!(answer == expected, "{url}, {name}, {partitions}, {steps:?}: {sql}"),
                    Err(error) => panic!("{url}, {name}, {partitions}, {steps:?}: {sql}: {error}"),
                }
            }
        }
    }
}

/// 3,000 rows whose sum of `x` is `3_000 * first + 4_498_500`.
fn numbers(first: i64) -> RecordBatch {
    let x: ArrayRef = Arc::new(Int64Array::from_iter_values((0..3_000).map(|row| first + row)));
    let y: ArrayRef = Arc::new(Float64Array::from_iter_values((0..3_000).map(f64::from)));
    RecordBatch::try_from_iter([("x", x), ("y", y)]).unwrap()
}

fn stripes() -> WriterProperties {
    WriterProperties {
        stripe_rows: 1_000,
        row_index_stride: 100,
        ..WriterProperties::default()
    }
}

const SUM: &str = "SELECT sum(x) FROM t WHERE y >= 0 AND x % 2 < 5";

#[tokio::test]
async fn failed_request_ends_the_query_with_the_name_of_the_file() {
    for (url, shown) in [(NETWORK, NETWORK), (DRIVE, "nvme://0000:01:00.0")] {
        fail_each_request(url, shown).await;
    }
}

/// Fails one request after another of a store at a URL, which messages show.
async fn fail_each_request(url: &str, shown: &str) {
    let store = FlakyStore::with_object(OBJECT, orc(&numbers(0), stripes())).await;
    let context = session_at(url, &store, 1, &small_steps(100, 500)).await;
    store.set(Faults::default());
    assert_eq!(value(&context, SUM).await, "4498500");
    let reads = store.set(Faults::default());
    assert!(reads > 10, "{reads}");
    for failing in (0..reads).step_by(reads / 10) {
        // A new session has no metadata in memory.
        store.set(Faults::default());
        let fresh = session_at(url, &store, 1, &small_steps(100, 500)).await;
        store.set(Faults {
            failing_read: Some(failing),
            ..Faults::default()
        });
        match answer(&fresh, SUM).await {
            Ok(answer) => assert!(answer.contains("4498500"), "{answer}"),
            Err(error) => {
                let message = grampus::error::message(&error);
                assert!(message.contains(&format!("{shown}/data/t.orc")), "{message}");
                assert!(message.contains("the request was not answered"), "{message}");
            }
        }
        // The next query is not disturbed.
        store.set(Faults::default());
        assert_eq!(value(&fresh, SUM).await, "4498500");
    }
}

#[tokio::test]
async fn object_replaced_during_a_query_ends_it_with_an_error_that_says_so() {
    let old = orc(&numbers(0), stripes());
    let same_length = orc(&numbers(1_000), stripes());
    let shorter = orc(&numbers(0).slice(0, 1_500), stripes());
    let mut noticed = 0;
    for (without_etags, ignores_conditions, new) in [
        (false, false, Some(same_length.clone())),
        (false, true, Some(same_length.clone())),
        (true, false, Some(same_length)),
        (true, true, Some(shorter.clone())),
        (false, false, Some(shorter)),
        (false, false, None),
    ] {
        for at in (0..12).step_by(2) {
            let store = FlakyStore::with_object(OBJECT, old.clone()).await;
            let faults = Faults {
                without_etags,
                ignores_conditions,
                ..Faults::default()
            };
            store.set(faults.clone());
            let context = session(&store, 1, &small_steps(100, 500)).await;
            store.set(Faults {
                replacement: Some((at, new.clone())),
                ..faults
            });
            match answer(&context, SUM).await {
                // The object was replaced after the last read.
                Ok(answer) => assert!(answer.contains("4498500"), "{answer}"),
                Err(error) => {
                    noticed += 1;
                    let message = grampus::error::message(&error);
                    assert!(message.contains("memory://bucket/data/t.orc"), "{message}");
                    let words = match new {
                        Some(_) => "changed while it was being queried (the object was replaced)",
                        None => "changed while it was being queried (the object was removed)",
                    };
                    assert!(
                        message.contains(words),
                        "{without_etags} {ignores_conditions}: {message}"
                    );
                }
            }
        }
    }
    assert!(noticed > 20, "{noticed}");
}

/// Five columns of 1.6 MB each, in one stripe.
fn five_columns() -> Bytes {
    let column = |k: i64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            (0..200_000).map(|row: i64| (row * (k + 3)) as f64),
        ))
    };
    let columns = ["a", "b", "c", "d", "e"].into_iter().zip((0..5).map(column));
    orc(
        &RecordBatch::try_from_iter(columns).unwrap(),
        WriterProperties::default(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_fetches_its_rows_and_no_window() {
    let bytes = five_columns();
    assert!(bytes.len() > 7_900_000);
    for url in [NETWORK, DRIVE] {
        for partitions in [1, 4] {
            let store = FlakyStore::with_object(OBJECT, bytes.clone()).await;
            let context = session_at(url, &store, partitions, &[]).await;
            for (sql, rows, most) in [
                ("SELECT * FROM t LIMIT 5", 5, 500_000),
                ("SELECT * FROM t LIMIT 20 OFFSET 3", 20, 500_000),
                ("SELECT a, e FROM t LIMIT 30000", 30_000, 1_500_000),
                ("SELECT * FROM t WHERE a >= 0 LIMIT 5", 5, 700_000 * partitions as u64),
            ] {
                let (answer, _, io) = measured(&context, sql).await;
                assert_eq!(answer.lines().count(), rows + 4, "{url}, {partitions}: {sql}");
                let case = format!("{url}, {partitions}: {sql}: {io:?}");
                assert!(io.moved_bytes < most, "{case}");
            }
            // Without a limit, all is read in few requests.
            let (_, _, io) = measured(&context, "SELECT sum(a), sum(b) FROM t").await;
            assert!(io.moved_bytes >= 3_200_000 && io.read_requests < 40, "{io:?}");
            // A filter whose first tiles have too few rows goes on.
            let sql = "SELECT count(*) FROM (SELECT b FROM t WHERE a >= 570000 LIMIT 9999)";
            assert_eq!(value(&context, sql).await, "9999");
        }
    }
}
