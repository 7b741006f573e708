//! Random tables in random layouts of our writer, under every setting.
//!
//! Random queries give the same rows as over the table in memory, in one, two and seven partitions that all have work,
//! from local files and from an object store. The scan's counters are consistent.
//!
//! A failure prints its seed, and `GRAMPUS_TEST_SEED=<seed>` replays it. `GRAMPUS_TEST_CASES` sets the number of
//! tables, `GRAMPUS_TEST_QUERIES` the maximum of queries over each. `GRAMPUS_TEST_FILE` is the path at which a failing
//! ORC file is kept.

mod support;

#[path = "property/executions.rs"]
mod executions;
#[path = "property/filters.rs"]
mod filters;
#[path = "support/flaky_store.rs"]
mod flaky_store;
#[path = "property/floats.rs"]
mod floats;
#[path = "property/queries.rs"]
mod queries;
#[path = "property/tables.rs"]
mod tables;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::{DataFrame, SessionContext};
use grampus::{LocalIo, ScanIo, scan_io};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use executions::{by_row, overlap, rows_like, scan_of};
use flaky_store::{Faults, FlakyStore};
use queries::{QuerySpec, Shape, queries, with_one_zero};
use support::seeds::number;
use support::{Setting, difference, full_read, one_batch, register_rows, write_orc};
use tables::{TableSpec, tables};

/// One, two and seven partitions, with the defaults and with small sizes.
const LOCAL: [Setting; 5] = [
    Setting {
        partitions: 1,
        local_io: LocalIo::Mmap,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 16_384,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 2,
        local_io: LocalIo::Read,
        batch_rows: 29,
        tile_rows: 43,
        min_partition_rows: 1,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 2,
        local_io: LocalIo::Mmap,
        batch_rows: 1_000,
        tile_rows: 65_536,
        min_partition_rows: 1,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 7,
        local_io: LocalIo::Mmap,
        batch_rows: 8192,
        tile_rows: 65_536,
        min_partition_rows: 1,
        prune: true,
        gpu: None,
    },
    Setting {
        partitions: 7,
        local_io: LocalIo::Read,
        batch_rows: 100,
        tile_rows: 64,
        min_partition_rows: 1,
        prune: false,
        gpu: None,
    },
];

/// Settings of files in an object store, and the bytes that a fetch reads ahead.
const REMOTE: [(Setting, usize); 2] = [
    (
        Setting {
            partitions: 1,
            local_io: LocalIo::Mmap,
            batch_rows: 8192,
            tile_rows: 300,
            min_partition_rows: 1,
            prune: true,
            gpu: None,
        },
        2_000,
    ),
    (
        Setting {
            partitions: 7,
            local_io: LocalIo::Mmap,
            batch_rows: 100,
            tile_rows: 100,
            min_partition_rows: 1,
            prune: false,
            gpu: None,
        },
        500,
    ),
];

/// Queries that were compared.
static QUERIES: AtomicUsize = AtomicUsize::new(0);

/// The sessions, which all cases share.
struct Sessions {
    /// DataFusion over the rows in memory. Its answers are right by definition.
    memory: SessionContext,
    /// Each with the words for a failure.
    scanning: Vec<(String, SessionContext)>,
    store: Arc<FlakyStore>,
}

#[test]
fn scans_on_demand_equal_full_reads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let queries_per_table = number("GRAMPUS_TEST_QUERIES").map_or(8, |queries| queries as usize);
    let cases = (tables(), prop::collection::vec(queries(), 1..=queries_per_table.max(1)));
    let sessions = runtime.block_on(sessions());
    check(32, &cases, |(table, queries)| {
        let folder = tempfile::tempdir().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let path = folder.path().join("table.orc");
        let answer = runtime.block_on(compare(&sessions, &path, table, queries));
        let answer = answer.unwrap_or_else(|error| Err(TestCaseError::fail(error.to_string())));
        // The last failing file is the smallest, because cases shrink.
        if let (Err(_), Some(kept)) = (&answer, std::env::var_os("GRAMPUS_TEST_FILE")) {
            std::fs::copy(&path, kept).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        answer
    });
}

