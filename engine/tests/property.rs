//! Random tables in random layouts of our writer, under every setting.
//!
//! Random filters and projections give the same rows as over the table in memory. The scan's counters are consistent.
//!
//! A failure prints its seed, and `GRAMPUS_TEST_SEED=<seed>` replays it. `GRAMPUS_TEST_CASES` sets the number of cases.
//! `GRAMPUS_TEST_FILE` is the path at which a failing ORC file is kept.

mod support;

#[path = "property/filters.rs"]
mod filters;
#[path = "property/tables.rs"]
mod tables;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionContext, col};
use grampus::{ScanIo, scan_io};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use filters::{FilterSpec, filters};
use support::{SETTINGS, Setting, difference, full_read, one_batch, register_rows, write_orc};
use tables::{TableSpec, tables};

#[test]
fn scans_on_demand_equal_full_reads() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let cases = (tables(), prop::collection::vec((filters(), projections()), 1..4));
    check(&cases, |(table, queries)| {
        let folder = tempfile::tempdir().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let path = folder.path().join("table.orc");
        let answer = runtime.block_on(compare(&path, table, queries));
        let answer = answer.unwrap_or_else(|error| Err(TestCaseError::fail(error.to_string())));
        // The last failing file is the smallest, because cases shrink.
        if let (Err(_), Some(kept)) = (&answer, std::env::var_os("GRAMPUS_TEST_FILE")) {
            std::fs::copy(&path, kept).map_err(|error| TestCaseError::fail(error.to_string()))?;
        }
        answer
    });
}

/// Runs a property on random cases. A failure names the seed.
fn check<S: Strategy>(strategy: &S, property: impl Fn(&S::Value) -> Result<(), TestCaseError>) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let now = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(1, |time| time.as_nanos() as u64)
    };
    let seed = number("GRAMPUS_TEST_SEED").unwrap_or_else(now);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: number("GRAMPUS_TEST_CASES").map_or(48, |cases| cases as u32),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    if let Err(error) = runner.run(strategy, |case| property(&case)) {
        panic!("seed {seed} (replay with GRAMPUS_TEST_SEED={seed}): {error}");
    }
}

/// The columns of a query, by index modulo their number. Without columns, the query asks for a count only.
fn projections() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0..8_usize, 0..5)
}

async fn compare(
    path: &Path,
    table: &TableSpec,
    queries: &[(FilterSpec, Vec<usize>)],
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
    for setting in &SETTINGS {
        let context = open(setting, path, &rows).await?;
        if let Some(words) = compare_statistics(&context).await? {
            return Ok(Err(TestCaseError::fail(format!("{setting:?}: {words}"))));
        }
        for (filter, projection) in queries {
            let filter = filter.expression(&rows, &usable);
            if let Some(words) = compare_query(&context, &rows, &filter, projection).await? {
                return Ok(Err(TestCaseError::fail(format!(
                    "{setting:?}\nwhere {filter}: {words}"
                ))));
            }
        }
    }
    Ok(Ok(()))
}

/// A session with the file as `t` and its rows as `rows`.
async fn open(setting: &Setting, path: &Path, rows: &RecordBatch) -> Result<SessionContext> {
    let context = setting.context();
    grampus::session::register_orc(&context, "t", &path.display().to_string()).await?;
    register_rows(&context, "rows", rows);
    Ok(context)
}

/// Checks that file and rows give the same answer, ordered by row number, and that the scan's counters are consistent.
async fn compare_query(
    context: &SessionContext,
    rows: &RecordBatch,
    filter: &Expr,
    projection: &[usize],
) -> Result<Option<String>> {
    let columns = projection.iter().map(|index| index % rows.num_columns());
    let mut names: Vec<String> = columns.map(|index| rows.schema().field(index).name().clone()).collect();
    names.sort();
    names.dedup();
    if names.is_empty() {
        return compare_count(context, filter).await;
    }
    let mut answers = Vec::new();
    for table in ["rows", "t"] {
        let mut wanted: Vec<Expr> = names.iter().map(col).collect();
        if !names.iter().any(|name| name == "row") {
            wanted.push(col("row"));
        }
        let frame = context.table(table).await?.filter(filter.clone())?.select(wanted)?;
        let frame = frame.sort(vec![col("row").sort(true, false)])?;
        let plan = frame.create_physical_plan().await?;
        let batches = collect(Arc::clone(&plan), context.task_ctx()).await?;
        answers.push(one_batch(&plan.schema(), &batches));
        if table == "t" {
            let io = scan_io(&plan);
            if let Some(words) = complaint(&io, rows.num_rows(), answers[1].num_rows()) {
                return Ok(Some(format!("{words}: {io:?}")));
            }
        }
    }
    Ok(difference(&answers[0], &answers[1]))
}

/// Checks that a count reads no column but the filter's.
async fn compare_count(context: &SessionContext, filter: &Expr) -> Result<Option<String>> {
    let mut counts = Vec::new();
    for table in ["rows", "t"] {
        counts.push(context.table(table).await?.filter(filter.clone())?.count().await?);
    }
    Ok((counts[0] != counts[1]).then(|| format!("count {} instead of {}", counts[1], counts[0])))
}

/// Checks counts, minima and maxima, which may be answered from statistics alone.
async fn compare_statistics(context: &SessionContext) -> Result<Option<String>> {
    let schema = context.table("rows").await?.schema().as_arrow().clone();
    let mut parts = vec!["count(*)".to_owned()];
    for field in schema.fields() {
        parts.push(format!("count({})", field.name()));
        if !field.data_type().is_nested() {
            parts.push(format!("min({0}), max({0})", field.name()));
        }
    }
    let mut answers = Vec::new();
    for table in ["rows", "t"] {
        let frame = context
            .sql(&format!("SELECT {} FROM {table}", parts.join(", ")))
            .await?;
        let schema = Arc::new(frame.schema().as_arrow().clone());
        let batch = one_batch(&schema, &frame.collect().await?);
        // Only the values are compared, because the tables give their columns different names.
        let names = (0..batch.num_columns()).map(|index| format!("{index}"));
        answers.push(RecordBatch::try_from_iter_with_nullable(
            names
                .zip(batch.columns())
                .map(|(name, column)| (name, column.clone(), true)),
        )?);
    }
    Ok(difference(&answers[0], &answers[1]).map(|words| format!("{}: {words}", parts.join(", "))))
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
