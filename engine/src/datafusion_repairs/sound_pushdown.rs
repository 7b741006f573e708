//! [`SoundPushdown`]: DataFusion's rules `FilterPushdown`, which take filters past no columns of one name.
//!
//! DataFusion finds a filter's columns in an operator's input by their names.
//!
//! - A join's columns may have the same name, and then it takes the first or the last one. The filter of one table so
//!   reaches the other, and rows are lost.
//! - A group may have the name of a column that it is made of, as `CAST(d AS INT)` has. Its filter so reaches the
//!   column.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, replace_children_if_necessary,
};

/// How the names of DataFusion's two rules begin.
const PUSHDOWN: &str = "FilterPushdown";

/// The rule.
#[derive(Debug)]
pub(super) struct SoundPushdown {
    inner: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl SoundPushdown {
    /// Puts the rule in the place of DataFusion's two.
    pub(super) fn replace_in(optimizer: &mut PhysicalOptimizer) {
        for rule in &mut optimizer.rules {
            if rule.name().starts_with(PUSHDOWN) {
                let inner = Arc::clone(rule);
                *rule = Arc::new(Self { inner });
            }
        }
    }
}

impl PhysicalOptimizerRule for SoundPushdown {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let barred = plan.transform_up(with_barriers)?;
        let pushed = self.inner.optimize(barred.data, config)?;
        match barred.transformed {
            true => Ok(pushed.transform_up(without_barrier)?.data),
            false => Ok(pushed),
        }
    }

    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_check(&self) -> bool {
        self.inner.schema_check()
    }
}

/// The operator, with a barrier above each input whose columns it would find by ambiguous names.
fn with_barriers(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    // A projection finds columns by its expressions, but its own by their names.
    let by_name = !plan.is::<ProjectionExec>();
    let has_groups = has_groups_with_names_of_columns(&plan);
    let is_barred = |input: &Arc<dyn ExecutionPlan>| {
        has_groups || ((by_name || input.is::<ProjectionExec>()) && has_one_name(input))
    };
    if !plan.children().into_iter().any(is_barred) {
        return Ok(Transformed::no(plan));
    }
    let inputs = plan.children().into_iter().map(|input| match is_barred(input) {
        true => Arc::new(Barrier(Arc::clone(input))) as Arc<dyn ExecutionPlan>,
        false => Arc::clone(input),
    });
    let inputs = inputs.collect();
    Ok(Transformed::yes(replace_children_if_necessary(plan, inputs)?))
}

fn without_barrier(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Ok(match plan.downcast_ref::<Barrier>() {
        Some(Barrier(input)) => Transformed::yes(Arc::clone(input)),
        None => Transformed::no(plan),
    })
}

/// Whether a group that is no column of the input has the name of one.
fn has_groups_with_names_of_columns(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else {
        return false;
    };
    let input = aggregate.input().schema();
    aggregate.group_expr().expr().iter().any(|(group, name)| {
        let is_column = group
            .downcast_ref::<Column>()
            .is_some_and(|column| column.name() == name);
        !is_column && input.column_with_name(name).is_some()
    })
}

/// Whether two columns have the same name.
fn has_one_name(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = plan.schema();
    let mut names = HashSet::new();
    schema.fields().iter().any(|field| !names.insert(field.name()))
}

/// An operator that lets no filter pass. It lives while the rule runs.
#[derive(Debug)]
struct Barrier(Arc<dyn ExecutionPlan>);

impl DisplayAs for Barrier {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Barrier")
    }
}

impl ExecutionPlan for Barrier {
    fn name(&self) -> &'static str {
        "Barrier"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.pop() {
            Some(input) => Ok(Arc::new(Self(input))),
            None => internal_err!("a barrier has one input"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.0.execute(partition, context)
    }
}
