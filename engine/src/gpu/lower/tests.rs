//! Tests of lowering: the programs of SQL queries as text, and the texts of refusals.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow::record_batch::RecordBatch;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::prelude::SessionContext;
use grampus_gpu_exec::program::Expr;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

use super::*;
use crate::config::GrampusConfig;

/// The taxi columns that the queries name, and one column of every other type.
fn schema() -> Schema {
    let double = [
        "passenger_count",
        "trip_distance",
        "payment_type",
        "fare_amount",
        "extra",
        "mta_tax",
        "tip_amount",
    ];
    let double = double
        .into_iter()
        .chain(["tolls_amount", "total_amount", "congestion_surcharge", "ehail_fee"]);
    let mut fields: Vec<Field> = double.map(|name| Field::new(name, DataType::Float64, true)).collect();
    let timestamp = |zone: Option<&str>| DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into));
    let others = [
        ("pickup_datetime", timestamp(None)),
        ("store_and_fwd_flag", DataType::Utf8),
        ("cab_type", DataType::Utf8),
        ("i", DataType::Int32),
        ("l", DataType::Int64),
        ("b", DataType::Boolean),
        ("day", DataType::Date32),
        ("instant", timestamp(Some("UTC"))),
        ("price", DataType::Decimal128(10, 2)),
        ("wide", DataType::Decimal128(30, 2)),
        ("bytes", DataType::Binary),
    ];
    fields.extend(others.map(|(name, data_type)| Field::new(name, data_type, true)));
    Schema::new(fields)
}

async fn session(folder: &Path, partitions: usize) -> SessionContext {
    let schema = Arc::new(schema());
    let path = folder.join("trips.orc");
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(WriterProperties::default())).unwrap();
    let columns = schema.fields().iter().map(|field| new_null_array(field.data_type(), 3));
    writer
        .write(&RecordBatch::try_new(Arc::clone(&schema), columns.collect()).unwrap())
        .unwrap();
    writer.close().unwrap();
    let mut config = GrampusConfig {
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    };
    // Statistics would exclude the file: it has three rows of NULLs.
    config.options.prune = false;
    let context = crate::session::context(config).unwrap();
    crate::session::register_orc(&context, "trips", &path.display().to_string())
        .await
        .unwrap();
    context
}

/// The first aggregation over rows, from the top.
fn aggregation(plan: &Arc<dyn ExecutionPlan>) -> Option<&AggregateExec> {
    use AggregateMode::{Partial, Single, SinglePartitioned};
    match plan.downcast_ref::<AggregateExec>() {
        Some(found) if matches!(found.mode(), Partial | Single | SinglePartitioned) => Some(found),
        _ => plan.children().into_iter().find_map(aggregation),
    }
}

async fn lowered(context: &SessionContext, sql: &str) -> Result<Lowered, Refusal> {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    lower(aggregation(&plan).unwrap_or_else(|| panic!("no aggregation: {sql}")))
}

/// A program as text: columns by name, arguments by value.
fn text(lowered: &Lowered) -> String {
    let program = &lowered.program;
    let shown = |expr: &Expr| show(lowered, expr);
    let mut out = String::new();
    for column in &program.columns {
        let _ = writeln!(out, "column    {} {:?}", column.name, column.ty);
    }
    for (ty, value) in program.arguments.iter().zip(&lowered.arguments) {
        let _ = match value {
            Argument::Value(value) => writeln!(out, "argument  {ty:?} {value:?}"),
            Argument::Text(text) => writeln!(out, "argument  {ty:?} {text:?}"),
        };
    }
    program
        .conjuncts
        .iter()
        .for_each(|expr| writeln!(out, "where     {}", shown(expr)).unwrap());
    program
        .keys
        .iter()
        .for_each(|expr| writeln!(out, "key       {}", shown(expr)).unwrap());
    for aggregate in &program.aggregates {
        let argument = aggregate.argument.as_ref().map_or("*".to_owned(), shown);
        let filter = aggregate
            .filter
            .as_ref()
            .map(|filter| format!(" where {}", shown(filter)));
        let _ = writeln!(
            out,
            "aggregate {:?}({argument}){}",
            aggregate.function,
            filter.unwrap_or_default()
        );
    }
    let _ = writeln!(out, "state     {:?}", lowered.state);
    if let Some(sets) = &lowered.grouping_sets {
        let _ = writeln!(out, "sets      {}", sets.len());
    }
    out
}

