//! [`rewrite`]: the nodes of a plan and of its subqueries, from the leaves up.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::names::Names;
use super::references::{has_subqueries, is_correlated, is_lateral, outer_references, subquery_of};

/// The rewrite of one node. `is_inner`: the node is part of a correlated or LATERAL subquery, in which DataFusion plans
/// no subqueries.
type RewriteNode = fn(node: LogicalPlan, is_inner: bool, names: &Names) -> Result<LogicalPlan>;

/// The plan with `node` applied to each node that has subqueries or joins a LATERAL one. The plans of a node's
/// subqueries are rewritten before the node.
pub(super) fn rewrite(plan: LogicalPlan, is_inner: bool, names: &Names, node: RewriteNode) -> Result<LogicalPlan> {
    let mut walk = Walk {
        is_inner,
        laterals: 0,
        is_changed: false,
        names,
        node,
    };
    Ok(plan.rewrite(&mut walk)?.data)
}

struct Walk<'a> {
    is_inner: bool,
    /// LATERAL subqueries around the node.
    laterals: usize,
    is_changed: bool,
    names: &'a Names,
    node: RewriteNode,
}

impl TreeNodeRewriter for Walk<'_> {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.laterals += usize::from(matches!(plan, LogicalPlan::Subquery(_)));
        Ok(Transformed::no(plan))
    }

    fn f_up(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.laterals -= usize::from(matches!(plan, LogicalPlan::Subquery(_)));
        let is_lateral = matches!(&plan, LogicalPlan::Join(join) if is_lateral(&join.right));
        let has_subqueries = has_subqueries(&plan)?;
        self.is_changed |= is_lateral || has_subqueries;
        if !self.is_changed {
            return Ok(Transformed::no(plan));
        }
        let mut plan = plan.recompute_schema()?;
        let is_inner = self.is_inner || self.laterals > 0;
        if has_subqueries {
            plan = self.with_subqueries_rewritten(plan, is_inner)?;
        }
        match has_subqueries || is_lateral {
            true => (self.node)(plan, is_inner, self.names).map(Transformed::yes),
            false => Ok(Transformed::yes(plan)),
        }
    }
}

impl Walk<'_> {
    fn with_subqueries_rewritten(&self, plan: LogicalPlan, is_inner: bool) -> Result<LogicalPlan> {
        let rewritten = plan.map_expressions(|expr| {
            expr.transform_up(|part| match subquery_of(&part) {
                Some(subquery) => {
                    let is_inner = is_inner || is_correlated(&subquery.subquery)?;
                    let inner = rewrite(subquery.subquery.as_ref().clone(), is_inner, self.names, self.node)?;
                    of_other(part, inner).map(Transformed::yes)
                }
                None => Ok(Transformed::no(part)),
            })
        })?;
        Ok(rewritten.data)
    }
}

/// The expression with another plan as its subquery.
fn of_other(mut expr: Expr, plan: LogicalPlan) -> Result<Expr> {
    if let Expr::Exists(Exists { subquery, .. })
    | Expr::InSubquery(InSubquery { subquery, .. })
    | Expr::SetComparison(SetComparison { subquery, .. })
    | Expr::ScalarSubquery(subquery) = &mut expr
    {
        subquery.outer_ref_columns = outer_references(&plan)?;
        subquery.subquery = Arc::new(plan);
    }
    Ok(expr)
}
