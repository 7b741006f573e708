//! Subqueries that DataFusion plans rightly.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, LogicalPlan, Operator};

use super::references::{has_subqueries, is_correlated, is_lateral, is_of, outer_references};

/// Whether a subquery of `EXISTS` and `IN` is one, in a WHERE or HAVING.
///
/// DataFusion joins it by its conditions on columns of the outer query. It does not see that an aggregation without
/// rows has one, and that OFFSET and LIMIT decide whether rows exist. It confuses columns of both queries that have one
/// name, and those of nested subqueries.
pub(super) fn is_simple(subquery: &LogicalPlan) -> Result<bool> {
    let references = outer_references(subquery)?;
    if references.is_empty() {
        return Ok(true);
    }
    let mut has_others = false;
    subquery.apply_with_subqueries(|node| {
        let is_hidden = references.iter().any(|reference| is_of(reference, node.schema()));
        has_others |= is_hidden || matches!(node, LogicalPlan::Limit(_)) || has_subqueries(node)?;
        Ok(match has_others {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(!has_others && has_pulled_conditions(subquery, true)?)
}

/// Whether only filters name columns of outer queries, and only operators that keep rows and names as they are stand
/// above them.
fn has_pulled_conditions(plan: &LogicalPlan, is_set: bool) -> Result<bool> {
    if !is_correlated(plan)? {
        return Ok(true);
    }
    match plan {
        LogicalPlan::Filter(filter) => has_pulled_conditions(&filter.input, is_set),
        LogicalPlan::Join(join) if is_lateral(&join.left) || is_lateral(&join.right) => Ok(false),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && !plan.contains_outer_reference() => {
            Ok(has_pulled_conditions(&join.left, is_set)? && has_pulled_conditions(&join.right, is_set)?)
        }
        LogicalPlan::Projection(projection) if !plan.contains_outer_reference() => {
            has_pulled_conditions(&projection.input, is_set)
        }
        LogicalPlan::Distinct(Distinct::All(input)) if is_set => has_pulled_conditions(input, is_set),
        _ => Ok(false),
    }
}

/// Whether a scalar subquery is one, in a SELECT list, WHERE or HAVING: an aggregation of all rows whose columns equal
/// those of the outer query.
pub(super) fn is_simple_scalar(subquery: &LogicalPlan) -> Result<bool> {
    let references = outer_references(subquery)?;
    let mut has_others = false;
    subquery.apply_with_subqueries(|node| {
        let is_hidden = references.iter().any(|reference| is_of(reference, node.schema()));
        has_others |= is_hidden || !node.all_out_ref_exprs().is_empty() && !has_equalities(node);
        Ok(TreeNodeRecursion::Continue)
    })?;
    let mut plan = subquery;
    while let LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) = plan {
        if plan.contains_outer_reference() || plan.expressions().iter().any(Expr::is_volatile) {
            return Ok(false);
        }
        plan = plan.inputs()[0];
    }
    match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() && !plan.contains_outer_reference() => {
            Ok(!has_others && has_pulled_conditions(&aggregate.input, false)?)
        }
        _ => Ok(false),
    }
}

/// Whether the conditions of a node on columns of outer queries are `column = reference`.
fn has_equalities(node: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = node else {
        return !node.contains_outer_reference();
    };
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(Column { .. }));
    let is_reference = |expr: &Expr| matches!(expr, Expr::OuterReferenceColumn(..));
    split_conjunction(&filter.predicate)
        .into_iter()
        .filter(|condition| condition.contains_outer())
        .all(|condition| match condition {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::Eq,
                right,
            }) => is_column(left) && is_reference(right) || is_reference(left) && is_column(right),
            _ => false,
        })
}
