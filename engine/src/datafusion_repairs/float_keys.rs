//! `FloatKeys`: an optimizer rule that leaves one zero in keys.
//!
//! DataFusion groups both zeros together, but
//!
//! - a hash join describes its keys to scans as an IN list, and IN lists tell the zeros apart;
//! - sorts place `-0.0` before `0.0`, so that later keys do not decide between them. Sort-merge joins with several keys
//!   and windows inherit that.
//!
//! Keys of joins, sorts, windows and DISTINCT aggregates therefore become `key + 0.0`. IN lists of literals name both
//! zeros, so that statistics and Bloom filters still decide them. `min` and `max` become those of [`float_extremes`].
//!
//! The rule runs last, because other rules make joins, sorts and IN lists.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, InList, Sort as SortKey, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, JoinConstraint, LogicalPlan, lit};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::float_literals::{is_plain, with_one_zero};
use super::zeros::{constant, float_type, give_one_zero, is_zero};
use crate::aggregate::float_extremes;
use crate::plan_rewrites::rewrite_expressions;

/// The rule.
#[derive(Debug)]
pub(crate) struct FloatKeys;

impl OptimizerRule for FloatKeys {
    fn name(&self) -> &str {
        "float_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, mut plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let has_new_keys = match &mut plan {
            LogicalPlan::Join(join) => {
                let (left, right) = (join.left.schema(), join.right.schema());
                let mut is_changed = false;
                for (l, r) in &mut join.on {
                    is_changed |= unsign(l, left) | unsign(r, right);
                }
                // USING promises keys that are columns.
                if is_changed {
                    join.join_constraint = JoinConstraint::On;
                }
                is_changed
            }
            LogicalPlan::Sort(sort) => unsign_keys(&mut sort.expr, sort.input.schema()),
            _ => false,
        };
        let schema = match &plan {
            LogicalPlan::TableScan(scan) => {
                DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?
            }
            plan => merge_schema(&plan.inputs()),
        };
        let mut rewritten = rewrite_expressions(plan, &|expr| {
            Ok(match expr {
                Expr::WindowFunction(mut window) => {
                    let is_changed = unsign_window(&mut window, &schema);
                    Transformed::new_transformed(Expr::WindowFunction(window), is_changed)
                }
                Expr::AggregateFunction(mut aggregate) => {
                    let is_changed = unsign_aggregate(&mut aggregate, &schema);
                    Transformed::new_transformed(Expr::AggregateFunction(aggregate), is_changed)
                }
                expr => {
                    let rewritten = with_one_zero(expr, &schema);
                    rewritten.transform_data(|expr| Ok(with_both_zeros(expr)))?
                }
            })
        })?;
        rewritten.transformed |= has_new_keys;
        Ok(rewritten)
    }
}

fn unsign(expr: &mut Expr, schema: &DFSchema) -> bool {
    float_type(expr, schema).is_some_and(|float| give_one_zero(expr, &float))
}

fn unsign_keys(keys: &mut [SortKey], schema: &DFSchema) -> bool {
    let changed = keys
        .iter_mut()
        .filter_map(|key| unsign(&mut key.expr, schema).then_some(()));
    changed.count() > 0
}

fn unsign_window(window: &mut WindowFunction, schema: &DFSchema) -> bool {
    let params = &mut window.params;
    let mut is_changed = unsign_keys(&mut params.order_by, schema);
    for key in &mut params.partition_by {
        is_changed |= unsign(key, schema);
    }
    is_changed
}

fn unsign_aggregate(aggregate: &mut AggregateFunction, schema: &DFSchema) -> bool {
    let params = &mut aggregate.params;
    // The key of WITHIN GROUP is the aggregate's argument.
    let mut is_changed = !aggregate.func.supports_within_group_clause() && unsign_keys(&mut params.order_by, schema);
    let is_float = params
        .args
        .iter()
        .any(|argument| float_type(argument, schema).is_some());
    if let Some(function) = float_extremes::in_place_of(&aggregate.func).filter(|_| is_float) {
        aggregate.func = function;
        is_changed = true;
    }
    if params.distinct {
        for argument in &mut params.args {
            is_changed |= unsign(argument, schema);
        }
    }
    is_changed
}

/// An IN list that names both zeros if it names one.
fn with_both_zeros(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(mut list) = expr else {
        return Transformed::no(expr);
    };
    let missing = is_plain(&list).then(|| missing_zero(&list)).flatten();
    let is_changed = missing.is_some();
    list.list.extend(missing);
    Transformed::new_transformed(Expr::InList(list), is_changed)
}

fn missing_zero(list: &InList) -> Option<Expr> {
    let zeros = list.list.iter().filter_map(constant).filter(is_zero);
    let zeros: Vec<ScalarValue> = zeros.collect();
    let other = zeros.first()?.arithmetic_negate().ok()?;
    (!zeros.contains(&other)).then(|| lit(other))
}