#[test]
fn floats_are_keys_with_one_zero() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // A case has some fifty queries over three kinds of tables.
    check(8, &floats::floats(), |spec| {
        let folder = tempfile::tempdir().map_err(|error| TestCaseError::fail(error.to_string()))?;
        match runtime.block_on(floats::complaint(spec, folder.path())) {
            Ok(None) => Ok(()),
            Ok(Some(words)) => Err(TestCaseError::fail(words)),
            Err(error) => Err(TestCaseError::fail(error.to_string())),
        }
    });
}

/// Runs a property on random cases, `default_cases` unless the environment says otherwise. A failure names the seed.
fn check<S: Strategy>(default_cases: u32, strategy: &S, property: impl Fn(&S::Value) -> Result<(), TestCaseError>) {
    let now = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64)
    };
    let seed = number("GRAMPUS_TEST_SEED").unwrap_or_else(now);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: number("GRAMPUS_TEST_CASES").map_or(default_cases, |cases| cases as u32),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let cases = config.cases;
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(strategy, |case| property(&case));
    let queries = QUERIES.load(Ordering::Relaxed);
    let _ = writeln!(std::io::stderr(), "seed {seed}: {cases} cases, {queries} queries");
    if let Err(error) = outcome {
        panic!("seed {seed} (replay with GRAMPUS_TEST_SEED={seed}): {error}");
    }
}

async fn sessions() -> Sessions {
    let store = Arc::new(FlakyStore::default());
    store.set(Faults {
        max_delay_us: 300,
        ..Faults::default()
    });
    let mut scanning: Vec<(String, SessionContext)> = LOCAL
        .iter()
        .map(|setting| (format!("{setting:?}"), setting.context()))
        .collect();
    for (setting, window_bytes) in &REMOTE {
        let context = setting.context();
        for set in [
            "SET grampus.fetched_tile_rows = 1".to_owned(),
            format!("SET grampus.fetch_window_bytes = {window_bytes}"),
        ] {
            context.sql(&set).await.expect("a setting");
        }
        let url = url::Url::parse("memory://bucket").expect("a URL");
        context.register_object_store(&url, Arc::clone(&store) as _);
        scanning.push((
            format!("object store, {window_bytes} bytes ahead, {setting:?}"),
            context,
        ));
    }
    Sessions {
        memory: SessionContext::new(),
        scanning,
        store,
    }
}

impl Sessions {
    /// Registers the file, and its rows in memory, as `t` everywhere.
    async fn register(&self, path: &Path, rows: &RecordBatch) -> Result<()> {
        self.memory.deregister_table("t")?;
        register_rows(&self.memory, "t", rows);
        let bytes = std::fs::read(path).map_err(|error| datafusion::error::DataFusionError::External(error.into()))?;
        self.store.replace("t.orc", bytes.into()).await;
        for (number, (_, context)) in self.scanning.iter().enumerate() {
            context.deregister_table("t")?;
            let location = match number < LOCAL.len() {
                true => path.display().to_string(),
                false => "memory://bucket/t.orc".to_owned(),
            };
            grampus::session::register_orc(context, "t", &location).await?;
        }
        Ok(())
    }
}

async fn compare(
    sessions: &Sessions,
    path: &Path,
    table: &TableSpec,
    queries: &[QuerySpec],
) -> Result<Result<(), TestCaseError>> {
    let rows = table.rows();
    write_orc(path, rows.schema(), &table.batches(&rows), table.options());

    // Another reader sees the rows that were written.
    match full_read(path) {
        Ok(full) => {
            if let Some(words) = difference(&rows, &full) {
                return Ok(Err(TestCaseError::fail(format!(
                    "orc-rust reads what was written otherwise: {words}"
                ))));
            }
        }
        Err(words) => {
            return Ok(Err(TestCaseError::fail(format!(
                "orc-rust cannot read what was written: {words}"
            ))));
        }
    }
    let mut usable = vec![0];
    usable.extend(
        (0..table.columns.len())
            .filter(|&index| table.columns[index].is_comparable())
            .map(|index| index + 1),
    );
    sessions.register(path, &rows).await?;
    let (expected, _) = statistics(&sessions.memory).await?;
    for (words, context) in &sessions.scanning {
        let (actual, sql) = statistics(context).await?;
        if let Some(difference) = difference(&expected, &actual) {
            return Ok(Err(TestCaseError::fail(format!("{words}: {sql}: {difference}"))));
        }
        QUERIES.fetch_add(1, Ordering::Relaxed);
    }
    for query in queries {
        let memory = sessions.memory.table("t").await?;
        let frame = with_one_zero(query.frame(&memory, &rows, &usable)?)?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let expected = query.ordered(&one_batch(&schema, &frame.collect().await?));
        for (words, context) in &sessions.scanning {
            QUERIES.fetch_add(1, Ordering::Relaxed);
            let compared = compare_query(context, &rows, &usable, query, &expected).await;
            let difference = compared.unwrap_or_else(|error| Some(error.to_string()));
            if let Some(difference) = difference {
                let filter = query.filter.as_ref().map(|filter| filter.expression(&rows, &usable));
                let filter = filter.map_or("true".to_owned(), |filter| filter.to_string());
                return Ok(Err(TestCaseError::fail(format!(
                    "{words}\n{:?}\nwhere {filter}: {difference}",
                    query.shape
                ))));
            }
        }
    }
    Ok(Ok(()))
}

