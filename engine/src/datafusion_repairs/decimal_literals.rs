//! [`DecimalLiterals`]: a literal with a point that becomes a DECIMAL keeps its digits (apache/datafusion#4072).
//!
//! DataFusion makes a DOUBLE of `10046137.9887`. Its cast to DECIMAL(38, 15) multiplies by 10^15 as a DOUBLE, which
//! gives 10046137.988700000223232. The rule casts the number as written. It also removes the calls of
//! [`written_numbers`](super::written_numbers), which no other rule reads.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;

use super::constant::Constant;
use super::decimal_comparisons::{parts, scalar};
use super::expressions::rewrite_expressions;
use super::written_numbers::{without_digits, written};

/// The rule.
#[derive(Debug)]
pub(super) struct DecimalLiterals;

impl AnalyzerRule for DecimalLiterals {
    fn name(&self) -> &str {
        "decimal_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_expressions(plan, cast_as_written)?;
        rewrite_expressions(plan, without_text)
    }
}

/// The value of a cast of a DOUBLE literal to DECIMAL.
fn cast_as_written(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    let (inner, to) = match &expr {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
        _ => return Ok(Transformed::no(expr)),
    };
    let Some(value) = decimal(inner, to) else {
        return Ok(Transformed::no(expr));
    };
    Ok(Transformed::yes(value))
}

/// `None`: no literal, or its digits do not fit, which is the error of the cast.
fn decimal(literal: &Expr, to: &DataType) -> Option<Expr> {
    let (precision, scale) = parts(to).filter(|_| is_literal(literal) && to.is_decimal())?;
    let mantissa = Constant::of(literal)?.value.rounded(precision, scale)?;
    Some(lit(scalar(mantissa, to)?))
}

fn is_literal(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(..) | Expr::Negative(_)) || written(expr).is_some()
}

fn without_text(expr: Expr, _: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match without_digits(&expr) {
        Some(number) => Transformed::yes(number),
        None => Transformed::no(expr),
    })
}
