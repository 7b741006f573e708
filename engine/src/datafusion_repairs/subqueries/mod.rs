//! Subqueries in expressions, wherever SQL allows them.
//!
//! DataFusion plans `EXISTS` and `IN` in a WHERE and HAVING, and scalar subqueries that name columns of the outer query
//! only if they aggregate rows by equality. [`Memberships`] makes `EXISTS` of `IN`, `ANY` and `ALL`. [`Subqueries`]
//! joins each `EXISTS` and scalar subquery that DataFusion does not plan, or plans wrongly, to the input of the node
//! that has it. The input keeps its rows and gets a column.
//!
//! ```text
//! names        names of the columns
//! references   columns of outer queries
//! simple       which subqueries DataFusion plans rightly
//! pulled       a subquery as a plan and conditions, for one join
//! unnested     lists as rows
//! carried      any other subquery: the outer rows pass through its operators
//! one_row      the error of a scalar subquery's second row
//! attached     EXISTS and scalar subqueries as columns
//! places       nodes over inputs that have more columns
//! walk         the nodes of a plan and of its subqueries, one after the other
//! memberships  IN, ANY and ALL
//! ```

mod attached;
mod carried;
mod memberships;
pub(super) mod names;
mod one_row;
pub(super) mod places;
mod pulled;
mod references;
mod simple;
mod unnested;
mod walk;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinType, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, Sort as SortExpr};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Sort, Subquery, SubqueryAlias, WriteOp, ident, lit, not,
};
use datafusion::optimizer::AnalyzerRule;

pub(super) use memberships::Memberships;
use names::Names;
use places::{has_place, only, over_more_columns, with_columns};
use references::{has_subqueries, has_subquery, is_correlated, is_lateral, is_of, outer_references, subquery_of};
use simple::{is_simple, is_simple_scalar};
use walk::rewrite;

/// Whether an expression of the plan has a subquery, or a subquery is LATERAL.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= matches!(node, LogicalPlan::Subquery(_)) || has_subqueries(node)?;
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// The rule.
#[derive(Debug)]
pub(crate) struct Subqueries;

impl AnalyzerRule for Subqueries {
    fn name(&self) -> &str {
        "subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        refuse_changed_rows(&plan)?;
        let names = Names::beside(&plan)?;
        let plan = rewrite(plan, false, &names, rewrite_node)?;
        match outer_references(&plan)?.first() {
            Some(Expr::OuterReferenceColumn(_, column)) => not_impl_err!(
                "a subquery names {column} where the outer query has no such column: SELECT it there, or write a join"
            ),
            _ => Ok(plan),
        }
    }
}

/// DataFusion takes the conditions of UPDATE and DELETE from filters, and changes all rows if they are joins instead.
fn refuse_changed_rows(plan: &LogicalPlan) -> Result<()> {
    match plan {
        LogicalPlan::Dml(statement) if matches!(statement.op, WriteOp::Update | WriteOp::Delete) => not_impl_err!(
            "{} of {} with a subquery: write its values as a list, or INSERT OVERWRITE the table with a SELECT",
            statement.op.name().to_uppercase(),
            statement.table_name
        ),
        _ => Ok(()),
    }
}

fn rewrite_node(plan: LogicalPlan, is_inner: bool, names: &Names) -> Result<LogicalPlan> {
    let plan = match plan {
        LogicalPlan::Join(join) if is_lateral(&join.right) => laterally_joined(join, is_inner, names)?,
        plan => plan,
    };
    if !has_subqueries(&plan)? {
        return Ok(plan);
    }
    match plan {
        LogicalPlan::Filter(filter) => filtered(filter, is_inner, names),
        LogicalPlan::Join(join) => joined(join, is_inner, names),
        LogicalPlan::Sort(sort) => sorted(sort, names),
        LogicalPlan::Projection(projection) => {
            let stays = |expr: &Expr, input: &LogicalPlan| match expr {
                Expr::ScalarSubquery(subquery) if !is_inner => {
                    Ok(is_simple_scalar(&subquery.subquery)? && has_all_columns(input, &subquery.subquery)?)
                }
                _ => Ok(false),
            };
            over_more_columns(LogicalPlan::Projection(projection), |input, expr| {
                attached(input, expr, &stays, names)
            })
        }
        plan if has_place(&plan) => over_more_columns(plan, |input, expr| attached_as_columns(input, expr, names)),
        plan => Ok(plan),
    }
}

