//! Requests that are in flight while the scan works, and requests that are made once. By events, not by time.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use bytes::Bytes;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::{ExecutionPlanProperties, collect, execute_stream};
use datafusion::prelude::SessionContext;
use futures::{FutureExt, StreamExt};
use grampus::session::plan_cache::plan_sql;
use grampus::{GrampusConfig, MemoryLimit, scan_io};
use grampus_orc_layout::write::WriterProperties;

use super::common::{text, value};
use super::flaky_store::{Event, Faults, FlakyStore};
use super::remote::{NETWORK, OBJECT, orc, session, small_steps};

const ROWS: i64 = 400_000;
/// Bytes of a window, and its rows of a column of eight bytes.
const WINDOW_BYTES: usize = 160_000;
const WINDOW_ROWS: usize = WINDOW_BYTES / 8;

/// Columns `a` and `b` of raw doubles, of 3.2 MB each, in stripes of a number of rows.
fn doubles(stripe_rows: usize) -> Bytes {
    let column = |factor: i64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(
            (0..ROWS).map(|row| (row * factor) as f64),
        ))
    };
    let columns = RecordBatch::try_from_iter([("a", column(1)), ("b", column(3))]).unwrap();
    let options = WriterProperties {
        stripe_rows,
        ..WriterProperties::default()
    };
    orc(&columns, options)
}

/// A session over the object in windows of [`WINDOW_BYTES`], whose metadata is in memory.
async fn windows(store: &Arc<FlakyStore>) -> SessionContext {
    let context = session(store, 1, &small_steps(65_536, WINDOW_BYTES)).await;
    value(&context, "SELECT sum(a + b) FROM t WHERE a + b > 0").await;
    store.set(Faults::default());
    context
}

async fn stream(context: &SessionContext, sql: &str) -> SendableRecordBatchStream {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    assert_eq!(plan.output_partitioning().partition_count(), 1, "{sql}");
    execute_stream(plan, context.task_ctx()).unwrap()
}

/// The next batch without an answer of the store; `None`: the stream waits for one.
fn at_hand(stream: &mut SendableRecordBatchStream) -> Option<RecordBatch> {
    // The first poll may end at a point at which other tasks may run.
    (0..3)
        .find_map(|_| stream.next().now_or_never())
        .map(|batch| batch.unwrap().unwrap())
}

/// Runs a query over one partition of one stripe. Returns its answer and, for each range of column `a` or `b` that was
/// asked for, the first row of the range and the rows that were scanned before.
async fn asked_rows(context: &SessionContext, store: &Arc<FlakyStore>, sql: &str) -> (String, Vec<(u64, u64)>) {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    store.set(Faults::default());
    let seen: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let (observed, scan) = (Arc::clone(&seen), Arc::clone(&plan));
    store.observe(move |range| {
        let rows = scan_io(&scan).rows_scanned;
        observed.lock().unwrap().push((range.start, rows));
    });
    let answer = text(&collect(plan, context.task_ctx()).await.unwrap());
    store.observe(|_| ());
    let column_bytes = 8 * ROWS as u64;
    let first = 4096; // the writer aligns the values
    let seen = seen.lock().unwrap().clone();
    let values = seen
        .into_iter()
        .filter(|(start, _)| (first..first + 2 * column_bytes).contains(start));
    // Column `b` begins at the next multiple of 4,096.
    let row = |start: u64| (start - first) % column_bytes.next_multiple_of(4096) / 8;
    (answer, values.map(|(start, scanned)| (row(start), scanned)).collect())
}

/// Whether a range was asked for before the rows before it were scanned.
fn is_ahead(asked: &[(u64, u64)]) -> bool {
    asked.iter().any(|(row, scanned)| scanned < row)
}

async fn rest(mut stream: SendableRecordBatchStream) -> usize {
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        rows += batch.unwrap().num_rows();
    }
    rows
}

