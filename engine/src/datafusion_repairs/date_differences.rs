//! [`DateDifferences`]: the days between two dates.
//!
//! DataFusion's type of `date - date` is BIGINT. Its analysis of ranges subtracts the bounds as durations, so that a
//! filter of the difference ends in an internal error. The rule subtracts numbers of days.

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::rewrite_expressions;
use super::place::binary;

/// Milliseconds of a day, of which DATE in 64 bits is a multiple.
const DAY_MS: i64 = 86_400_000;

/// The rule.
#[derive(Debug)]
pub(super) struct DateDifferences;

impl AnalyzerRule for DateDifferences {
    fn name(&self) -> &str {
        "date_differences"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, subtract)
    }
}

fn subtract(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(difference) = &expr else {
        return Ok(Transformed::no(expr));
    };
    if difference.op != Operator::Minus {
        return Ok(Transformed::no(expr));
    }
    let types = (difference.left.get_type(schema), difference.right.get_type(schema));
    let number = |operand: &Expr| cast(operand.clone(), DataType::Int64);
    let days = |left, right| binary(number(left), Operator::Minus, number(right));
    Ok(match types {
        (Ok(DataType::Date32), Ok(DataType::Date32)) => Transformed::yes(days(&difference.left, &difference.right)),
        (Ok(DataType::Date64), Ok(DataType::Date64)) => {
            Transformed::yes(days(&difference.left, &difference.right) / lit(DAY_MS))
        }
        _ => Transformed::no(expr),
    })
}