fn show(lowered: &Lowered, expr: &Expr) -> String {
    let shown = |expr: &Expr| show(lowered, expr);
    let list = |list: &[Expr]| list.iter().map(shown).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Column(at) => lowered.program.columns[*at].name.clone(),
        Expr::Argument(at) => format!("${at}"),
        Expr::Null(ty) => format!("NULL {ty:?}"),
        Expr::Not(value) => format!("not({})", shown(value)),
        Expr::Negate(value) => format!("-({})", shown(value)),
        Expr::IsNull(value) => format!("is_null({})", shown(value)),
        Expr::Binary { op, left, right } => format!("{op:?}({}, {})", shown(left), shown(right)),
        Expr::InList {
            value,
            list: items,
            negated,
        } => {
            format!(
                "{}({} in {})",
                if *negated { "not" } else { "" },
                shown(value),
                list(items)
            )
        }
        Expr::Case { branches, otherwise } => {
            let branches: Vec<String> = branches
                .iter()
                .map(|(c, v)| format!("{} ? {}", shown(c), shown(v)))
                .collect();
            format!(
                "case({}; {})",
                branches.join(", "),
                otherwise.as_ref().map_or("NULL".into(), |e| shown(e))
            )
        }
        Expr::Coalesce(items) => format!("coalesce({})", list(items)),
        Expr::Cast { value, to } => format!("cast({} as {to:?})", shown(value)),
        Expr::TryCast { value, to } => format!("try_cast({} as {to:?})", shown(value)),
        Expr::Math { function, value } => format!("{function:?}({})", shown(value)),
        Expr::Extract { part, value } => format!("extract({part:?} from {})", shown(value)),
        Expr::Truncate { part, value } => format!("truncate({} to {part:?})", shown(value)),
    }
}

/// A query of the project's `queries` folder.
fn query(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../queries/{name}.sql"));
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn taxi_queries_become_programs() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), 4).await;
    let mut out = String::new();
    for name in [
        "q0_30", "q1_30", "q2_30", "q3_30", "q4_30", "q5_30", "t1", "t2", "t3", "t4", "x1", "x2", "x3",
    ] {
        let lowered = lowered(&context, &query(name))
            .await
            .unwrap_or_else(|reason| panic!("{name}: {reason}"));
        let _ = writeln!(out, "{name}\n{}", text(&lowered));
    }
    insta::assert_snapshot!(out);
}

/// A single aggregation, as on one partition, has the same program as a partial one.
#[tokio::test]
async fn programs_are_equal_for_any_number_of_partitions() {
    let folder = tempfile::tempdir().unwrap();
    let (one, four) = (session(folder.path(), 1).await, session(folder.path(), 4).await);
    for name in ["q0_20", "q5_20", "t4", "x1"] {
        let sql = query(name);
        assert_eq!(
            text(&lowered(&one, &sql).await.unwrap()),
            text(&lowered(&four, &sql).await.unwrap())
        );
    }
}

/// Queries that differ in literals share a program, and so a kernel.
#[tokio::test]
async fn programs_do_not_contain_literals() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), 2).await;
    let sql = |miles: i32, cab: &str| {
        format!("SELECT sum(l + {miles}) FROM trips WHERE trip_distance >= {miles} AND cab_type = '{cab}'")
    };
    let (a, b) = (
        lowered(&context, &sql(30, "green")).await.unwrap(),
        lowered(&context, &sql(7, "yellow")).await.unwrap(),
    );
    assert_eq!(a.program, b.program);
    assert_ne!(a.arguments, b.arguments);
}

