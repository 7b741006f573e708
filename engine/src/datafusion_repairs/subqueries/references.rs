//! References of subqueries to the columns of outer queries.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Subquery, SubqueryAlias};

use super::super::expressions::columns_of;

/// The subquery of `EXISTS`, `IN`, `ANY` and `ALL`, or of a scalar subquery.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Whether a subquery is part of the expression.
pub(super) fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|part| Ok(subquery_of(part).is_some())).unwrap_or(false)
}

/// Whether a subquery is part of an expression of this node.
pub(super) fn has_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= has_subquery(expr);
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// The references of `plan` to columns of outer queries, also in its own subqueries.
pub(super) fn outer_references(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    let mut add = |reference: Expr| {
        if !found.contains(&reference) {
            found.push(reference);
        }
    };
    for input in plan.inputs() {
        let is_lateral = is_lateral(input);
        for reference in outer_references(input)? {
            match plan {
                LogicalPlan::Join(join) if is_lateral && is_of(&reference, join.left.schema()) => {}
                _ => add(reference),
            }
        }
    }
    let columns = match has_subqueries(plan)? {
        true => columns_of(plan)?,
        false => DFSchema::empty(),
    };
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::OuterReferenceColumn(..) = part {
                add(part.clone());
            } else if let Some(subquery) = subquery_of(part) {
                let named = outer_references(&subquery.subquery)?;
                named
                    .into_iter()
                    .filter(|reference| !is_of(reference, &columns))
                    .for_each(&mut add);
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Whether a reference is to a column of `schema`.
pub(super) fn is_of(reference: &Expr, schema: &DFSchema) -> bool {
    matches!(reference, Expr::OuterReferenceColumn(_, column) if schema.has_column(column))
}

pub(super) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    Ok(!outer_references(plan)?.is_empty())
}

/// Whether a join's side is LATERAL.
pub(super) fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Subquery(_) => true,
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => is_lateral(input),
        _ => false,
    }
}

/// The expression, in which references to columns of `inner` are those columns.
pub(super) fn resolved(expr: Expr, inner: &DFSchema) -> Result<Expr> {
    let resolved = expr.transform_up(|part| match part {
        Expr::OuterReferenceColumn(field, column) if inner.has_column(&column) => {
            let found = Expr::Column(Column::from(inner.qualified_field_from_column(&column)?));
            // DataFusion's casts may have given the column another type since.
            found.cast_to(field.data_type(), inner).map(Transformed::yes)
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(resolved.data)
}

/// The expression, in which columns of `schema` are the expressions at their places in `values`.
pub(super) fn substituted(expr: Expr, schema: &DFSchema, values: &[Expr]) -> Result<Expr> {
    let substituted = expr.transform_up(|part| match part {
        Expr::Column(column) => {
            let value = values[schema.index_of_column(&column)?].clone();
            Ok(Transformed::yes(value))
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(substituted.data)
}

/// The expression as one of an inner query, which names `outer`'s columns as those of the outer query.
pub(super) fn as_outer(expr: Expr, outer: &DFSchema) -> Result<Expr> {
    let referring = expr.transform_up(|part| match part {
        Expr::Column(column) => {
            let (_, field) = outer.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), column)))
        }
        part => Ok(Transformed::no(part)),
    })?;
    Ok(referring.data)
}
