//! Nodes of a plan over inputs that have more columns.

use datafusion::common::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ident};

use super::names::Names;

/// The node with its expressions rewritten by `attach`, which may give its only input more columns.
pub(in super::super) fn over_more_columns(
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
pub(in super::super) fn with_columns(
    plan: LogicalPlan,
    values: Vec<Expr>,
    names: &Names,
) -> Result<(LogicalPlan, Vec<Expr>)> {
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