#[tokio::test]
async fn next_window_is_in_flight_while_the_present_one_is_read() {
    let store = FlakyStore::with_object(OBJECT, doubles(ROWS as usize)).await;
    let context = windows(&store).await;
    let mut stream = stream(&context, "SELECT a FROM t").await;
    let mut rows = stream.next().await.unwrap().unwrap().num_rows();
    assert_eq!(store.asked().len(), 1, "nothing is fetched ahead of a first batch");
    store.hold(true);
    let mut most_in_flight = 0;
    while let Some(batch) = at_hand(&mut stream) {
        rows += batch.num_rows();
        let in_flight = |events: Vec<Event>| 2 * store.asked().len() - events.len();
        most_in_flight = most_in_flight.max(in_flight(store.events()));
        tokio::task::yield_now().await;
    }
    // All rows of the first window have come out, and the second one's bytes were asked for meanwhile.
    assert!((WINDOW_ROWS..WINDOW_ROWS + 8192).contains(&rows), "{rows}");
    assert_eq!(most_in_flight, 1, "{:?}", store.events());
    assert_eq!(store.asked().len(), 2);
    store.hold(false);
    assert_eq!(rows + rest(stream).await, ROWS as usize);
    // No byte was asked for twice.
    let asked = store.asked();
    assert_eq!(
        asked.iter().map(|range| range.end - range.start).sum::<u64>(),
        8 * ROWS as u64
    );
    assert_eq!(
        asked.len(),
        (ROWS as usize).div_ceil(WINDOW_ROWS + 8192 - WINDOW_ROWS % 8192),
        "{asked:?}"
    );
}

#[tokio::test]
async fn next_stripe_is_opened_while_the_present_one_is_read() {
    let stripe_rows = 20_000;
    let store = FlakyStore::with_object(OBJECT, doubles(stripe_rows)).await;
    // Metadata is not in memory.
    let context = session(&store, 1, &small_steps(65_536, 1 << 20)).await;
    let mut stream = stream(&context, "SELECT b FROM t").await;
    store.set(Faults::default());
    let mut rows = stream.next().await.unwrap().unwrap().num_rows();
    store.hold(true);
    let asked_before = store.asked().len();
    while let Some(batch) = at_hand(&mut stream) {
        rows += batch.num_rows();
        tokio::task::yield_now().await;
        assert_eq!(
            store.asked().len(),
            asked_before + 1,
            "while {} rows are left",
            stripe_rows - rows
        );
    }
    assert_eq!(rows, stripe_rows);
    let events = store.events();
    assert!(matches!(events.last(), Some(Event::Asked(_))), "{events:?}");
    store.hold(false);
    assert_eq!(rows + rest(stream).await, ROWS as usize);
    let asked = store.asked();
    assert_eq!(asked.iter().collect::<HashSet<_>>().len(), asked.len(), "{asked:?}");
}

/// The filter's column is fetched ahead, and no other.
#[tokio::test]
async fn columns_of_rows_that_may_not_pass_are_not_fetched_ahead() {
    let bytes = doubles(ROWS as usize);
    // The second condition becomes the first one when its rows have been counted. Two windows are in vain then.
    for (condition, columns, most) in [("a < 0", 1, 0), ("a >= 0 AND b < 0", 1, 330_000), ("a < 10", 1, 40_000)] {
        let store = FlakyStore::with_object(OBJECT, bytes.clone()).await;
        let mut settings = small_steps(4096, WINDOW_BYTES);
        settings.push(("grampus.prune", "false".to_owned()));
        let context = session(&store, 1, &settings).await;
        let sql = format!("SELECT sum(b + a) FROM t WHERE {condition}");
        let (_, asked) = asked_rows(&context, &store, &sql).await;
        assert!(is_ahead(&asked), "{condition}: {asked:?}");
        let read: u64 = store.asked().iter().map(|range| range.end - range.start).sum();
        let needed = 8 * ROWS as u64 * columns;
        assert!(
            (needed..=needed + most).contains(&read),
            "{condition}: {read}, {asked:?}"
        );
    }
}