#[tokio::test]
async fn expressions_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), 2).await;
    let mut out = String::new();
    for sql in [
        "SELECT count(*) FILTER (WHERE b), count(i) FILTER (WHERE NOT b AND i > 3) FROM trips",
        "SELECT sum(CASE WHEN i > 1 THEN l WHEN b THEN 2 END), sum(CASE i WHEN 1 THEN 10 ELSE 20 END) FROM trips",
        "SELECT min(day), max(instant), avg(i), sum(price), avg(price), min(price) FROM trips WHERE price > 2.5",
        "SELECT count(*) FROM trips WHERE i IN (1, 2, 3, 4, 5) AND cab_type NOT IN ('a', 'b', 'c', 'd', NULL)",
        "SELECT i, l, count(*) FROM trips GROUP BY ROLLUP (i, l)",
        "SELECT i, min(cab_type), count(DISTINCT l), count(DISTINCT cab_type), avg(i) FROM trips GROUP BY i",
        "SELECT count(*) FROM trips WHERE (i IS DISTINCT FROM 3) OR (l IS NOT DISTINCT FROM i)",
        "SELECT count(*) FROM trips WHERE i BETWEEN 2 AND l AND -l < 5 AND nullif(i, 0) > 3",
        "SELECT coalesce(cab_type, 'none'), count(*) FROM trips GROUP BY 1",
        "SELECT DISTINCT extract(dow FROM day), date_trunc('week', instant) FROM trips",
        "SELECT sum(CAST(trip_distance AS BIGINT)), max(CAST(pickup_datetime AS DATE)) FROM trips",
        "SELECT count(DISTINCT i) FROM trips",
        "SELECT sum(price * (1 - price)), max(CAST(price AS DOUBLE)) FROM trips WHERE -price < 2",
        "SELECT count(*) FROM trips WHERE cab_type < 'b' AND i > 3 AND NOT cab_type LIKE 'g%n'",
        "SELECT i, sum(wide), max(wide - price), stddev(i), var_pop(l) FILTER (WHERE b) FROM trips GROUP BY i",
        "SELECT count(*) FROM trips WHERE wide * wide * wide * wide * wide > 0.5 AND wide < 1e16",
        "SELECT bit_and(i), bit_or(DISTINCT i), bit_xor(l), sum(TRY_CAST(fare_amount AS INT)) FROM trips",
        "SELECT upper(cab_type), sum(TRY_CAST(cab_type AS INT)) FROM trips GROUP BY 1 HAVING upper(cab_type) <> 'G'",
    ] {
        let shown = match lowered(&context, sql).await {
            Ok(lowered) => text(&lowered),
            Err(reason) => format!("refused   {reason}\n"),
        };
        let _ = writeln!(out, "{sql}\n{shown}");
    }
    insta::assert_snapshot!(out);
}

#[tokio::test]
async fn refusals_name_their_reason() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), 2).await;
    let mut out = String::new();
    for sql in [
        "SELECT count(DISTINCT i), count(DISTINCT l) FROM trips",
        "SELECT corr(fare_amount, extra) FROM trips",
        "SELECT var_pop(DISTINCT fare_amount), bit_xor(DISTINCT i) FROM trips",
        "SELECT array_agg(i ORDER BY l) FROM trips",
        "SELECT min(cab_type) FILTER (WHERE i > 1) FROM trips",
        "SELECT count(*) FROM trips WHERE cab_type < store_and_fwd_flag",
        "SELECT count(*) FROM trips WHERE cab_type LIKE store_and_fwd_flag",
        "SELECT concat(cab_type, '!'), count(*) FROM trips GROUP BY 1",
        "SELECT max(TRY_CAST(day AS TIMESTAMP)) FROM trips",
        "SELECT sum(CAST(cab_type AS DOUBLE)) FROM trips",
        "SELECT sum(CAST(wide AS DECIMAL(50, 2))) FROM trips",
        "SELECT count(*) FROM trips WHERE wide > CAST('999999999999999999999999999999999999' AS DECIMAL(38, 2))",
        "SELECT sum(price / 2) FROM trips",
        "SELECT count(bytes) FROM trips WHERE i > 0",
        "SELECT count(*) FROM trips WHERE random() < 0.5",
        "SELECT extract(epoch FROM pickup_datetime), count(*) FROM trips GROUP BY 1",
        "SELECT date_trunc('millisecond', pickup_datetime), count(*) FROM trips GROUP BY 1",
        "SELECT max(pickup_datetime + INTERVAL '1 day') FROM trips",
        "SELECT sum(round(fare_amount)) FROM trips",
        "SELECT sum(i) FROM (SELECT * FROM trips LIMIT 2)",
        "SELECT count(*) FROM trips a JOIN trips b ON a.i = b.i",
        "SELECT sum(i) FROM (SELECT i FROM trips UNION ALL SELECT i FROM trips)",
        "SELECT sum(value) FROM generate_series(1, 3)",
        "SELECT sum(n) FROM (SELECT sum(i) OVER (ORDER BY l) AS n FROM trips)",
    ] {
        let reason = lowered(&context, sql).await.map_or_else(
            |refusal| refusal.to_string(),
            |lowered| format!("LOWERED\n{}", text(&lowered)),
        );
        let _ = writeln!(out, "{sql}\n    {reason}");
    }
    insta::assert_snapshot!(out);
}

/// Long chains of operators are refused before they exhaust the stack. (Those of AND and OR are balanced before.)
#[tokio::test]
async fn deep_expressions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let context = session(folder.path(), 2).await;
    let deep = format!("i{}", " + l".repeat(110));
    let reason = lowered(&context, &format!("SELECT sum({deep}) FROM trips"))
        .await
        .unwrap_err()
        .to_string();
    assert!(reason.contains("nested more than"), "{reason}");
}
