//! `FloatLiterals`: an analyzer rule that leaves one zero in comparisons with constants, IN lists, CASE and NULLIF.
//!
//! DataFusion merges and evaluates comparisons while it makes the plan, and takes literals for equal if their bits are.
//! So `-0.0` becomes `0.0` in comparisons, BETWEEN, IN lists and CASE, and expressions that are not plain constants
//! lose the sign of their zeros where DataFusion looks them up by their bits.
//! [`FloatKeys`](super::float_keys::FloatKeys) does the rest.

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::functions::core::nullif::NullIfFunc;
use datafusion::logical_expr::expr::{Case, InList};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::zeros::{constant, drop_sign, float_type, give_one_zero, is_zero};
use crate::plan_rewrites::{rewrite_comparisons, rewrite_expressions};

/// The rule.
#[derive(Debug)]
pub(crate) struct FloatLiterals;

impl AnalyzerRule for FloatLiterals {
    fn name(&self) -> &str {
        "float_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_comparisons(
            plan,
            |_| true,
            |operands, _| {
                let changed = operands
                    .iter_mut()
                    .filter_map(|operand| drop_sign(operand).then_some(()));
                Ok(changed.count() > 0)
            },
        )?;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let schema = merge_schema(&plan.inputs());
            rewrite_expressions(plan, &|expr| Ok(with_one_zero(expr, &schema)))
        })?;
        Ok(rewritten.data)
    }
}

/// An IN list or CASE over floats without `-0.0`, as far as literals alone do not decide it.
pub(super) fn with_one_zero(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::InList(mut list) => {
            let is_changed = !is_plain(&list) && unsign_list(&mut list, schema);
            Transformed::new_transformed(Expr::InList(list), is_changed)
        }
        Expr::Case(mut case) => {
            let is_changed = unsign_case(&mut case, schema);
            Transformed::new_transformed(Expr::Case(case), is_changed)
        }
        Expr::ScalarFunction(mut call) => {
            let is_changed = call.func.inner().is::<NullIfFunc>() && unsign_nullif(&mut call.args, schema);
            Transformed::new_transformed(Expr::ScalarFunction(call), is_changed)
        }
        expr => Transformed::no(expr),
    }
}

/// `nullif(x, y)` compares bits. Beside another constant than a zero, it need not change.
fn unsign_nullif(args: &mut [Expr], schema: &DFSchema) -> bool {
    let [value, other] = args else { return false };
    let Some(float) = float_type(value, schema) else {
        return false;
    };
    if constant(other).is_some_and(|other| !is_zero(&other)) {
        return false;
    }
    give_one_zero(value, &float) | (float_type(other, schema).is_some() && give_one_zero(other, &float))
}

/// True for columns in a list of constants.
pub(super) fn is_plain(list: &InList) -> bool {
    let is_constant =
        |expr: &Expr| constant(expr).is_some() || matches!(expr, Expr::Literal(value, _) if value.is_null());
    list.expr.any_column_refs() && list.list.iter().all(is_constant)
}

fn unsign_list(list: &mut InList, schema: &DFSchema) -> bool {
    let Some(float) = float_type(&list.expr, schema) else {
        return false;
    };
    let mut is_changed = give_one_zero(&mut list.expr, &float);
    for item in &mut list.list {
        if float_type(item, schema).as_ref() == Some(&float) {
            is_changed |= give_one_zero(item, &float);
        }
    }
    is_changed
}

/// `CASE x WHEN 0.0 THEN …`: DataFusion looks `x` up among the literals by its bits.
fn unsign_case(case: &mut Case, schema: &DFSchema) -> bool {
    let Some(base) = &mut case.expr else {
        return false;
    };
    let Some(float) = float_type(base, schema) else {
        return false;
    };
    let mut is_changed = give_one_zero(base, &float);
    for (when, _) in &mut case.when_then_expr {
        if float_type(when, schema).as_ref() == Some(&float) {
            is_changed |= give_one_zero(when, &float);
        }
    }
    is_changed
}
