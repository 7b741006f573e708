//! `SpillSafeRepartitionExec`: DataFusion's repartitioning, without a deadlock of its spilling.
//!
//! DataFusion 55.2 lets the inputs of a `RepartitionExec` append to several spill files at once, and reads them one
//! after the other. The reader can wait for a batch in the first file while the batch that it has been promised is in
//! the second, and the inputs wait for the reader (apache/datafusion#24883). So each spilled batch is a file of its own
//! here, a segment of [`SpillSegments`]. A file that the reader sees then has its batch, or its writer is at work.
//!
//! To be removed with the first DataFusion that has the repair (apache/datafusion#24891); the test below shows it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::disk_manager::DiskManager;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties};

use super::spill_segments::SpillSegments;
use crate::plan_methods::delegate_plan;

/// Replaces each `RepartitionExec` by a [`SpillSafeRepartitionExec`].
#[derive(Debug)]
pub(crate) struct SpillSafeRepartitions;

impl PhysicalOptimizerRule for SpillSafeRepartitions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| match plan.downcast_ref::<RepartitionExec>() {
            Some(repartition) => Ok(Transformed::yes(Arc::new(SpillSafeRepartitionExec::try_new(
                repartition,
                Arc::clone(repartition.input()),
            )?))),
            None => Ok(Transformed::no(plan)),
        });
        Ok(replaced?.data)
    }

    fn name(&self) -> &'static str {
        "spill_safe_repartitions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A `RepartitionExec` that runs in a task context whose spill files hold one batch each. Its input runs in the
/// caller's task context.
#[derive(Debug)]
pub(super) struct SpillSafeRepartitionExec {
    input: Arc<dyn ExecutionPlan>,
    /// The repartitioning of a [`CallersContextExec`] over `input`.
    inner: Arc<RepartitionExec>,
    contexts: Mutex<Contexts>,
}

/// The last caller's task context, and the one made for it.
#[derive(Debug, Default)]
struct Contexts {
    caller: Weak<TaskContext>,
    inner: Weak<TaskContext>,
}

/// The caller's task context, as an extension of the one made for it.
struct CallersContext(Arc<TaskContext>);

impl SpillSafeRepartitionExec {
    fn try_new(repartition: &RepartitionExec, input: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let below = Arc::new(CallersContextExec(Arc::clone(&input)));
        let inner = RepartitionExec::try_new(below, repartition.partitioning().clone())?;
        let inner = match repartition.preserve_order() {
            true => inner.with_preserve_order(),
            false => inner,
        };
        Ok(Self {
            input,
            inner: Arc::new(inner),
            contexts: Mutex::default(),
        })
    }

    /// The context to run `inner` in.
    fn inner_context(&self, caller: &Arc<TaskContext>) -> Result<Arc<TaskContext>> {
        let runtime = caller.runtime_env();
        let is_unlimited = matches!(runtime.memory_pool.memory_limit(), MemoryLimit::Infinite);
        if is_unlimited || !runtime.disk_manager.tmp_files_enabled() {
            return Ok(Arc::clone(caller)); // nothing spills
        }
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inner) = contexts.inner.upgrade()
            && std::ptr::eq(contexts.caller.as_ptr(), Arc::as_ptr(caller))
        {
            return Ok(inner);
        }
        let inner = Arc::new(segmented(caller, &runtime)?);
        *contexts = Contexts {
            caller: Arc::downgrade(caller),
            inner: Arc::downgrade(&inner),
        };
        Ok(inner)
    }
}

/// A copy of the task context in which each spilled batch is a segment.
fn segmented(caller: &Arc<TaskContext>, runtime: &Arc<RuntimeEnv>) -> Result<TaskContext> {
    let segments = SpillSegments::new(Arc::clone(&runtime.disk_manager));
    let disk = DiskManager::builder().with_temp_file_factory(Arc::new(segments));
    let runtime = RuntimeEnv {
        disk_manager: Arc::new(disk.build()?),
        ..RuntimeEnv::clone(runtime)
    };
    let config = caller.session_config().clone();
    let config = config
        .set_u64("datafusion.execution.max_spill_file_size_bytes", 1)
        .with_extension(Arc::new(CallersContext(Arc::clone(caller))));
    Ok(TaskContext::new(
        caller.task_id(),
        caller.session_id(),
        config,
        caller.scalar_functions().clone(),
        caller.higher_order_functions().clone(),
        caller.aggregate_functions().clone(),
        caller.window_functions().clone(),
        Arc::new(runtime),
    ))
}

/// Shown as the `RepartitionExec` that it is.
impl DisplayAs for SpillSafeRepartitionExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for SpillSafeRepartitionExec {
    delegate_plan!(inner);

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let [input] = children.as_slice() else {
            return internal_err!("a repartitioning has one child, not {}", children.len());
        };
        Ok(Arc::new(Self::try_new(&self.inner, Arc::clone(input))?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.inner.execute(partition, self.inner_context(&context)?)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }
}

/// Runs its input in the task context of the caller of the repartitioning.
#[derive(Debug)]
struct CallersContextExec(Arc<dyn ExecutionPlan>);

impl DisplayAs for CallersContextExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(format, f)
    }
}

impl ExecutionPlan for CallersContextExec {
    fn name(&self) -> &'static str {
        "CallersContextExec"
    }

    /// A repartitioning that travels takes its input along.
    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.0.as_ref())
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.0]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([child]) => Ok(Arc::new(Self(child))),
            Err(children) => internal_err!("CallersContextExec has one child, not {}", children.len()),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let callers = context.session_config().get_extension::<CallersContext>();
        self.0
            .execute(partition, callers.map_or(context, |callers| Arc::clone(&callers.0)))
    }
}