/// Compares the scan's answer with `expected`, and checks that the counters are consistent.
async fn compare_query(
    context: &SessionContext,
    rows: &RecordBatch,
    usable: &[usize],
    query: &QuerySpec,
    expected: &RecordBatch,
) -> Result<Option<String>> {
    let table = context.table("t").await?;
    match &query.shape {
        Shape::Overlap { seed, .. } => {
            let plan = query.any_rows(table, rows, usable)?.create_physical_plan().await?;
            match scan_of(&plan) {
                Some(scan) => overlap(&scan, context, expected, *seed).await,
                None => Ok(None), // the filter is true for no row
            }
        }
        Shape::AnyRows {
            limit: (skip, fetch), ..
        } => {
            let (answer, _) = answer(context, query.any_rows(table, rows, usable)?).await?;
            let answer = by_row(&answer);
            let count = expected.num_rows().saturating_sub(*skip).min(*fetch);
            if answer.num_rows() != count {
                return Ok(Some(format!("{} rows instead of {count}", answer.num_rows())));
            }
            match rows_like(expected, &answer) {
                Some(expected) => Ok(difference(&expected, &answer)),
                None => Ok(Some("rows come twice, or do not pass the filter".to_owned())),
            }
        }
        shape => {
            let (answer, io) = answer(context, query.frame(&table, rows, usable)?).await?;
            let is_one_scan = matches!(shape, Shape::Rows { .. });
            if is_one_scan && let Some(words) = complaint(&io, rows.num_rows(), answer.num_rows()) {
                return Ok(Some(format!("{words}: {io:?}")));
            }
            Ok(difference(expected, &query.ordered(&answer)))
        }
    }
}

/// The rows of a query, and the counters of its scans.
async fn answer(context: &SessionContext, frame: DataFrame) -> Result<(RecordBatch, ScanIo)> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
    Ok((one_batch(&schema, &batches), scan_io(&plan)))
}

/// Counts, minima and maxima, which may be answered from statistics alone, and their SQL.
async fn statistics(context: &SessionContext) -> Result<(RecordBatch, String)> {
    let schema = context.table("t").await?.schema().as_arrow().clone();
    let mut parts = vec!["count(*)".to_owned()];
    for field in schema.fields() {
        parts.push(format!("count({})", field.name()));
        if !field.data_type().is_nested() {
            parts.push(format!("min({0}), max({0})", field.name()));
        }
    }
    let sql = format!("SELECT {} FROM t", parts.join(", "));
    let (answer, _) = answer(context, context.sql(&sql).await?).await?;
    Ok((answer, sql))
}

/// An inconsistency in the counters of a scan of `table_rows` rows, of which `rows_out` passed.
fn complaint(io: &ScanIo, table_rows: usize, rows_out: usize) -> Option<&'static str> {
    if io.rows_passed > io.rows_scanned {
        Some("more rows passed than were looked at")
    } else if io.rows_scanned > table_rows as u64 {
        Some("more rows were looked at than there are")
    } else if io.rows_passed < rows_out as u64 {
        Some("more rows came out than passed")
    } else if io.row_groups_skipped > io.row_groups_total {
        Some("more row groups were skipped than there are")
    } else if rows_out > 0 && (io.moved_bytes == 0 || io.read_requests == 0) {
        Some("rows came out of nothing")
    } else {
        None
    }
}
