//! Many files written at once, at limits that their stripes exceed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, MemoryLimit};

use crate::tables;

const ROWS: i64 = 60_000;

fn session(limit: MemoryLimit) -> SessionContext {
    let config = GrampusConfig {
        memory_limit: limit,
        target_partitions: Some(2),
        ..GrampusConfig::default()
    };
    let context = grampus::session::context(config).unwrap();
    tables::register(&context, "t", ROWS, 2);
    context
}

async fn rows(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The most that the pool has reserved, looked at while `work` runs.
async fn most_reserved<T>(pool: &Arc<dyn MemoryPool>, work: impl Future<Output = T>) -> (T, usize) {
    let most = Arc::new(AtomicUsize::new(0));
    let watch = {
        let (pool, most) = (Arc::clone(pool), Arc::clone(&most));
        tokio::spawn(async move {
            loop {
                most.fetch_max(pool.reserved(), Ordering::Relaxed);
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        })
    };
    let done = work.await;
    watch.abort();
    (done, most.load(Ordering::Relaxed))
}

/// Stripes of each ORC file below a folder.
fn stripes(folder: &Path) -> BTreeMap<String, usize> {
    let mut stripes = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            stripes.extend(self::stripes(&path));
        } else {
            let bytes = bytes::Bytes::from(std::fs::read(&path).unwrap());
            let reader = grampus_orc_layout::arrow_reader::OrcReaderBuilder::try_new(bytes).unwrap();
            stripes.insert(path.display().to_string(), reader.metadata().stripes.len());
        }
    }
    stripes
}

/// Every row of `t` once, with all its values.
async fn assert_all_rows(folder: &Path) {
    let files = format!("'{}/'", folder.display());
    let counted = format!(
        "SELECT count(*), count(DISTINCT w.id), sum(CASE WHEN w.k = t.k AND w.text = t.text THEN 1 ELSE 0 \
         END) FROM {files} w JOIN t ON w.id = t.id"
    );
    let counted = rows(&session(MemoryLimit::Unlimited), &counted).await;
    for column in counted[0].columns() {
        assert_eq!(
            column.as_primitive::<Int64Type>().value(0),
            ROWS,
            "{}",
            folder.display()
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitioned_files_stay_within_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let limit = 12 << 20;
    let context = session(MemoryLimit::Bytes(limit));
    let pool = Arc::clone(&context.runtime_env().memory_pool);
    let skewed = "SELECT *, CASE WHEN id % 10 < 8 THEN 0 ELSE id % 50 + 1 END AS p FROM t";
    for (name, files, select, options, most_stripes) in [
        ("mixed", 90, "SELECT *, id * 7919 % 90 AS p FROM t", "", 500),
        (
            "zstd",
            90,
            "SELECT *, id * 7919 % 90 AS p FROM t",
            "OPTIONS (compression 'zstd')",
            500,
        ),
        ("sorted", 90, "SELECT *, id / 667 AS p FROM t", "", 100),
        // One file has most rows.
        ("skewed", 11, skewed, "", 60),
        // These are gathered.
        ("many", 2_000, "SELECT *, id * 7919 % 2000 AS p FROM t", "", 2_700),
        (
            "texts",
            1_000,
            "SELECT id, k, text, substr(text, 38) AS p, id % 2 AS q FROM t",
            "",
            2_700,
        ),
    ] {
        let place = folder.path().join(name);
        let by = if name == "texts" { "p, q" } else { "p" };
        let copy = format!(
            "COPY ({select}) TO '{}/' STORED AS ORC PARTITIONED BY ({by}) {options}",
            place.display()
        );
        let (_, most) = most_reserved(&pool, rows(&context, &copy)).await;
        assert!(most <= limit, "{name}: {most} bytes reserved");
        assert!(most > limit / 20, "{name}: the writers count, {most} bytes");
        assert_eq!(pool.reserved(), 0, "{name}");
        let stripes = stripes(&place);
        let (found, all) = (stripes.len(), stripes.values().sum::<usize>());
        assert!((files..=2 * files).contains(&found), "{name}: {found} files");
        assert!(all <= most_stripes, "{name}: {all} stripes");
        assert_all_rows(&place).await;
    }
}

/// Sorting by partition leaves the rows of one partition in the order in which they came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gathered_rows_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(MemoryLimit::Bytes(8 << 20));
    let place = folder.path().join("o");
    let copy = format!(
        "COPY (SELECT *, id % 900 AS p FROM t ORDER BY k) TO '{}/' STORED AS ORC PARTITIONED BY (p)",
        place.display()
    );
    rows(&context, &copy).await;
    for file in stripes(&place).into_keys() {
        let bytes = bytes::Bytes::from(std::fs::read(&file).unwrap());
        let reader = grampus_orc_layout::arrow_reader::OrcReaderBuilder::try_new(bytes).unwrap();
        let keys = reader.build().unwrap().flat_map(|batch| {
            let batch = batch.unwrap();
            batch.column(1).as_primitive::<Int64Type>().values().to_vec()
        });
        assert!(keys.is_sorted(), "{file}");
    }
    assert_all_rows(&place).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_file_has_smaller_stripes_at_a_low_limit() {
    let folder = tempfile::tempdir().unwrap();
    for (limit, least, most) in [(MemoryLimit::Bytes(3 << 20), 2, 40), (MemoryLimit::Unlimited, 1, 1)] {
        let context = session(limit);
        let place = folder.path().join(format!("{limit:?}"));
        std::fs::create_dir(&place).unwrap();
        rows(&context, &format!("COPY t TO '{}/o.orc'", place.display())).await;
        let stripes = stripes(&place).into_values().sum::<usize>();
        assert!((least..=most).contains(&stripes), "{limit:?}: {stripes} stripes");
        assert_all_rows(&place).await;
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statement_without_memory_for_its_files_ends_in_an_error_and_leaves_none() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(MemoryLimit::Bytes(64 << 10));
    let place = folder.path().join("o");
    let copy = format!(
        "COPY (SELECT *, id % 3000 AS p FROM t) TO '{}/' STORED AS ORC PARTITIONED BY (p)",
        place.display()
    );
    let error = context.sql(&copy).await.unwrap().collect().await.unwrap_err();
    assert!(error.to_string().contains("memory limit"), "{error}");
    assert!(!place.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    // Operators below the files are cancelled, and end after their current step.
    for _ in 0..1_000 {
        if context.runtime_env().memory_pool.reserved() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes stay reserved", context.runtime_env().memory_pool.reserved());
}
