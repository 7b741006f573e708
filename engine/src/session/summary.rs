//! `SUMMARIZE`: a row of figures for each column of a table or query, by one pass over the rows.
//!
//! A statement `SUMMARIZE q` is the query `q` with a mark ([`mark`]). [`statement_to_plan`] plans `q` and puts the
//! figures on top:
//!
//! 1. one aggregation without groups, of all columns;
//! 2. its row as a list of structs, one for each column;
//! 3. the list unnested.
//!
//! Values of different types share the columns `min` to `q75`, which are text therefore.

use std::iter;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, TimeUnit};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::functions::expr_fn::{get_field, named_struct, nullif, round};
use datafusion::functions_aggregate::expr_fn::{approx_distinct, approx_percentile_cont, avg, count, max, min, stddev};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, PlanType, ToStringifiedPlan, cast, col, lit};
use datafusion::sql::parser::Statement;

use super::query_mark;

/// The name of the mark.
const MARK: &str = "summarize";
/// The name of the list and its structs.
const SUMMARY: &str = "summary";
/// The rows of the input, among the aggregates.
const ROWS: &str = "rows";
/// The columns of the result between `column_type` and `count`. All but `approx_unique` are text.
const FIGURES: [&str; 8] = ["min", "max", "approx_unique", "avg", "std", "q25", "q50", "q75"];

/// Marks a query, also one that is explained. Other statements stay as they are.
pub(super) fn mark(statement: &mut Statement) {
    query_mark::mark(statement, MARK, None);
}

/// The plan of a statement, which may be marked.
///
/// # Errors
/// As [`SessionState::statement_to_plan`].
pub(super) async fn statement_to_plan(state: &SessionState, mut statement: Statement) -> Result<LogicalPlan> {
    let is_marked = query_mark::take(&mut statement, MARK).is_some();
    let plan = state.statement_to_plan(statement).await?;
    match is_marked {
        true => summarize_explained(plan),
        false => Ok(plan),
    }
}

/// The figures of the columns of a query's plan, which may be explained.
fn summarize_explained(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Explain(mut explain) => {
            let summary = summarize(Arc::unwrap_or_clone(explain.plan))?;
            explain.stringified_plans = vec![summary.to_stringified(PlanType::InitialLogicalPlan)];
            explain.plan = Arc::new(summary);
            Ok(LogicalPlan::Explain(explain))
        }
        LogicalPlan::Analyze(mut analyze) => {
            analyze.input = Arc::new(summarize(Arc::unwrap_or_clone(analyze.input))?);
            Ok(LogicalPlan::Analyze(analyze))
        }
        query => summarize(query),
    }
}

/// The figures of the columns of `input`.
fn summarize(input: LogicalPlan) -> Result<LogicalPlan> {
    let schema = input.schema();
    let mut aggregates = vec![count(lit(1_i64)).alias(ROWS)];
    let mut structs = Vec::with_capacity(schema.fields().len());
    for (number, (relation, field)) in schema.iter().enumerate() {
        let column = Expr::Column(Column::from((relation, field)));
        let figures = figures(column.clone(), field.data_type());
        let alias = |name: &str| format!("{number} {name}");
        let mut named = Vec::with_capacity(FIGURES.len());
        for (name, figure) in FIGURES.into_iter().zip(figures) {
            let value = figure.map(|figure| {
                aggregates.push(figure.aggregate.alias(alias(name)));
                (figure.convert)(Expr::Column(Column::from_name(alias(name))))
            });
            named.push((name, value));
        }
        aggregates.push(count(column).alias(alias("count")));
        structs.push(row(field, named, Expr::Column(Column::from_name(alias("count")))));
    }
    let names = ["column_name", "column_type"].into_iter().chain(FIGURES);
    let names = names.chain(["count", "null_percentage"]);
    LogicalPlanBuilder::from(input)
        .aggregate(Vec::<Expr>::new(), aggregates)?
        .project([make_array(structs).alias(SUMMARY)])?
        .unnest_column(SUMMARY)?
        .project(names.map(|name| get_field(col(SUMMARY), name).alias(name)))?
        .build()
}

