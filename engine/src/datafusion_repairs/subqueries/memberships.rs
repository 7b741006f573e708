//! [`Memberships`]: `IN`, `ANY` and `ALL` of subqueries as `EXISTS`.
//!
//! DataFusion knows `x IN (SELECT v …)` only where its truth decides whether a row stays, and forgets there that a
//! comparison with NULL is unknown: if the left side has no column, the subquery names columns of the outer query, or
//! the condition is part of an OR. The rule writes it with three answers:
//!
//! ```sql
//! CASE WHEN EXISTS (SELECT … WHERE v = x) THEN true
//!      WHEN EXISTS (SELECT … WHERE v IS NULL) OR (x IS NULL AND EXISTS (SELECT …)) THEN NULL
//!      ELSE false END
//! ```
//!
//! `x > ANY (SELECT v …)` differs in the comparison, and `ALL` is the negation of `ANY` with the opposite comparison.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Subquery, binary_expr, lit, not, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::names::Names;
use super::places::{has_place, over_more_columns, with_columns};
use super::references::{as_outer, has_subquery, is_correlated, outer_references};
use super::simple::is_simple;
use super::walk::rewrite;
use crate::plan_rewrites::compares;

/// The rule.
#[derive(Debug)]
pub(in super::super) struct Memberships;

impl AnalyzerRule for Memberships {
    fn name(&self) -> &str {
        "memberships"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !super::has_any(&plan)? {
            return Ok(plan);
        }
        let names = Names::beside(&plan)?;
        rewrite(plan, false, &names, rewrite_node)
    }
}

fn rewrite_node(plan: LogicalPlan, is_inner: bool, names: &Names) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Filter(filter) if !is_inner => {
            let schema = Arc::clone(filter.input.schema());
            over_more_columns(LogicalPlan::Filter(filter), |input, expr| {
                condition(input, expr, Place::Conjunct, &schema, names)
            })
        }
        plan if has_place(&plan) => {
            let schema = Arc::clone(plan.inputs()[0].schema());
            over_more_columns(plan, |input, expr| memberships(input, expr, &schema, names))
        }
        plan => {
            let schema = merge_schema(&plan.inputs());
            let rewritten = plan.map_expressions(|expr| {
                expr.transform_up(|part| match Membership::of(&part) {
                    Some(membership) if !membership.is_hard() => membership.rewritten(&schema).map(Transformed::yes),
                    _ => Ok(Transformed::no(part)),
                })
            })?;
            Ok(rewritten.data)
        }
    }
}

/// Where a condition stands in a WHERE or HAVING.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// It is one of the conditions that all must hold.
    Conjunct,
    /// It is part of an OR. Only its truth matters too.
    Part,
}

fn condition(
    input: LogicalPlan,
    expr: Expr,
    place: Place,
    outer: &DFSchema,
    names: &Names,
) -> Result<(LogicalPlan, Expr)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
            let place = if op == Operator::Or { Place::Part } else { place };
            let (input, left) = condition(input, *left, place, outer, names)?;
            let (input, right) = condition(input, *right, place, outer, names)?;
            Ok((input, binary_expr(left, op, right)))
        }
        Expr::Not(inner) if matches!(&*inner, Expr::InSubquery(InSubquery { negated: false, .. })) => {
            let Expr::InSubquery(membership) = *inner else {
                return Ok((input, Expr::Not(inner)));
            };
            let negated = Expr::InSubquery(InSubquery {
                negated: true,
                ..membership
            });
            condition(input, negated, place, outer, names)
        }
        Expr::InSubquery(membership) if is_known(&membership, place, outer)? => {
            Ok((input, Expr::InSubquery(membership)))
        }
        expr => match Membership::of(&expr) {
            Some(membership) if !membership.is_hard() => Ok((input, membership.holds(outer)?)),
            _ => memberships(input, expr, outer, names),
        },
    }
}

/// Whether DataFusion plans the condition rightly at its place.
fn is_known(membership: &InSubquery, place: Place, outer: &DFSchema) -> Result<bool> {
    let InSubquery {
        expr,
        subquery,
        negated,
    } = membership;
    if has_subquery(expr) || expr.is_volatile() || !is_simple(&subquery.subquery)? {
        return Ok(false);
    }
    let is_correlated = is_correlated(&subquery.subquery)?;
    // DataFusion casts the column of the subquery, and the cast has its name. A condition may name the column too.
    let listed = subquery.subquery.schema().field(0);
    if is_correlated && expr.get_type(outer)? != *listed.data_type() {
        return Ok(false);
    }
    let is_unknown_kept = place == Place::Part || expr.column_refs().is_empty() || is_correlated;
    Ok(!negated || !is_unknown_kept)
}

