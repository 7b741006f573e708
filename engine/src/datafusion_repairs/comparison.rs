//! [`rewrite_comparison`]: comparisons, BETWEEN, IN and CASE, by a rewrite of one pair of operands.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Case, Expr, Operator, not};

use super::place::{binary, never};
use crate::plan_rewrites::compares;

/// The rewrite of `left op right`, `None`: the comparison is right as it is.
pub(super) type Pair = fn(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>>;

/// An expression, whose comparisons `pair` rewrites. Its parts are rewritten before.
pub(super) fn rewrite_comparison(expr: Expr, schema: &DFSchema, pair: Pair) -> Result<Transformed<Expr>> {
    let rewritten = match &expr {
        Expr::BinaryExpr(comparison) if compares(comparison.op) => {
            pair(&comparison.left, comparison.op, &comparison.right, schema)?
        }
        Expr::Between(between) if !between.expr.is_volatile() => {
            let low = pair(&between.expr, Operator::GtEq, &between.low, schema)?;
            let high = pair(&between.expr, Operator::LtEq, &between.high, schema)?;
            (low.is_some() || high.is_some()).then(|| {
                let plain = |op, bound: &Expr| binary((*between.expr).clone(), op, bound.clone());
                let low = low.unwrap_or_else(|| plain(Operator::GtEq, &between.low));
                let high = high.unwrap_or_else(|| plain(Operator::LtEq, &between.high));
                negated(low.and(high), between.negated)
            })
        }
        Expr::InList(list) if !list.expr.is_volatile() => {
            let found = in_list(&list.expr, &list.list, schema, pair)?;
            found.map(|found| negated(found, list.negated))
        }
        Expr::Case(case) => searched_case(case, schema, pair)?,
        _ => None,
    };
    Ok(match rewritten {
        Some(rewritten) => Transformed::yes(rewritten),
        None => Transformed::no(expr),
    })
}

fn negated(expr: Expr, is_negated: bool) -> Expr {
    if is_negated { not(expr) } else { expr }
}

/// `expr IN (list)`, with the literals that `expr` can equal as a list.
fn in_list(expr: &Expr, list: &[Expr], schema: &DFSchema, pair: Pair) -> Result<Option<Expr>> {
    let (mut items, mut others, mut is_changed) = (Vec::new(), Vec::new(), false);
    for item in list {
        let Some(equality) = pair(expr, Operator::Eq, item, schema)? else {
            items.push(item.clone());
            continue;
        };
        is_changed = true;
        match equality {
            Expr::BinaryExpr(same) if *same.left == *expr && matches!(*same.right, Expr::Literal(..)) => {
                items.push(*same.right);
            }
            equality if equality == never(expr.clone()) => {}
            equality => others.push(equality),
        }
    }
    if !is_changed {
        return Ok(None);
    }
    let listed = (!items.is_empty()).then(|| expr.clone().in_list(items, false));
    let all = listed.into_iter().chain(others).reduce(Expr::or);
    Ok(Some(all.unwrap_or_else(|| never(expr.clone()))))
}

/// `CASE base WHEN value …` as `CASE WHEN base = value …`.
fn searched_case(case: &Case, schema: &DFSchema, pair: Pair) -> Result<Option<Expr>> {
    let Some(base) = case.expr.as_ref().filter(|base| !base.is_volatile()) else {
        return Ok(None);
    };
    let mut is_changed = false;
    let mut branches = Vec::with_capacity(case.when_then_expr.len());
    for (value, then) in &case.when_then_expr {
        let equality = pair(base, Operator::Eq, value, schema)?;
        is_changed |= equality.is_some();
        let equality = equality.unwrap_or_else(|| binary((**base).clone(), Operator::Eq, (**value).clone()));
        branches.push((Box::new(equality), then.clone()));
    }
    Ok(is_changed.then(|| Expr::Case(Case::new(None, branches, case.else_expr.clone()))))
}
