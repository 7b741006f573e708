//! [`NotIn`]: `NOT IN (SELECT …)` beside NULLs.
//!
//! DataFusion forgets that a comparison with NULL is unknown, if the left side has no column, the subquery names
//! columns of the outer query, or the condition is part of an OR. The rule makes of these `x NOT IN (SELECT v …)`
//!
//! ```sql
//! NOT EXISTS (SELECT … WHERE v = x OR v IS NULL OR x IS NULL)
//! ```
//!
//! which is false where the other is false or unknown. In a WHERE and HAVING, below AND and OR, the two are the same.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::AnalyzerRule;

/// The rule.
#[derive(Debug)]
pub(super) struct NotIn;

impl AnalyzerRule for NotIn {
    fn name(&self) -> &str {
        "not_in"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Filter(Filter { predicate, input, .. }) => {
                let rewritten = condition(predicate, false, input.schema())?;
                let is_changed = rewritten.transformed;
                let filter = LogicalPlan::Filter(Filter::try_new(rewritten.data, input)?);
                Ok(Transformed::new_transformed(filter, is_changed))
            }
            plan => Ok(Transformed::no(plan)),
        })?;
        Ok(rewritten.data)
    }
}

/// A condition of which only the truth matters. `is_part`: it is part of an OR.
fn condition(expr: Expr, is_part: bool, outer: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
            let is_part = is_part || op == Operator::Or;
            let left = condition(*left, is_part, outer)?;
            let right = condition(*right, is_part, outer)?;
            let is_changed = left.transformed || right.transformed;
            let both = BinaryExpr::new(Box::new(left.data), op, Box::new(right.data));
            Ok(Transformed::new_transformed(Expr::BinaryExpr(both), is_changed))
        }
        Expr::InSubquery(membership) if membership.negated => not_in(membership, is_part, outer),
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(membership) if !membership.negated => {
                let negated = InSubquery {
                    negated: true,
                    ..membership
                };
                not_in(negated, is_part, outer)
            }
            inner => Ok(Transformed::no(Expr::Not(Box::new(inner)))),
        },
        expr => Ok(Transformed::no(expr)),
    }
}

fn not_in(membership: InSubquery, is_part: bool, outer: &DFSchema) -> Result<Transformed<Expr>> {
    let value = &membership.expr;
    let is_correlated = !membership.subquery.outer_ref_columns.is_empty();
    let is_wrong = is_part || is_correlated || value.column_refs().is_empty();
    let is_simple = !value.is_volatile()
        && !value.exists(|part| {
            let is_other = matches!(
                part,
                Expr::OuterReferenceColumn(..) | Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
            );
            Ok(is_other)
        })?;
    if !is_wrong || !is_simple {
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    }
    let InSubquery { expr, subquery, .. } = membership;
    let may_be_null = expr.nullable(outer)?;
    let mut outer_columns = subquery.outer_ref_columns;
    let value = expr.transform(|part| match part {
        Expr::Column(column) => {
            let field = outer.qualified_field_from_column(&column)?.1;
            let reference = Expr::OuterReferenceColumn(Arc::clone(field), column);
            outer_columns.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        part => Ok(Transformed::no(part)),
    })?;
    let value = value.data;
    let listed = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let mut is_found = listed.clone().eq(value.clone()).or(listed.is_null());
    if may_be_null {
        is_found = is_found.or(value.is_null());
    }
    let found = LogicalPlan::Filter(Filter::try_new(is_found, subquery.subquery)?);
    let exists = Exists {
        subquery: Subquery {
            subquery: Arc::new(found),
            outer_ref_columns: outer_columns,
            spans: subquery.spans,
        },
        negated: true,
    };
    Ok(Transformed::yes(Expr::Exists(exists)))
}
