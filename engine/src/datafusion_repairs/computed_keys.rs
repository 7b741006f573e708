//! [`ComputedKeys`]: conditions in keys of an order are columns (apache/datafusion#18327).
//!
//! DataFusion derives the order of an expression from the ranges of its parts. A condition over a value without a known
//! range, as in `ORDER BY abs(x) > 1 OR y`, makes that fail. DataFusion then forgets that the rows are sorted by this
//! very expression, sorts them again, and refuses its own plan. The rule computes such keys before the sort: their
//! order is that of a column.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{AggregateFunction, Sort as SortKey, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::AnalyzerRule;

use super::subqueries::names::Names;
use super::subqueries::places::{over_more_columns, with_columns};

/// The rule.
#[derive(Debug)]
pub(super) struct ComputedKeys;

impl AnalyzerRule for ComputedKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = Names::beside(&plan)?;
        let rewritten = plan.transform_up_with_subqueries(|node| match has_conditions_in_keys(&node)? {
            true => with_computed_keys(node, &names).map(Transformed::yes),
            false => Ok(Transformed::no(node)),
        })?;
        match rewritten.transformed {
            true => rewritten.data.recompute_schema(),
            false => Ok(rewritten.data),
        }
    }

    fn name(&self) -> &'static str {
        "computed_keys"
    }
}

fn has_conditions_in_keys(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    if has_keys(node) {
        for mut expr in node.expressions() {
            for key in keys(node, &mut expr) {
                found |= has_condition(key)?;
            }
        }
    }
    Ok(found)
}

fn with_computed_keys(node: LogicalPlan, names: &Names) -> Result<LogicalPlan> {
    let shape = node.clone();
    over_more_columns(node, |mut input, mut expr| {
        for key in keys(&shape, &mut expr) {
            if has_condition(key)? {
                let (more, columns) = with_columns(input, vec![key.clone()], names)?;
                input = more;
                columns.into_iter().for_each(|column| *key = column);
            }
        }
        Ok((input, expr))
    })
}

fn has_keys(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Sort(_) | LogicalPlan::Window(_) | LogicalPlan::Aggregate(_)
    )
}

/// The keys by which the node's input is sorted for one of its expressions.
fn keys<'a>(node: &LogicalPlan, expr: &'a mut Expr) -> Vec<&'a mut Expr> {
    match (node, expr) {
        (LogicalPlan::Sort(_), expr) => vec![expr],
        (node, Expr::Alias(alias)) => keys(node, &mut alias.expr),
        (_, Expr::WindowFunction(function)) => {
            let WindowFunction { params, .. } = function.as_mut();
            let order = params.order_by.iter_mut().map(|SortKey { expr, .. }| expr);
            params.partition_by.iter_mut().chain(order).collect()
        }
        (_, Expr::AggregateFunction(AggregateFunction { params, .. })) => {
            params.order_by.iter_mut().map(|SortKey { expr, .. }| expr).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether the key is computed from a condition.
fn has_condition(key: &Expr) -> Result<bool> {
    let (mut found, mut is_root) = (false, true);
    key.apply(|part| {
        found |= match part {
            Expr::Between(_) => true,
            Expr::BinaryExpr(binary) => !is_root && is_condition(binary.op),
            _ => false,
        };
        is_root = false;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

fn is_condition(operator: Operator) -> bool {
    use Operator::{And, Gt, GtEq, Lt, LtEq, Or};
    matches!(operator, And | Or | Lt | LtEq | Gt | GtEq)
}
