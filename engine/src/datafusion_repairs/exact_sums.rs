//! [`ExactSums`] and [`WideSums`]: `sum` and `avg` that do not wrap around.
//!
//! DataFusion's sums of durations, intervals and long decimals wrap around beyond their bits. The rule puts
//! [`ExactSum`] in the place of DataFusion's functions for these types. A shorter decimal's sum has ten digits more
//! than its values: 10^10 rows cannot fill them, so these sums stay DataFusion's.
//!
//! [`WideSums`] sums decimals of 32 and 64 bits as those of 128 bits. It changes the type of the sum, so it runs before
//! DataFusion adds casts.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::{average, sum};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan, WindowFunctionDefinition, cast};
use datafusion::optimizer::AnalyzerRule;

use super::expressions::rewrite_expressions;
use crate::aggregate::exact_sum::ExactSum;
use crate::aggregate::exact_task::ExactFunction;

/// Digits that a sum of decimals has more than its values (DataFusion's `Sum::return_type`).
const SUM_DIGITS: u8 = 10;

/// The rule.
#[derive(Debug)]
pub(super) struct ExactSums;

impl AnalyzerRule for ExactSums {
    fn name(&self) -> &str {
        "exact_sums"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, |expr, schema| {
            change(expr, |function, arguments| exchange(function, arguments, schema))
        })
    }
}

/// The rule.
#[derive(Debug)]
pub(super) struct WideSums;

impl AnalyzerRule for WideSums {
    fn name(&self) -> &str {
        "wide_sums"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_widened = false;
        let plan = rewrite_expressions(plan, |expr, schema| {
            let changed = change(expr, |function, arguments| Ok(widen(function, arguments, schema)))?;
            is_widened |= changed.transformed;
            Ok(changed)
        })?;
        if !is_widened {
            return Ok(plan);
        }
        // The nodes above have the sum's type in their columns.
        let plan = plan.transform_up_with_subqueries(|plan| plan.recompute_schema().map(Transformed::yes))?;
        Ok(plan.data)
    }
}

/// `expr`, if it is an aggregate whose function and arguments `change` has changed.
fn change(
    expr: Expr,
    change: impl FnOnce(&mut Arc<AggregateUDF>, &mut [Expr]) -> Result<bool>,
) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut call) => {
            let is_changed = change(&mut call.func, &mut call.params.args)?;
            Ok(Transformed::new_transformed(Expr::AggregateFunction(call), is_changed))
        }
        Expr::WindowFunction(mut call) => {
            let is_changed = match &mut call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => change(function, &mut call.params.args)?,
                WindowFunctionDefinition::WindowUDF(_) => false,
            };
            Ok(Transformed::new_transformed(Expr::WindowFunction(call), is_changed))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

/// Exchanges the function. Returns whether it did.
fn exchange(function: &mut Arc<AggregateUDF>, arguments: &[Expr], schema: &DFSchema) -> Result<bool> {
    let [argument] = arguments else { return Ok(false) };
    let exact = if **function == *sum::sum_udaf() {
        ExactFunction::Sum
    } else if **function == *average::avg_udaf() {
        ExactFunction::Average
    } else {
        return Ok(false);
    };
    let is_sum = exact == ExactFunction::Sum;
    let wraps = match argument.get_type(schema)? {
        DataType::Duration(_) => true,
        DataType::Interval(_) => is_sum,
        DataType::Decimal128(precision, _) => is_sum && precision + SUM_DIGITS > DECIMAL128_MAX_PRECISION,
        DataType::Decimal256(precision, _) => is_sum && precision + SUM_DIGITS > DECIMAL256_MAX_PRECISION,
        _ => false,
    };
    if wraps {
        *function = Arc::new(AggregateUDF::from(ExactSum::new(exact)));
    }
    Ok(wraps)
}

/// Makes 128 bits of the argument of a sum. Returns whether it did.
fn widen(function: &Arc<AggregateUDF>, arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let [argument] = arguments else { return false };
    if **function != *sum::sum_udaf() {
        return false;
    }
    // DataFusion's error tells why an argument has no type.
    let Ok(DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale)) = argument.get_type(schema)
    else {
        return false;
    };
    *argument = cast(argument.clone(), DataType::Decimal128(precision, scale));
    true
}
