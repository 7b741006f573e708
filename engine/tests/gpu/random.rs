//! Random tables in random layouts: random filtered, grouped aggregates by kernels and by the CPU's plan.
//!
//! A failure prints its seed; `GRAMPUS_TEST_SEED=<seed>` replays it, `GRAMPUS_TEST_CASES` sets how many cases run.

#[path = "../property/filters.rs"]
mod filters;
#[path = "../property/tables.rs"]
#[allow(dead_code)]
mod tables;

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{avg, count, max, min, sum};
use datafusion::logical_expr::{ExprFunctionExt, SortExpr};
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, write_orc};
use filters::{FilterSpec, filters};
use tables::{TableSpec, tables};

/// An aggregate query; columns are taken modulo what the table has.
#[derive(Debug, Clone)]
struct QuerySpec {
    filter: Option<FilterSpec>,
    keys: Vec<usize>,
    aggregates: Vec<(usize, usize)>,
    /// FILTER (WHERE …) of the first aggregate.
    only: Option<FilterSpec>,
}

fn queries() -> impl Strategy<Value = QuerySpec> {
    (
        prop::option::weighted(0.8, filters()),
        prop::collection::vec(0..8_usize, 0..3),
        prop::collection::vec((0..5_usize, 0..8_usize), 1..4),
        prop::option::weighted(0.2, filters()),
    )
        .prop_map(|(filter, keys, aggregates, only)| QuerySpec {
            filter,
            keys,
            aggregates,
            only,
        })
}

#[test]
fn kernels_agree_with_the_cpu() {
    if !has_compiler("kernels_agree_with_the_cpu") {
        return;
    }
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
        // Each compiles a kernel or two.
        cases: number("GRAMPUS_TEST_CASES").map_or(24, |cases| cases as u32),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let ran = std::cell::Cell::new(0);
    let outcome = runner.run(&(tables(), queries()), |(table, query)| {
        let folder = tempfile::tempdir().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let compared = runtime.block_on(compare(&folder.path().join("table.orc"), &table, &query));
        match compared {
            Ok(Ok(computed)) => ran.set(ran.get() + computed),
            Ok(Err(words)) => return Err(TestCaseError::fail(words)),
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("seed {seed} (replay with GRAMPUS_TEST_SEED={seed}): {error}");
    }
    println!("{} aggregations by kernels", ran.get());
    assert!(ran.get() > 0, "no query ran by a kernel");
}

/// How many aggregations kernels computed, or where the answers differ.
async fn compare(path: &Path, table: &TableSpec, query: &QuerySpec) -> Result<std::result::Result<usize, String>> {
    let rows = table.rows();
    write_orc(path, rows.schema(), &table.batches(&rows), table.options());
    let cpu = Setting {
        gpu: None,
        ..GPU_SETTINGS[0]
    };
    let expected = answer(&cpu, path, &rows, table, query).await;
    let mut ran = 0;
    for setting in &GPU_SETTINGS {
        match (&expected, answer(setting, path, &rows, table, query).await) {
            (Ok((wanted, _)), Ok((found, computed))) => {
                if let Some(words) = difference(wanted, &found) {
                    return Ok(Err(format!("{setting:?}: {words}")));
                }
                ran += computed;
            }
            (Err(wanted), Err(found)) => {
                let (wanted, found) = (grampus::error::message(wanted), grampus::error::message(&found));
                if wanted != found {
                    return Ok(Err(format!("{setting:?}: error {found:?} instead of {wanted:?}")));
                }
            }
            (Ok(_), Err(found)) => return Ok(Err(format!("{setting:?}: {found}"))),
            (Err(wanted), Ok(_)) => return Ok(Err(format!("{setting:?}: an answer instead of the error {wanted}"))),
        }
    }
    Ok(Ok(ran))
}

async fn answer(
    setting: &Setting,
    path: &Path,
    rows: &RecordBatch,
    table: &TableSpec,
    query: &QuerySpec,
) -> Result<(RecordBatch, usize)> {
    let context = setting.context();
    grampus::session::register_orc(&context, "t", &path.display().to_string()).await?;
    let frame = frame(&context, rows, table, query).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    let batches = collect(Arc::clone(&plan), task).await?;
    Ok((concat_batches(&plan.schema(), &batches)?, gpu_runs(&plan).0))
}

async fn frame(
    context: &SessionContext,
    rows: &RecordBatch,
    table: &TableSpec,
    query: &QuerySpec,
) -> Result<datafusion::prelude::DataFrame> {
    let mut usable = vec![0];
    usable.extend(
        (0..table.columns.len())
            .filter(|&at| table.columns[at].is_comparable())
            .map(|at| at + 1),
    );
    let schema = rows.schema();
    let field = |column: usize| schema.field(usable[column % usable.len()]);
    let mut frame = context.table("t").await?;
    if let Some(filter) = &query.filter {
        frame = frame.filter(filter.expression(rows, &usable))?;
    }
    let mut names: Vec<String> = query.keys.iter().map(|&key| field(key).name().clone()).collect();
    names.sort();
    names.dedup();
    let mut aggregates = Vec::new();
    for (at, &(function, column)) in query.aggregates.iter().enumerate() {
        let field = field(column);
        let mut expr = aggregate(function, col(field.name()), field.data_type());
        if let Some(only) = query.only.as_ref().filter(|_| at == 0) {
            expr = expr.filter(only.expression(rows, &usable)).build()?;
        }
        aggregates.push(expr.alias(format!("a{at}")));
    }
    let keys: Vec<Expr> = names.iter().map(col).collect();
    let frame = frame.aggregate(keys.clone(), aggregates)?;
    let order: Vec<SortExpr> = keys.into_iter().map(|key| key.sort(true, true)).collect();
    if order.is_empty() { Ok(frame) } else { frame.sort(order) }
}

/// Sums and averages only of what has them; of floats not, where infinities and huge values make the order of addition matter.
fn aggregate(function: usize, value: Expr, data_type: &DataType) -> Expr {
    match function {
        0 => count(lit(ScalarValue::Int64(Some(1)))),
        1 => count(value),
        2 if data_type.is_integer() || matches!(data_type, DataType::Decimal128(..)) => sum(value),
        3 if matches!(data_type, DataType::Decimal128(..)) => avg(value),
        2 | 3 => min(value),
        _ => max(value),
    }
}
