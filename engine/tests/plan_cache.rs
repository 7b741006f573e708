//! The plan cache: a plan is reused if nothing has changed, and never if something has.

mod support;

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use datafusion::physical_plan::collect;
use datafusion::prelude::SessionContext;
use grampus::GrampusConfig;
use grampus::session::plan_cache::{cached_plan, plan_sql};
use grampus::session::register_orc;
use grampus_orc_layout::write::WriterProperties;

fn context() -> SessionContext {
    grampus::session::context(GrampusConfig::default()).unwrap()
}

/// The answer as a table, and whether the plan came from the cache.
async fn ask(context: &SessionContext, sql: &str) -> (String, bool) {
    let kept = cached_plan(context, sql).await.unwrap().is_some();
    let (plan, task) = plan_sql(context, sql).await.unwrap();
    let batches = collect(plan, task).await.unwrap();
    (pretty_format_batches(&batches).unwrap().to_string(), kept)
}

async fn run(context: &SessionContext, sql: &str) {
    ask(context, sql).await;
}

fn numbers(values: &[i64]) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter([("a", column)]).unwrap()
}

fn orc(path: &Path, values: &[i64]) {
    let batch = numbers(values);
    support::write_orc(path, batch.schema(), &[batch], WriterProperties::default());
}

#[tokio::test]
async fn plan_cache_reuses_plans_and_sees_files_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    orc(&folder.path().join("1.orc"), &[1, 2, 3]);
    let context = context();
    register_orc(&context, "t", folder.path().to_str().unwrap())
        .await
        .unwrap();
    let sql = "SELECT sum(a) AS s, count(*) AS n FROM t WHERE a >= 2 AND abs(a) > 0";
    let (first, kept) = ask(&context, sql).await;
    assert!(!kept && first.contains("| 5 | 2 |"), "{first}");
    assert_eq!(ask(&context, sql).await, (first.clone(), true));
    assert!(!ask(&context, &format!("{sql} ")).await.1, "another text");
    orc(&folder.path().join("2.orc"), &[10]);
    let (more, kept) = ask(&context, sql).await;
    assert!(kept && more.contains("| 15 | 3 |"), "{more}");
    assert_eq!(context.sql(sql).await.unwrap().to_string().await.unwrap(), more);
}

#[tokio::test]
async fn plan_cache_drops_plans_of_replaced_tables() {
    let context = context();
    let table = |values: &[i64]| {
        let batch = numbers(values);
        Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap())
    };
    context.register_table("t", table(&[1])).unwrap();
    let sql = "SELECT max(a) FROM t JOIN (SELECT a AS b FROM t) ON a = b";
    ask(&context, sql).await;
    assert!(ask(&context, sql).await.1);
    context.deregister_table("t").unwrap();
    assert!(cached_plan(&context, sql).await.unwrap().is_none());
    assert!(plan_sql(&context, sql).await.is_err(), "it is gone");
    let known = table(&[5]);
    context.register_table("u", Arc::clone(&known) as _).unwrap();
    run(&context, "SELECT a FROM u").await;
    run(&context, "DROP TABLE u").await;
    assert_eq!(Arc::strong_count(&known), 1, "no plan keeps it");
    context.register_table("t", table(&[7])).unwrap();
    let (answer, kept) = ask(&context, sql).await;
    assert!(!kept && answer.contains("| 7 "), "{answer}");
    run(&context, "CREATE OR REPLACE TABLE t AS VALUES (8)").await;
    let (answer, kept) = ask(&context, "SELECT * FROM t").await;
    assert!(!kept && answer.contains("| 8 "), "{answer}");
}

#[tokio::test]
async fn plan_cache_drops_plans_when_settings_functions_or_rules_change() {
    let context = context();
    let sql = "SELECT twice(a) FROM (VALUES (1.5)) AS t(a)";
    let register = |factor: f64| {
        let apply = move |arguments: &[ColumnarValue]| {
            let values = ColumnarValue::values_to_arrays(arguments)?;
            let values = values[0].as_any().downcast_ref::<Float64Array>().unwrap();
            let doubled: Float64Array = values.unary(|value| value * factor);
            Ok(ColumnarValue::Array(Arc::new(doubled)))
        };
        let double = arrow::datatypes::DataType::Float64;
        let function = create_udf(
            "twice",
            vec![double.clone()],
            double,
            Volatility::Immutable,
            Arc::new(apply),
        );
        context.register_udf(function);
    };
    register(2.0);
    ask(&context, sql).await;
    let (answer, kept) = ask(&context, sql).await;
    assert!(kept && answer.contains("3.0"), "{answer}");
    register(4.0);
    let (answer, kept) = ask(&context, sql).await;
    assert!(!kept && answer.contains("6.0"), "{answer}");
    let sql = "SELECT 1 AS one";
    ask(&context, sql).await;
    assert!(ask(&context, sql).await.1);
    run(&context, "SET grampus.prune = false").await;
    assert!(!ask(&context, sql).await.1);
    assert!(ask(&context, sql).await.1);
    context.add_analyzer_rule(Arc::new(TypeCoercion::new()));
    assert!(!ask(&context, sql).await.1, "a rule was added");
    assert!(ask(&context, sql).await.1);
}

#[tokio::test]
async fn plan_cache_skips_views_volatile_functions_and_statements() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("1.orc");
    orc(&file, &[1, 2, 3]);
    let context = context();
    register_orc(&context, "t", file.to_str().unwrap()).await.unwrap();
    run(&context, "CREATE VIEW v AS SELECT a FROM t WHERE a > 1").await;
    let by_path = format!("SELECT a FROM '{}'", file.display());
    for sql in [
        "SELECT now() FROM t",
        "SELECT a FROM t WHERE random() >= 0",
        "SELECT a FROM t WHERE a IN (SELECT CAST(random() AS BIGINT) FROM t)",
        "SELECT current_date() - DATE '2020-01-01'",
        "SELECT a FROM v",
        &by_path,
        "SHOW grampus.prune",
        "SELECT table_name FROM information_schema.tables",
        "EXPLAIN SELECT a FROM t",
        "EXPLAIN ANALYZE SELECT a FROM t",
        "CREATE TABLE IF NOT EXISTS u AS VALUES (1)",
    ] {
        run(&context, sql).await;
        assert!(cached_plan(&context, sql).await.unwrap().is_none(), "{sql}");
    }
    // A view's plan depends on the view's text. The table below the view does not tell whether the text has changed.
    run(&context, "CREATE OR REPLACE VIEW v AS SELECT a FROM t WHERE a > 2").await;
    let (answer, _) = ask(&context, "SELECT a FROM v").await;
    assert!(answer.contains("| 3 |") && !answer.contains("| 2 |"), "{answer}");
}

#[tokio::test]
async fn session_without_a_plan_cache_plans_each_time() {
    let context = SessionContext::new();
    let sql = "SELECT 1 AS one";
    for _ in 0..2 {
        assert!(!ask(&context, sql).await.1);
    }
}

#[tokio::test]
async fn session_made_of_another_plans_anew() {
    let context = context();
    let sql = "SELECT 1 AS one";
    ask(&context, sql).await;
    assert!(ask(&context, sql).await.1);
    let state = SessionStateBuilder::new_from_existing(context.state()).build();
    let other = SessionContext::new_with_state(state);
    assert!(!ask(&other, sql).await.1);
    assert!(ask(&other, sql).await.1);
}