fn laterally_joined(join: Join, is_inner: bool, names: &Names) -> Result<LogicalPlan> {
    let mut subquery = join.right.as_ref();
    while let LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) = subquery {
        subquery = input;
    }
    let LogicalPlan::Subquery(Subquery { subquery, .. }) = subquery else {
        return Ok(LogicalPlan::Join(join));
    };
    let is_known = !is_inner && (is_simple(subquery)? || is_simple_scalar(subquery)?);
    let mut conditions = pulled::join_conditions(&join);
    conditions.retain(|condition| *condition != lit(true));
    let is_supported =
        matches!(join.join_type, JoinType::Inner | JoinType::Left) && !conditions.iter().any(has_subquery);
    if is_known || !is_supported {
        return Ok(LogicalPlan::Join(join));
    }
    attached::lateral(join.left.as_ref().clone(), subquery, conditions, &join, names)
}

/// Whether a subquery's references are to columns of `outer`.
fn has_all_columns(outer: &LogicalPlan, subquery: &LogicalPlan) -> Result<bool> {
    let references = outer_references(subquery)?;
    Ok(references.iter().all(|reference| is_of(reference, outer.schema())))
}

/// The input with a column for each subquery of the expression that `stays` does not leave, and the expression of them.
fn attached(
    input: LogicalPlan,
    expr: Expr,
    stays: &dyn Fn(&Expr, &LogicalPlan) -> Result<bool>,
    names: &Names,
) -> Result<(LogicalPlan, Expr)> {
    let mut input = input;
    let attached = expr.transform_down(|part| {
        let Some(subquery) = subquery_of(&part) else {
            return Ok(Transformed::no(part));
        };
        let (plan, is_correlated) = (Arc::clone(&subquery.subquery), is_correlated(&subquery.subquery)?);
        if stays(&part, &input)? {
            return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
        }
        let (more, value) = match &part {
            Expr::Exists(Exists { negated, .. }) => {
                let (more, found) = attached::exists(input.clone(), &plan, names)?;
                (more, if *negated { not(found) } else { found })
            }
            Expr::ScalarSubquery(_) if is_correlated => attached::scalar(input.clone(), &plan, names)?,
            Expr::ScalarSubquery(_) => return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump)),
            other => return not_impl_err!("{other} here: write EXISTS (SELECT … WHERE …)"),
        };
        input = more;
        Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
    })?;
    Ok((input, attached.data))
}

/// As `attached`, for keys of sorts, windows and groups: DataFusion does not see that two keys with the same subquery
/// are equal, so each subquery is a column.
fn attached_as_columns(input: LogicalPlan, expr: Expr, names: &Names) -> Result<(LogicalPlan, Expr)> {
    let mut input = input;
    let attached = expr.transform_down(|part| {
        if subquery_of(&part).is_none() {
            return Ok(Transformed::no(part));
        }
        let (more, value) = attached(input.clone(), part, &|_, _| Ok(false), names)?;
        let (more, values) = with_columns(more, vec![value], names)?;
        input = more;
        Ok(Transformed::new(values[0].clone(), true, TreeNodeRecursion::Jump))
    })?;
    Ok((input, attached.data))
}

