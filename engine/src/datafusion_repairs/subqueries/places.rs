//! Nodes of a plan over inputs that have more columns.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRewriter};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};

use super::names::Names;
use super::references::{has_subqueries, is_lateral};

/// The node with its expressions rewritten by `attach`, which may give its only input more columns.
pub(super) fn over_more_columns(
    node: LogicalPlan,
    mut attach: impl FnMut(LogicalPlan, Expr) -> Result<(LogicalPlan, Expr)>,
) -> Result<LogicalPlan> {
    let names = NamePreserver::new(&node);
    let columns = node.schema().columns();
    let mut input = node.inputs()[0].clone();
    let mut expressions = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let (more, expr) = attach(input, expr)?;
        expressions.push(name.restore(expr));
        input = more;
    }
    let node = node.with_new_exprs(expressions, vec![input])?;
    match node.schema().fields().len() == columns.len() {
        true => Ok(node),
        false => only(node, columns.into_iter().map(Expr::Column).collect()),
    }
}

/// The columns of a plan that are given.
pub(super) fn only(plan: LogicalPlan, columns: Vec<Expr>) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// `plan` with more columns, and these.
pub(super) fn with_columns(plan: LogicalPlan, values: Vec<Expr>, names: &Names) -> Result<(LogicalPlan, Vec<Expr>)> {
    let fresh: Vec<String> = values.iter().map(|_| names.fresh()).collect();
    let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    columns.extend(values.into_iter().zip(&fresh).map(|(value, name)| value.alias(name)));
    Ok((only(plan, columns)?, fresh.into_iter().map(ident).collect()))
}

/// Whether the node has one input, to which columns can be added.
pub(super) fn has_place(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Sort(_)
    )
}

/// The plan with each node rewritten, from the leaves up. `rewrite` learns whether a node is part of a LATERAL
/// subquery.
pub(super) fn rewrite_nodes(
    plan: LogicalPlan,
    rewrite: impl FnMut(LogicalPlan, bool) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let mut walk = Walk {
        laterals: 0,
        is_changed: false,
        rewrite,
    };
    Ok(plan.rewrite(&mut walk)?.data)
}

struct Walk<F> {
    /// LATERAL subqueries around the node.
    laterals: usize,
    is_changed: bool,
    rewrite: F,
}

impl<F: FnMut(LogicalPlan, bool) -> Result<LogicalPlan>> TreeNodeRewriter for Walk<F> {
    type Node = LogicalPlan;

    fn f_down(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.laterals += usize::from(matches!(plan, LogicalPlan::Subquery(_)));
        Ok(Transformed::no(plan))
    }

    fn f_up(&mut self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        self.laterals -= usize::from(matches!(plan, LogicalPlan::Subquery(_)));
        let is_lateral = matches!(&plan, LogicalPlan::Join(join) if is_lateral(&join.right));
        self.is_changed |= is_lateral || has_subqueries(&plan)?;
        match self.is_changed {
            true => {
                let plan = plan.recompute_schema()?;
                (self.rewrite)(plan, self.laterals > 0).map(Transformed::yes)
            }
            false => Ok(Transformed::no(plan)),
        }
    }
}
