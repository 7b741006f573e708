//! [`plan`]: `LIMIT 10%`, the first rows of a query, as many as a part of all.
//!
//! The parser reads the part as a text. The rows get their numbers in the query's order, and the count of all rows:
//! those up to the part of the count stay. A part of a row is none.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::functions::expr_fn::floor;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Projection, WindowFunctionDefinition, cast, lit,
};

/// The names of the number and the count of rows, which no query names.
const NUMBER: &str = "__number_of_row";
const COUNT: &str = "__count_of_rows";

/// The plan with such limits planned.
///
/// # Errors
/// If a part is no number between 0 and 100.
pub(super) fn plan(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut has_part = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            has_part |= part(limit)?.is_some();
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !has_part {
        return Ok(plan);
    }
    let planned = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(limit) => match part(&limit)? {
            Some(part) => Ok(Transformed::yes(first_rows(limit.input, limit.skip.as_deref(), part)?)),
            None => Ok(Transformed::no(LogicalPlan::Limit(limit))),
        },
        other => Ok(Transformed::no(other)),
    })?;
    Ok(planned.data)
}

/// The part of a limit. `None`: it is a number of rows.
fn part(limit: &Limit) -> Result<Option<f64>> {
    let Some(Expr::Literal(value, _)) = limit.fetch.as_deref() else {
        return Ok(None);
    };
    let Some(Some(text)) = value.try_as_str() else {
        return Ok(None);
    };
    let Some(percent) = text.strip_suffix('%') else {
        return Ok(None);
    };
    match percent.trim().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Some(percent / 100.0)),
        _ => plan_err!("LIMIT {text}: the percentage is to lie between 0 and 100"),
    }
}

fn first_rows(input: Arc<LogicalPlan>, skip: Option<&Expr>, part: f64) -> Result<LogicalPlan> {
    let (keys, rows) = match Arc::unwrap_or_clone(input) {
        // Keys that the select list lacks are sorted below it.
        LogicalPlan::Projection(projection) if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) => {
            let rows = first_rows(projection.input, skip, part)?;
            let projection = Projection::try_new(projection.expr, Arc::new(rows))?;
            return Ok(LogicalPlan::Projection(projection));
        }
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => (sort.expr, Arc::unwrap_or_clone(sort.input)),
        other => (Vec::new(), other),
    };
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = WindowFunction::new(WindowFunctionDefinition::WindowUDF(row_number_udwf()), Vec::new());
    let number = match keys.is_empty() {
        true => Expr::from(number),
        false => Expr::from(number).order_by(keys).build()?,
    };
    let one = vec![Expr::Literal(ScalarValue::Int64(Some(1)), None)];
    let count = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(count_udaf()), one);
    let count = Expr::from(count);
    let named = |name: &str| Expr::Column(Column::new_unqualified(name));
    let skipped = cast(skip.cloned().unwrap_or_else(|| lit(0_i64)), DataType::Int64);
    let wanted = floor(cast(named(COUNT), DataType::Float64) * lit(part));
    let place = cast(named(NUMBER), DataType::Int64);
    let is_wanted = (place.clone().gt(skipped.clone())).and(place.lt_eq(skipped + cast(wanted, DataType::Int64)));
    let windows = LogicalPlanBuilder::window_plan(rows, [number.clone(), count.clone()])?;
    let mut outputs = columns.clone();
    outputs.push(Expr::Column(Column::new_unqualified(number.schema_name().to_string())).alias(NUMBER));
    outputs.push(Expr::Column(Column::new_unqualified(count.schema_name().to_string())).alias(COUNT));
    LogicalPlanBuilder::from(windows)
        .project(outputs)?
        .filter(is_wanted)?
        .sort([named(NUMBER).sort(true, false)])?
        .project(columns)?
        .build()
}
