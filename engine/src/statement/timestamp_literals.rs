//! `TimestampLiterals`: columns of microseconds are compared with constants in microseconds.
//!
//! DataFusion compares timestamps in nanoseconds if one side has nanoseconds, as `TIMESTAMP '2020-01-01'`, strings
//! and `now()` have. Its cast of a column of microseconds fails for 9999-12-31, and so does its cast of that text.
//!
//! - The cast of a column to nanoseconds is removed, and the constants become microseconds. A literal with a fraction
//!   of a microsecond is left as it is. Other constants, such as `now()`, are cut to microseconds.
//! - A column of nanoseconds is compared in microseconds with a literal that does not fit nanoseconds. The cut fraction
//!   cannot matter, because no value of the column is near.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};
use datafusion::optimizer::AnalyzerRule;

use crate::plan_rewrites::rewrite_comparisons;

/// A time zone of Arrow's timestamps.
type Zone = Option<std::sync::Arc<str>>;

/// The rule.
#[derive(Debug)]
pub(crate) struct TimestampLiterals;

impl AnalyzerRule for TimestampLiterals {
    fn name(&self) -> &str {
        "timestamp_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_comparisons(plan, |schema| !schema.fields().is_empty(), narrow)
    }
}

/// Compares in microseconds if the operands allow it.
fn narrow(operands: &mut [&mut Expr], schema: &DFSchema) -> Result<bool> {
    let Some(zone) = nanoseconds(operands[0], schema) else {
        return Ok(false);
    };
    let microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let has_cast_column = operands
        .iter()
        .any(|operand| cast_microseconds(operand, schema).is_some());
    // A cut fraction of a column's value could equal another literal of a list.
    let has_far_literal = operands.len() == 2 && operands.iter().any(|operand| is_far(operand, &zone));
    if !has_cast_column && !has_far_literal {
        return Ok(false);
    }
    let mut narrowed = Vec::with_capacity(operands.len());
    for operand in operands.iter() {
        let column = cast_microseconds(operand, schema);
        narrowed.push(match (column, is_constant(operand)) {
            (Some(column), _) if column.get_type(schema)? == microseconds => column.clone(),
            (Some(column), _) => cast(column.clone(), microseconds.clone()),
            (None, true) => match in_microseconds(operand, &microseconds) {
                Some(constant) => constant,
                None => return Ok(false),
            },
            (None, false) if has_far_literal => cast((*operand).clone(), microseconds.clone()),
            (None, false) => return Ok(false),
        });
    }
    for (operand, narrowed) in operands.iter_mut().zip(narrowed) {
        **operand = narrowed;
    }
    Ok(true)
}

/// The zone of an expression of nanoseconds.
fn nanoseconds(expr: &Expr, schema: &DFSchema) -> Option<Zone> {
    match expr.get_type(schema).ok()? {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => Some(zone),
        _ => None,
    }
}

/// The expression of microseconds that `expr` casts to nanoseconds.
fn cast_microseconds<'a>(expr: &'a Expr, schema: &DFSchema) -> Option<&'a Expr> {
    let Expr::Cast(cast) = expr else { return None };
    let is_microseconds = matches!(
        cast.expr.get_type(schema),
        Ok(DataType::Timestamp(TimeUnit::Microsecond, _))
    );
    (is_microseconds && !is_constant(&cast.expr)).then_some(&*cast.expr)
}

/// True if the expression has one value for all rows and is no subquery.
fn is_constant(expr: &Expr) -> bool {
    let mut is_constant = true;
    let visited = expr.apply(|expr| {
        is_constant &= matches!(
            expr,
            Expr::Literal(..)
                | Expr::Cast(_)
                | Expr::BinaryExpr(_)
                | Expr::Negative(_)
                | Expr::Alias(_)
                | Expr::ScalarFunction(_)
                | Expr::Placeholder(_)
        );
        Ok(if is_constant {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    visited.is_ok() && is_constant && !expr.is_volatile()
}

/// The value of a literal, below casts to timestamps and with casts to dates.
fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => match cast.field.data_type() {
            DataType::Timestamp(..) => literal(&cast.expr),
            DataType::Date32 => literal(&cast.expr)?.cast_to(&DataType::Date32).ok(),
            _ => None,
        },
        _ => None,
    }
}

/// True for a literal that fits microseconds and not nanoseconds.
fn is_far(expr: &Expr, zone: &Zone) -> bool {
    literal(expr).is_some_and(|value| {
        let fits = |unit| value.cast_to(&DataType::Timestamp(unit, zone.clone())).is_ok();
        !fits(TimeUnit::Nanosecond) && fits(TimeUnit::Microsecond)
    })
}

/// A constant in microseconds; `None`: a literal with a fraction of a microsecond.
fn in_microseconds(expr: &Expr, microseconds: &DataType) -> Option<Expr> {
    let Some(value) = literal(expr) else {
        return Some(cast(expr.clone(), microseconds.clone()));
    };
    let DataType::Timestamp(_, zone) = microseconds else {
        return None;
    };
    match value.cast_to(&DataType::Timestamp(TimeUnit::Nanosecond, zone.clone())) {
        Ok(ScalarValue::TimestampNanosecond(Some(value), _)) if value % 1_000 != 0 => None,
        _ => Some(Expr::Literal(value.cast_to(microseconds).ok()?, None)),
    }
}
