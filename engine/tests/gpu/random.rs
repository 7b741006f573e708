//! Random tables in random layouts: random filtered, grouped aggregates by kernels and by the CPU's plan.
//!
//! A failure prints its seed, and `GRAMPUS_TEST_SEED=<seed>` replays it. `GRAMPUS_TEST_CASES` sets the number of cases.

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
use datafusion::functions::expr_fn::{coalesce, date_part, date_trunc, floor};
use datafusion::functions_aggregate::expr_fn::{avg, bit_and, bit_xor, count, count_distinct, max, min, sum};
use datafusion::logical_expr::{ExprFunctionExt, SortExpr, cast, cube, rollup, when};
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use crate::compare::difference;
use crate::support::{GPU_SETTINGS, Setting, gpu_runs, has_compiler, write_orc};
use filters::{FilterSpec, filters};
use tables::{TableSpec, tables};

/// An aggregate query. Columns are taken modulo the number of the table's columns.
#[derive(Debug, Clone)]
struct QuerySpec {
    filter: Option<FilterSpec>,
    keys: Vec<ValueSpec>,
    sets: Sets,
    /// Function and argument.
    aggregates: Vec<(usize, ValueSpec)>,
    /// The FILTER (WHERE …) of the first aggregate.
    only: Option<FilterSpec>,
}

/// The grouping sets of the keys.
#[derive(Debug, Clone, Copy)]
enum Sets {
    AllKeys,
    Rollup,
    Cube,
}

/// A column, and an operation on it.
#[derive(Debug, Clone)]
struct ValueSpec {
    column: usize,
    transform: usize,
    /// The row of a literal.
    row: usize,
    /// The condition of a CASE.
    condition: FilterSpec,
}

fn values() -> impl Strategy<Value = ValueSpec> {
    (0..8_usize, 0..8_usize, 0..3_000_usize, filters()).prop_map(|(column, transform, row, condition)| ValueSpec {
        column,
        transform,
        row,
        condition,
    })
}

impl ValueSpec {
    /// The expression over `rows` with its type.
    fn expression(&self, rows: &RecordBatch, usable: &[usize]) -> Result<(Expr, DataType)> {
        let at = usable[self.column % usable.len()];
        let schema = rows.schema();
        let data_type = schema.field(at).data_type().clone();
        let column = col(schema.field(at).name());
        let is_time = matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
        Ok(match self.transform {
            0 => {
                let condition = self.condition.expression(rows, usable);
                (when(condition, column).end()?, data_type)
            }
            1 if rows.num_rows() > 0 => {
                let literal = ScalarValue::try_from_array(rows.column(at), self.row % rows.num_rows())?;
                (coalesce(vec![column, lit(literal)]), data_type)
            }
            2 if data_type.is_integer() => (column.clone() + column, data_type),
            2 if data_type.is_floating() => (floor(column), data_type),
            3 if data_type.is_integer() => (cast(column, DataType::Float64), DataType::Float64),
            3 if data_type == DataType::Float32 => (cast(column, DataType::Float64), DataType::Float64),
            3 if is_time => (date_part(lit("month"), column), DataType::Int32),
            4 if is_time => (date_part(lit("week"), column), DataType::Int32),
            5 if matches!(data_type, DataType::Timestamp(..)) => (date_trunc(lit("quarter"), column), data_type),
            5 if data_type.is_integer() => (-column, data_type),
            _ => (column, data_type),
        })
    }
}

