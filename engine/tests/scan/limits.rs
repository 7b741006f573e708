//! Limits that change after planning, and the row counts that a scan tells the optimizer.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::common::stats::Precision;
use datafusion::common::{DFSchema, Statistics};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use datafusion::prelude::SessionContext;
use grampus_orc_layout::write::WriterProperties;

use super::common::{context_with, measured, register, write_orc};

const FILES: i64 = 6;
const ROWS: i64 = 20_000;

/// Files of 20,000 rows: `x` numbers the rows of all files, and `word` is one of ten words.
fn write_files(folder: &Path) {
    for file in 0..FILES {
        let numbers = file * ROWS..(file + 1) * ROWS;
        let x: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers.clone()));
        let word: ArrayRef = Arc::new(StringArray::from_iter_values(numbers.map(|x| format!("w{}", x % 10))));
        let batch = RecordBatch::try_from_iter([("x", x), ("word", word)]).unwrap();
        write_orc(
            &folder.join(format!("{file}.orc")),
            &[batch],
            WriterProperties::default(),
        );
    }
}

async fn plan(context: &SessionContext, sql: &str) -> Arc<dyn ExecutionPlan> {
    context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()
}

/// The scan of a plan with one scan.
fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.children().first() {
        Some(child) => scan_of(child),
        None => Arc::clone(plan),
    }
}

fn statistics(plan: &Arc<dyn ExecutionPlan>) -> Statistics {
    let computed = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    Arc::unwrap_or_clone(computed.unwrap())
}

async fn rows_of(plan: Arc<dyn ExecutionPlan>, context: &SessionContext) -> usize {
    let batches = collect(plan, context.task_ctx()).await.unwrap();
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn raised_limit_reads_the_stripes_that_the_old_one_left_out() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    for partitions in [1, 3] {
        let context = context_with(partitions, &[("grampus.min_partition_rows", "1000")]).await;
        register(&context, "t", folder.path()).await;
        let scan = scan_of(&plan(&context, "SELECT x FROM t LIMIT 10").await);
        assert_eq!(scan.fetch(), Some(10));
        let number = scan.output_partitioning().partition_count();
        for (limit, rows) in [
            (Some(5), 5 * number),
            (Some(50_000), 50_000),
            (None, (FILES * ROWS) as usize),
            (Some(usize::MAX), (FILES * ROWS) as usize),
        ] {
            let limited = scan.with_fetch(limit).unwrap();
            assert_eq!(limited.output_partitioning().partition_count(), number);
            let read = rows_of(limited, &context).await;
            assert!(read >= rows.min(50_000), "{partitions} partitions, {limit:?}: {read}");
            assert!(number > 1 || read == rows, "{partitions} partitions, {limit:?}: {read}");
        }
    }
}

#[tokio::test]
async fn row_count_is_exact_only_if_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let all = (FILES * ROWS) as usize;
    for (partitions, limit, expected) in [
        (1, None, Precision::Exact(all)),
        (1, Some(70_000), Precision::Exact(70_000)),
        (1, Some(2 * all), Precision::Exact(all)),
        (2, None, Precision::Exact(all)),
        (2, Some(2 * all), Precision::Exact(all)),
        // Two partitions of 40,000 rows each stop at 70,000 rows.
        (2, Some(70_000), Precision::Inexact(80_000)),
    ] {
        let context = context_with(partitions, &[]).await;
        register(&context, "t", folder.path()).await;
        let limit = limit.map_or(String::new(), |limit| format!("LIMIT {limit}"));
        let scan = scan_of(&plan(&context, &format!("SELECT x FROM t {limit}")).await);
        assert_eq!(statistics(&scan).num_rows, expected, "{partitions} partitions {limit}");
        let read = rows_of(Arc::clone(&scan), &context).await;
        if let Precision::Exact(rows) = expected {
            assert_eq!(read, rows, "{partitions} partitions {limit}");
        }
        let counted = format!("SELECT count(*) AS n FROM (SELECT x FROM t {limit})");
        let (answer, _, _) = measured(&context, &counted).await;
        let wanted = limit
            .split(' ')
            .next_back()
            .and_then(|rows| rows.parse().ok())
            .unwrap_or(all)
            .min(all);
        assert!(answer.contains(&format!("| {wanted} ")), "{answer}");
    }
}

#[tokio::test]
async fn filtered_scan_estimates_as_a_filter_operator_does() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let context = context_with(2, &[("grampus.prune", "false")]).await;
    register(&context, "t", folder.path()).await;
    let unfiltered = scan_of(&plan(&context, "SELECT x, word FROM t").await);
    let schema = DFSchema::try_from(unfiltered.schema()).unwrap();
    for filter in [
        "x < 30000",
        "word = 'w3'",
        "x < 30000 AND word LIKE '%3'",
        "x < 0",
        "x = 7",
    ] {
        let scan = scan_of(&plan(&context, &format!("SELECT x, word FROM t WHERE {filter}")).await);
        let expr = context.parse_sql_expr(filter, &schema).unwrap();
        let predicate = context.create_physical_expr(expr, &schema).unwrap();
        let filtered: Arc<dyn ExecutionPlan> =
            Arc::new(FilterExec::try_new(predicate, Arc::clone(&unfiltered)).unwrap());
        let (estimated, expected) = (statistics(&scan).num_rows, statistics(&filtered).num_rows);
        assert_eq!(estimated, expected.to_inexact(), "{filter}");
        assert!(estimated.get_value() < Some(&((FILES * ROWS) as usize)), "{filter}");
    }
    // Stripes that statistics exclude have no row that passes.
    let pruned = context_with(2, &[]).await;
    register(&pruned, "t", folder.path()).await;
    let scan = scan_of(&plan(&pruned, "SELECT x FROM t WHERE abs(x) + x > 0 AND x < 100").await);
    assert!(statistics(&scan).num_rows.get_value() <= Some(&(ROWS as usize)));
}

#[tokio::test]
async fn explain_analyze_counts_batches() {
    let folder = tempfile::tempdir().unwrap();
    write_files(folder.path());
    let context = context_with(1, &[("datafusion.execution.batch_size", "5000")]).await;
    register(&context, "t", folder.path()).await;
    let (answer, executed, _) = measured(&context, "SELECT x FROM t WHERE x >= 1").await;
    assert_eq!(answer.lines().count() as i64, FILES * ROWS - 1 + 4);
    let metrics = scan_of(&executed).metrics().unwrap();
    let batches = metrics.sum(|metric| metric.value().name() == "output_batches");
    let batches = batches.map_or(0, |value| value.as_usize());
    assert!((24..40).contains(&batches), "{batches}");
}