/// The other columns of rows that have passed are wanted in any case.
#[tokio::test]
async fn columns_of_rows_that_have_passed_are_fetched_in_windows() {
    let store = FlakyStore::with_object(OBJECT, doubles(ROWS as usize)).await;
    let context = session(&store, 1, &small_steps(65_536, 1 << 20)).await;
    let sql = "SELECT sum(b) FROM t WHERE a >= 5";
    let (answer, asked) = asked_rows(&context, &store, sql).await;
    assert!(answer.contains("239999399970.0"), "{answer}");
    // 400,000 rows are 49 batches.
    assert!(asked.len() < 20, "{asked:?}");
}

#[tokio::test]
async fn nothing_is_fetched_ahead_while_fewer_rows_may_be_wanted() {
    let bytes = doubles(ROWS as usize);
    for sql in [
        // A limit of the scan, of rows of a filter, and of many rows.
        "SELECT a FROM t LIMIT 5",
        "SELECT b FROM t WHERE a >= 5 LIMIT 5",
        "SELECT a FROM t LIMIT 70000",
        // The sort's threshold excludes row groups while the scan runs.
        "SELECT a FROM t ORDER BY a LIMIT 5",
        "SELECT b FROM t WHERE b >= 0 ORDER BY a DESC LIMIT 5",
    ] {
        let store = FlakyStore::with_object(OBJECT, bytes.clone()).await;
        let context = windows(&store).await;
        let (_, asked) = asked_rows(&context, &store, sql).await;
        assert!(!asked.is_empty() && !is_ahead(&asked), "{sql}: {asked:?}");
    }
    // A limit that is not the scan's: its first batch is enough.
    let store = FlakyStore::with_object(OBJECT, bytes).await;
    let context = windows(&store).await;
    let sql = "SELECT a FROM t WHERE random() >= 0 LIMIT 5";
    let (_, asked) = asked_rows(&context, &store, sql).await;
    assert_eq!(asked, [(0, 0)], "{sql}");
}

/// A join's filter is known before its probe side is read.
#[tokio::test]
async fn windows_are_fetched_ahead_under_a_filter_that_does_not_change_any_more() {
    let store = FlakyStore::with_object(OBJECT, doubles(ROWS as usize)).await;
    let mut settings = small_steps(4096, WINDOW_BYTES);
    settings.push(("grampus.prune", "false".to_owned()));
    let context = session(&store, 1, &settings).await;
    let keys: ArrayRef = Arc::new(Float64Array::from_iter_values(
        (0..1000).map(|key| f64::from(key * 100)),
    ));
    let keys = RecordBatch::try_from_iter([("k", keys)]).unwrap();
    context.register_batch("keys", keys).unwrap();
    let sql = "SELECT count(*) FROM keys JOIN t ON t.a = keys.k";
    let (answer, asked) = asked_rows(&context, &store, sql).await;
    assert!(answer.contains("1000") && is_ahead(&asked), "{answer} {asked:?}");
}

/// Partitions of one stripe want the same footer and the same indexes at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_requested_once_for_all_partitions() {
    let column =
        |seed: i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values((0..ROWS).map(|row| row * seed % 977))) };
    let columns = [("x", column(7)), ("y", column(11)), ("z", column(13))];
    let options = WriterProperties {
        row_index_stride: 1000,
        stripe_rows: ROWS as usize / 4,
        ..WriterProperties::default()
    };
    let bytes = orc(&RecordBatch::try_from_iter(columns).unwrap(), options);
    for partitions in [1, 3, 8, 16] {
        let store = FlakyStore::with_object(OBJECT, bytes.clone()).await;
        let context = session(&store, partitions, &small_steps(65_536, 16 << 20)).await;
        let sql = "SELECT sum(z) FROM t WHERE x >= 0 AND y <> 5";
        let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        store.set(Faults::default());
        // Partitions ask before one has an answer.
        store.hold(true);
        let answer = tokio::spawn(collect(plan, context.task_ctx()));
        while store.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        store.hold(false);
        answer.await.unwrap().unwrap();
        let asked: Vec<Range<u64>> = store.asked();
        assert!(asked.len() > 4 + partitions, "{partitions}: {asked:?}");
        let different: HashSet<_> = asked.iter().collect();
        assert_eq!(different.len(), asked.len(), "{partitions}: {asked:?}");
    }
}

