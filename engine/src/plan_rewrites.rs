//! Rewrites of comparisons in logical plans, which analyzer rules share.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};

/// A rewrite of the operands of one comparison. Returns whether it changed an operand.
pub(crate) type Rewrite = fn(operands: &mut [&mut Expr], schema: &DFSchema) -> Result<bool>;

/// `plan`, with `rewrite` applied to each comparison of a plan node whose inputs' columns are `relevant`. The names of
/// columns stay.
pub(crate) fn rewrite_comparisons(
    plan: LogicalPlan,
    relevant: fn(&DFSchema) -> bool,
    rewrite: Rewrite,
) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|plan| {
        let schema = merge_schema(&plan.inputs());
        if !relevant(&schema) {
            return Ok(Transformed::no(plan));
        }
        rewrite_expressions(plan, &|mut expr| {
            let is_changed = match operands(&mut expr) {
                Some(mut operands) => rewrite(&mut operands, &schema)?,
                None => false,
            };
            Ok(Transformed::new_transformed(expr, is_changed))
        })
    })?;
    Ok(rewritten.data)
}

/// One plan node, with `rewrite` applied to each of its expressions, from the leaves up. The names of columns stay.
pub(crate) fn rewrite_expressions(
    plan: LogicalPlan,
    rewrite: &dyn Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(rewrite)?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    match rewritten.transformed {
        true => rewritten.map_data(LogicalPlan::recompute_schema),
        false => Ok(rewritten),
    }
}

/// The operands of a comparison, `IN` and `BETWEEN`.
fn operands(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => Some(vec![&mut binary.left, &mut binary.right]),
        Expr::InList(list) => Some(std::iter::once(&mut *list.expr).chain(&mut list.list).collect()),
        Expr::Between(between) => Some(vec![&mut between.expr, &mut between.low, &mut between.high]),
        _ => None,
    }
}

/// Whether an operator compares two values.
pub(crate) fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(
        op,
        Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom
    )
}
