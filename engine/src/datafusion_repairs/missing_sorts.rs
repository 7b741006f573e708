//! [`MissingSorts`]: sorts where an operator's input lacks the order that the operator needs (apache/datafusion#16171).
//!
//! DataFusion moves a sort below a UNION, to the column that the SELECT list below names twice. The rows then have the
//! order under the first of the two names alone, and DataFusion refuses its own plan. The rule sorts the rows above.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// The rule that refuses the plan.
const CHECK: &str = "SanityCheckPlan";

/// The rule.
#[derive(Debug)]
pub(super) struct MissingSorts;

impl MissingSorts {
    /// Puts the rule before DataFusion's check.
    pub(super) fn insert_into(optimizer: &mut PhysicalOptimizer) {
        let rules = &mut optimizer.rules;
        let at = rules.iter().position(|rule| rule.name() == CHECK);
        rules.insert(at.unwrap_or(rules.len()), Arc::new(Self));
    }
}

impl PhysicalOptimizerRule for MissingSorts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(with_sorts)?.data)
    }

    fn name(&self) -> &'static str {
        "missing_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_sorts(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut inputs: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().map(Arc::clone).collect();
    let mut is_changed = false;
    for (input, needed) in inputs.iter_mut().zip(plan.required_input_ordering()) {
        let Some(needed) = needed.map(|needed| needed.into_single()) else {
            continue;
        };
        if !input
            .equivalence_properties()
            .ordering_satisfy_requirement(needed.clone())?
        {
            let sort = SortExec::new(LexOrdering::from(needed), Arc::clone(input));
            *input = Arc::new(sort.with_preserve_partitioning(true));
            is_changed = true;
        }
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    match is_changed {
        true => plan.replace_children(inputs, options).map(Transformed::yes),
        false => Ok(Transformed::no(plan)),
    }
}
