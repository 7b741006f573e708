//! `GuardedFilters`: a condition that may fail is evaluated only for rows that pass the conditions written before it.
//!
//! `WHERE y <> 0 AND x / y = 2` divides by zero in DataFusion: AND evaluates both sides unless hardly a row passes the
//! first. A filter operator becomes `CASE WHEN y <> 0 THEN x / y = 2 ELSE false END`, which evaluates its results for
//! their rows alone. Scans of ORC tables order their conditions themselves.

use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{case, lit};
use datafusion::physical_expr::utils::{conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::scan::fallible::is_fallible;

/// The rule.
#[derive(Debug)]
pub(super) struct GuardedFilters;

impl PhysicalOptimizerRule for GuardedFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let changed = plan.transform_up(|plan| {
            let Some(filter) = plan.downcast_ref::<FilterExec>() else {
                return Ok(Transformed::no(plan));
            };
            match guarded(filter.predicate(), &filter.input().schema())? {
                Some(predicate) => {
                    let filter = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
                    Ok(Transformed::yes(Arc::new(filter)))
                }
                None => Ok(Transformed::no(plan)),
            }
        });
        Ok(changed?.data)
    }

    fn name(&self) -> &'static str {
        "guarded_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The filter in which each condition that may fail has those before it as its guard; `None`: no condition has one.
fn guarded(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let mut before: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    let mut is_changed = false;
    for condition in split_conjunction(predicate) {
        let mut condition = Arc::clone(condition);
        if !before.is_empty() && is_fallible(condition.as_ref(), schema) {
            let guard = conjunction(std::mem::take(&mut before));
            condition = case(None, vec![(guard, condition)], Some(lit(false)))?;
            is_changed = true;
        }
        before.push(condition);
    }
    Ok(is_changed.then(|| conjunction(before)))
}