fn queries() -> impl Strategy<Value = QuerySpec> {
    (
        prop::option::weighted(0.8, filters()),
        prop::collection::vec(values(), 0..3),
        prop_oneof![4 => Just(Sets::AllKeys), 1 => Just(Sets::Rollup), 1 => Just(Sets::Cube)],
        prop::collection::vec((0..8_usize, values()), 1..4),
        prop::option::weighted(0.2, filters()),
    )
        .prop_map(|(filter, keys, sets, aggregates, only)| QuerySpec {
            filter,
            keys,
            sets,
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
        // Each case compiles a kernel or two.
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

/// The number of aggregations that kernels computed, or the first difference between the answers.
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
        let answers = answers_at_once(setting, path, &rows, table, query).await?;
        for answer in answers {
            match (&expected, answer) {
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
                (Err(wanted), Ok(_)) => {
                    return Ok(Err(format!("{setting:?}: an answer instead of the error {wanted}")));
                }
            }
        }
    }
    Ok(Ok(ran))
}

/// The answers of two executions at once on one device. A third execution beside them is cancelled.
async fn answers_at_once(
    setting: &Setting,
    path: &Path,
    rows: &RecordBatch,
    table: &TableSpec,
    query: &QuerySpec,
) -> Result<[Result<(RecordBatch, usize)>; 2]> {
    let context = setting.context();
    grampus::session::register_orc(&context, "t", &path.display().to_string()).await?;
    let cancelled = execution(&context, rows, table, query).await?;
    let (first, second) = (
        execution(&context, rows, table, query).await?,
        execution(&context, rows, table, query).await?,
    );
    let cancelled = tokio::spawn(cancelled);
    let (first, second) = (tokio::spawn(first), tokio::spawn(second));
    tokio::time::sleep(std::time::Duration::from_micros((query.aggregates.len() * 700) as u64)).await;
    cancelled.abort();
    let joined = |error| datafusion::error::DataFusionError::External(Box::new(error));
    Ok([first.await.map_err(joined)?, second.await.map_err(joined)?])
}

/// A planned query, to be executed: its answer, and the number of aggregations by kernels.
async fn execution(
    context: &SessionContext,
    rows: &RecordBatch,
    table: &TableSpec,
    query: &QuerySpec,
) -> Result<impl Future<Output = Result<(RecordBatch, usize)>> + Send + 'static> {
    let frame = frame(context, rows, table, query).await?;
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await?;
    Ok(async move {
        let batches = collect(Arc::clone(&plan), task).await?;
        Ok((concat_batches(&plan.schema(), &batches)?, gpu_runs(&plan).0))
    })
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
    execution(&context, rows, table, query).await?.await
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
    let mut frame = context.table("t").await?;
    if let Some(filter) = &query.filter {
        frame = frame.filter(filter.expression(rows, &usable))?;
    }
    let mut keys = Vec::new();
    for (at, key) in query.keys.iter().enumerate() {
        keys.push(key.expression(rows, &usable)?.0.alias(format!("k{at}")));
    }
    let mut aggregates = Vec::new();
    for (at, (function, value)) in query.aggregates.iter().enumerate() {
        let at_column = usable[value.column % usable.len()];
        let (value, data_type) = value.expression(rows, &usable)?;
        // If a group has a NaN, DataFusion's MIN and MAX of floats depend on the order of rows: in min_max.rs, a
        // comparison without an answer takes the new value. Such queries have no single right answer.
        let is_wild = at_column > 0 && table.columns[at_column - 1].is_wild();
        let has_answer = keys.is_empty() || !data_type.is_floating() || !is_wild;
        let mut expr = aggregate(if has_answer { *function } else { 1 }, value, &data_type);
        if let Some(only) = query.only.as_ref().filter(|_| at == 0) {
            expr = expr.filter(only.expression(rows, &usable)).build()?;
        }
        aggregates.push(expr.alias(format!("a{at}")));
    }
    // Groups of different sets may have equal keys.
    let order = (0..keys.len()).map(|at| format!("k{at}"));
    let order = order.chain(
        (0..aggregates.len())
            .filter(|_| !keys.is_empty())
            .map(|at| format!("a{at}")),
    );
    let order: Vec<SortExpr> = order.map(|name| col(name).sort(true, true)).collect();
    // DataFusion sorts by one of two equal keys, although a set may lack the other.
    let has_equal_keys = matches!(&keys[..], [first, second] if first.clone().unalias() == second.clone().unalias());
    let keys = match query.sets {
        Sets::Rollup if !keys.is_empty() && !has_equal_keys => vec![rollup(keys)],
        Sets::Cube if !keys.is_empty() && !has_equal_keys => vec![cube(keys)],
        _ => keys,
    };
    let frame = frame.aggregate(keys, aggregates)?;
    if order.is_empty() { Ok(frame) } else { frame.sort(order) }
}

/// An aggregate of a value. Only integers and decimals are summed and averaged: with infinities and huge values, sums
/// of floats depend on the order of additions, and so do those of averages of long integers.
fn aggregate(function: usize, value: Expr, data_type: &DataType) -> Expr {
    match function {
        0 => count(lit(ScalarValue::Int64(Some(1)))),
        1 => count(value),
        2 if data_type.is_integer() || matches!(data_type, DataType::Decimal128(..)) => sum(value),
        3 if matches!(
            data_type,
            DataType::Decimal128(..) | DataType::Int8 | DataType::Int16 | DataType::Int32
        ) =>
        {
            avg(value)
        }
        5 => count_distinct(value),
        6 if data_type.is_integer() => bit_xor(value),
        7 if data_type.is_integer() => bit_and(value),
        2 | 3 => min(value),
        _ => max(value),
    }
}