/// The struct of one column.
fn row(field: &FieldRef, figures: Vec<(&str, Option<Expr>)>, values: Expr) -> Expr {
    let mut fields = vec![
        lit("column_name"),
        lit(field.name().as_str()),
        lit("column_type"),
        lit(field.data_type().to_string()),
    ];
    for (name, value) in figures {
        let data_type = match name {
            "approx_unique" => DataType::Int64,
            _ => DataType::Utf8,
        };
        let value = value.unwrap_or_else(|| lit(ScalarValue::Null));
        fields.extend([lit(name), cast(value, data_type)]);
    }
    let rows = cast(col(ROWS), DataType::Float64);
    let nulls = rows.clone() - cast(values, DataType::Float64);
    let share = lit(100.0) * nulls / nullif(rows, lit(0.0));
    fields.extend([
        lit("count"),
        col(ROWS),
        lit("null_percentage"),
        round(vec![share, lit(2_i64)]),
    ]);
    named_struct(fields)
}

/// An aggregate, and the figure that its value gives.
struct Figure {
    aggregate: Expr,
    convert: Box<dyn Fn(Expr) -> Expr>,
}

/// The aggregate's own value.
fn plain(aggregate: Expr) -> Figure {
    let convert = Box::new(|value| value);
    Figure { aggregate, convert }
}

/// The kinds of columns, by the figures that they have.
enum Kind {
    Number,
    /// Dates and timestamps, with the casts to an integer that a double holds exactly.
    Time(Vec<DataType>),
    /// Ordered values that are no quantities.
    Ordered,
    Bytes,
    /// Nested and rare types.
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            numeric if numeric.is_numeric() => Self::Number,
            DataType::Date32 => Self::Time(vec![DataType::Int32]),
            DataType::Date64 => Self::Time(vec![DataType::Int64]),
            DataType::Timestamp(_, zone) => {
                let microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                Self::Time(vec![microseconds, DataType::Int64])
            }
            DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Ordered,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes
            }
            _ => Self::Other,
        }
    }
}

/// The approximate number of a column's values. DataFusion counts structs of floats, but not floats.
fn distinct(column: &Expr, data_type: &DataType) -> Expr {
    if !data_type.is_floating() {
        return approx_distinct(column.clone());
    }
    let values = approx_distinct(named_struct(vec![lit("value"), column.clone()]));
    match values {
        Expr::AggregateFunction(mut function) => {
            function.params.filter = Some(Box::new(column.clone().is_not_null()));
            Expr::AggregateFunction(function)
        }
        other => other,
    }
}

/// The figures of a column in the order of [`FIGURES`]; `None`: its type has no such value.
fn figures(column: Expr, data_type: &DataType) -> [Option<Figure>; 8] {
    if let DataType::Dictionary(_, values) = data_type {
        return figures(cast(column, values.as_ref().clone()), values);
    }
    let kind = Kind::of(data_type);
    let mut figures = [const { None }; 8];
    if matches!(kind, Kind::Number | Kind::Time(_) | Kind::Ordered) {
        figures[0] = Some(plain(min(column.clone())));
        figures[1] = Some(plain(max(column.clone())));
    }
    if !matches!(kind, Kind::Other) {
        figures[2] = Some(plain(distinct(&column, data_type)));
    }
    let number = match &kind {
        Kind::Number => cast(column, DataType::Float64),
        Kind::Time(casts) => cast(casts.iter().cloned().fold(column, cast), DataType::Float64),
        _ => return figures,
    };
    if matches!(kind, Kind::Number) {
        figures[3] = Some(plain(avg(number.clone())));
        figures[4] = Some(plain(stddev(number.clone())));
    }
    for (place, share) in [(5, 0.25), (6, 0.5), (7, 0.75)] {
        let aggregate = approx_percentile_cont(number.clone().sort(true, false), lit(share), None);
        let casts = match &kind {
            Kind::Time(casts) => iter::once(data_type).chain(casts).rev().cloned().collect(),
            _ => Vec::new(),
        };
        let convert = Box::new(move |value| casts.iter().cloned().fold(value, cast));
        figures[place] = Some(Figure { aggregate, convert });
    }
    figures
}