/// A sort whose subqueries may name columns that the SELECT list below has not.
fn sorted(sort: Sort, names: &Names) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let Sort { expr, input, fetch } = sort;
    let mut input = Arc::unwrap_or_clone(input);
    let mut keys = Vec::new();
    for key in expr {
        let attached = key.expr.transform_down(|part| {
            let Some(subquery) = subquery_of(&part) else {
                return Ok(Transformed::no(part));
            };
            let (more, value) = match &input {
                LogicalPlan::Projection(list) if !has_all_columns(&input, &subquery.subquery)? => {
                    let (below, value) = attached(list.input.as_ref().clone(), part, &|_, _| Ok(false), names)?;
                    let name = names.fresh();
                    let mut columns = list.expr.clone();
                    columns.push(value.alias(&name));
                    (only(below, columns)?, ident(name))
                }
                _ => attached_as_columns(input.clone(), part, names)?,
            };
            input = more;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        keys.push(SortExpr {
            expr: attached.data,
            ..key
        });
    }
    let sorted = LogicalPlan::Sort(Sort {
        expr: keys,
        input: Arc::new(input),
        fetch,
    });
    only(sorted, columns)
}

fn filtered(filter: Filter, is_inner: bool, names: &Names) -> Result<LogicalPlan> {
    let columns = filter.input.schema().columns();
    let stays = |expr: &Expr, input: &LogicalPlan| match expr {
        _ if is_inner => Ok(false),
        Expr::Exists(Exists { subquery, .. }) => {
            let plan = &subquery.subquery;
            Ok(is_correlated(plan)? && is_simple(plan)? && has_all_columns(input, plan)?)
        }
        Expr::ScalarSubquery(subquery) => {
            Ok(is_simple_scalar(&subquery.subquery)? && has_all_columns(input, &subquery.subquery)?)
        }
        _ => Ok(true),
    };
    let mut is_whole = true;
    filter.predicate.apply(|part| {
        if subquery_of(part).is_some() {
            is_whole &= stays(part, &filter.input)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if is_whole {
        return Ok(LogicalPlan::Filter(filter));
    }
    let (mut below, mut above) = (Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter.predicate) {
        // Conditions that are written before subqueries are evaluated before them.
        match above.is_empty() && !has_subquery(&condition) {
            true => below.push(condition),
            false => above.push(condition),
        }
    }
    let mut input = Arc::unwrap_or_clone(filter.input);
    if let Some(condition) = conjunction(below) {
        input = LogicalPlanBuilder::from(input).filter(condition)?.build()?;
    }
    let mut conditions = Vec::new();
    for condition in above {
        let (more, condition) = attached(input, condition, &stays, names)?;
        conditions.push(condition);
        input = more;
    }
    let is_widened = input.schema().fields().len() != columns.len();
    if let Some(condition) = conjunction(conditions) {
        input = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?);
    }
    match is_widened {
        true => only(input, columns.into_iter().map(Expr::Column).collect()),
        false => Ok(input),
    }
}

/// A join whose conditions have subqueries.
fn joined(join: Join, is_inner: bool, names: &Names) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = join.schema.columns().into_iter().map(Expr::Column).collect();
    if join.join_type == JoinType::Inner {
        let conditions = pulled::join_conditions(&join);
        let crossed = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left));
        let crossed = crossed.cross_join(Arc::unwrap_or_clone(join.right))?.build()?;
        let Some(condition) = conjunction(conditions) else {
            return Ok(crossed);
        };
        return filtered(Filter::try_new(condition, Arc::new(crossed))?, is_inner, names);
    }
    let (mut left, mut right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
    let mut conditions = Vec::new();
    let equalities = join.on.into_iter().map(|(left, right)| left.eq(right));
    for condition in equalities.chain(join.filter) {
        let condition = condition.transform_down(|part| {
            let Some(subquery) = subquery_of(&part) else {
                return Ok(Transformed::no(part));
            };
            let references = outer_references(&subquery.subquery)?;
            if references.is_empty() && matches!(part, Expr::ScalarSubquery(_)) {
                return Ok(Transformed::new(part, false, TreeNodeRecursion::Jump));
            }
            let is_of_side = |side: &LogicalPlan| references.iter().all(|reference| is_of(reference, side.schema()));
            let side = match (is_of_side(&left), is_of_side(&right)) {
                (true, _) => &mut left,
                (false, true) => &mut right,
                _ => {
                    return not_impl_err!(
                        "a subquery in the condition of a {} JOIN that names columns of both sides: write it in a \
                         subquery of one side",
                        join.join_type.to_string().to_uppercase()
                    );
                }
            };
            let (more, value) = attached_as_columns(side.clone(), part, names)?;
            *side = more;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        conditions.push(condition.data);
    }
    let joined = LogicalPlanBuilder::from(left)
        .join_on(right, join.join_type, conditions)?
        .build()?;
    only(joined, columns)
}