/// The expression without `IN`, `ANY` and `ALL` of subqueries. The input gets a column for a left side that must be
/// evaluated once.
fn memberships(input: LogicalPlan, expr: Expr, outer: &DFSchema, names: &Names) -> Result<(LogicalPlan, Expr)> {
    let mut input = input;
    let rewritten = expr.transform_up(|part| {
        let Some(mut membership) = Membership::of(&part) else {
            return Ok(Transformed::no(part));
        };
        let mut schema = outer.clone();
        if membership.is_hard() {
            let (more, values) = with_columns(input.clone(), vec![membership.value], names)?;
            input = more;
            membership.value = values[0].clone();
            schema = input.schema().as_ref().clone();
        }
        membership.rewritten(&schema).map(Transformed::yes)
    })?;
    Ok((input, rewritten.data))
}

/// `value op ANY (subquery)`.
struct Membership {
    value: Expr,
    op: Operator,
    subquery: Subquery,
    is_negated: bool,
}

impl Membership {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => Some(Self {
                value: expr.as_ref().clone(),
                op: Operator::Eq,
                subquery: subquery.clone(),
                is_negated: *negated,
            }),
            Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op,
                quantifier,
            }) if compares(*op) => {
                let is_negated = *quantifier == SetQuantifier::All;
                Some(Self {
                    value: expr.as_ref().clone(),
                    op: if is_negated { op.negate()? } else { *op },
                    subquery: subquery.clone(),
                    is_negated,
                })
            }
            _ => None,
        }
    }

    /// Whether the left side cannot stand within the subquery.
    fn is_hard(&self) -> bool {
        self.value.is_volatile() || has_subquery(&self.value)
    }

    /// The condition where false and unknown are the same.
    fn holds(self, outer: &DFSchema) -> Result<Expr> {
        let Some((_, listed)) = self.subquery.subquery.schema().iter().next() else {
            return plan_err!("a subquery beside IN, ANY or ALL has no column");
        };
        let is_null_safe = matches!(self.op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        let may_be_null = !is_null_safe && (listed.is_nullable() || self.value.nullable(outer)?);
        if self.is_negated && may_be_null && !is_correlated(&self.subquery.subquery)? {
            return self.rewritten(outer);
        }
        let listed = Expr::Column(Column::from(self.subquery.subquery.schema().qualified_field(0)));
        let value = as_outer(self.value, outer)?;
        let mut condition = binary_expr(value.clone(), self.op, listed.clone());
        if self.is_negated && may_be_null {
            condition = condition.or(listed.is_null()).or(value.is_null());
        }
        let found = exists(&self.subquery, Some(condition))?;
        Ok(if self.is_negated { not(found) } else { found })
    }

    fn rewritten(self, outer: &DFSchema) -> Result<Expr> {
        let Self {
            value,
            op,
            subquery,
            is_negated,
        } = self;
        let may_be_null = value.nullable(outer)?;
        let listed = subquery.subquery.schema().qualified_field(0);
        let is_listed_null = listed.1.is_nullable();
        let listed = Expr::Column(Column::from(listed));
        let outer_value = as_outer(value.clone(), outer)?;
        let found = exists(&subquery, Some(binary_expr(outer_value, op, listed.clone())))?;
        let mut unknown = Vec::new();
        let is_null_safe = matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom);
        if is_listed_null && !is_null_safe {
            unknown.push(exists(&subquery, Some(listed.is_null()))?);
        }
        if may_be_null && !is_null_safe {
            unknown.push(value.is_null().and(exists(&subquery, None)?));
        }
        Ok(match unknown.into_iter().reduce(Expr::or) {
            None if is_negated => not(found),
            None => found,
            Some(unknown) => when(found, lit(!is_negated))
                .when(unknown, lit(ScalarValue::Boolean(None)))
                .otherwise(lit(is_negated))?,
        })
    }
}

/// Whether the subquery has rows that satisfy the condition.
fn exists(subquery: &Subquery, condition: Option<Expr>) -> Result<Expr> {
    let plan = match condition {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::clone(&subquery.subquery))?),
        None => subquery.subquery.as_ref().clone(),
    };
    let outer_ref_columns = outer_references(&plan)?;
    Ok(Expr::Exists(Exists {
        subquery: Subquery {
            subquery: Arc::new(plan),
            outer_ref_columns,
            spans: subquery.spans.clone(),
        },
        negated: false,
    }))
}