#[tokio::test]
async fn memory_that_is_short_ends_the_fetches_ahead() {
    let bytes = doubles(ROWS as usize);
    let sql = "SELECT sum(a) FROM t";
    let limit_bytes = 64 << 20;
    for (taken_bytes, has_memory) in [(0, true), (limit_bytes / 2, false)] {
        let store = FlakyStore::with_object(OBJECT, bytes.clone()).await;
        let mut config = GrampusConfig {
            target_partitions: Some(1),
            memory_limit: MemoryLimit::Bytes(limit_bytes),
            ..GrampusConfig::default()
        };
        config.options.fetch_window_bytes = WINDOW_BYTES;
        let context = grampus::session::context(config).unwrap();
        // Another part of the query has taken most of the memory.
        let taken = MemoryConsumer::new("taken").register(&context.runtime_env().memory_pool);
        taken.try_grow(taken_bytes).unwrap();
        let url = url::Url::parse(NETWORK).unwrap();
        context.register_object_store(&url, Arc::clone(&store) as _);
        let location = format!("{NETWORK}/data/");
        grampus::session::register_orc(&context, "t", &location).await.unwrap();
        let (answer, asked) = asked_rows(&context, &store, sql).await;
        assert!(answer.contains("79999800000.0"), "{answer}");
        assert_eq!(is_ahead(&asked), has_memory, "{taken_bytes}: {asked:?}");
        let read: u64 = store.asked().iter().map(|range| range.end - range.start).sum();
        assert!(read < 8 * ROWS as u64 + 10_000, "{taken_bytes}: {read}");
    }
}

/// A statement that names a file looks it up once, though it opens the file and then scans it.
#[tokio::test]
async fn object_is_looked_up_once_for_each_query() {
    let object = |rows: i64| {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let columns = [("a", Arc::clone(&column)), ("b", column)];
        orc(
            &RecordBatch::try_from_iter(columns).unwrap(),
            WriterProperties::default(),
        )
    };
    let store = FlakyStore::with_object(OBJECT, object(1000)).await;
    let context = session(&store, 1, &[]).await;
    let heads = || store.events().into_iter().filter(|event| *event == Event::Head).count();
    let named = format!("'{NETWORK}/{OBJECT}'");
    grampus::session::register_orc(&context, "one", &format!("{NETWORK}/{OBJECT}"))
        .await
        .unwrap();
    for sql in [
        format!("SELECT sum(a) FROM {named}"),
        format!("SELECT count(*) FROM {named} x JOIN {named} y ON x.a = y.a"),
        "SELECT sum(a) FROM one".to_owned(),
        "SELECT count(*) FROM one x JOIN one y ON x.a = y.a WHERE x.b > (SELECT min(b) FROM one)".to_owned(),
    ] {
        for _ in 0..2 {
            store.set(Faults::default());
            let (plan, task) = plan_sql(&context, &sql).await.unwrap();
            collect(plan, task).await.unwrap();
            assert_eq!(heads(), 1, "{sql}");
        }
    }
    // The listing is of one statement.
    store.replace(OBJECT, object(2000)).await;
    for sql in [
        "SELECT count(*) FROM one".to_owned(),
        format!("SELECT count(a) FROM {named}"),
    ] {
        let (plan, task) = plan_sql(&context, &sql).await.unwrap();
        let answer = text(&collect(plan, task).await.unwrap());
        assert!(answer.contains("2000"), "{sql}: {answer}");
    }
}
