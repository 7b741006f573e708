//! [`GpuAggregateExec`]: a partial aggregation on the GPU as a DataFusion operator.
//!
//! 1. A blocking thread runs the program on the device. Dropping the stream cancels the run.
//! 2. The output becomes the batch of partial state that the CPU's plan would give.
//! 3. If the device cannot finish, the operator falls back: the CPU's plan gives the batch, or its own error.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};
use grampus_gpu_exec::RunError;

use super::device_run::{cannot_be_held, run};
use super::explain::Explain;
use super::gpu_work::GpuWork;
use super::grouping_sets::GroupingSets;
use super::metrics::{record, record_fallback};
use super::partial_state::batch;
use crate::scan::metrics::with_amplification;

/// A partial aggregation on the GPU.
#[derive(Debug)]
pub struct GpuAggregateExec {
    work: Arc<GpuWork>,
    /// The same aggregation for the CPU, in one partition.
    cpu: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// The reason why the CPU answered, set by the first fallback.
    fallback: Arc<OnceLock<String>>,
}

impl GpuAggregateExec {
    /// The operator for `work`. `cpu` is the CPU's plan for the same aggregation, in one partition.
    pub(crate) fn new(work: GpuWork, cpu: Arc<dyn ExecutionPlan>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(cpu.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            work: Arc::new(work),
            cpu,
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
            fallback: Arc::default(),
        }
    }

    /// Groups that the kernel expects, in all grouping sets, as far as it is known.
    pub(super) fn groups(&self) -> Option<u32> {
        let sets = self.work.lowered.grouping_sets.as_ref().map_or(1, GroupingSets::len);
        self.work.preview().coded_groups?.checked_mul(u32::try_from(sets).ok()?)
    }

    /// The plan that answers after a fallback.
    pub fn cpu_plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.cpu
    }

    /// The reason why the CPU answered, after a fallback.
    pub fn fell_back(&self) -> Option<&str> {
        self.fallback.get().map(String::as_str)
    }
}

impl DisplayAs for GpuAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explain = Explain {
            work: &self.work,
            cpu: self.cpu.as_ref(),
            fallback: self.fell_back(),
        };
        explain.write(format, f)
    }
}

impl ExecutionPlan for GpuAggregateExec {
    fn name(&self) -> &'static str {
        "GpuAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("GpuAggregateExec has no children"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("GpuAggregateExec has one partition, not {partition}");
        }
        let run = Execution {
            work: Arc::clone(&self.work),
            cpu: Arc::clone(&self.cpu),
            metrics: self.metrics.clone(),
            fallback: Arc::clone(&self.fallback),
            context,
        };
        let stream = futures::stream::once(run.stream()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.cpu.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_amplification(self.metrics.clone_inner()))
    }
}

/// One execution of the operator.
struct Execution {
    work: Arc<GpuWork>,
    cpu: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
    fallback: Arc<OnceLock<String>>,
    context: Arc<TaskContext>,
}

/// Cancels the run on the device when the stream that waits for it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Execution {
    async fn stream(self) -> Result<SendableRecordBatchStream> {
        match self.on_device().await {
            Ok(batch) => self.batches(batch),
            Err(RunFailure::Fallback(reason)) => {
                log::info!("the CPU answers: {reason}");
                record_fallback(&self.metrics);
                // Only the first execution's reason is shown.
                let _ = self.fallback.set(reason);
                self.cpu.execute(0, Arc::clone(&self.context))
            }
            Err(RunFailure::Error(error)) => Err(error),
        }
    }

    /// The batch of partial state from the GPU.
    async fn on_device(&self) -> Result<RecordBatch, RunFailure> {
        let cancel = Arc::new(AtomicBool::new(false));
        let stop = CancelOnDrop(Arc::clone(&cancel));
        let work = Arc::clone(&self.work);
        let ran = tokio::task::spawn_blocking(move || run(&work, &cancel)).await;
        drop(stop);
        let (output, dictionary) = match ran {
            Ok(Ok(ran)) => ran,
            Ok(Err(error)) => return Err(self.failure_of(error)),
            Err(join) => return Err(RunFailure::Error(DataFusionError::External(Box::new(join)))),
        };
        let work = &self.work;
        record(&self.metrics, &output.cost, work);
        let state = (&work.lowered.state[..], work.lowered.grouping_sets.as_ref());
        let batch = batch(&output, state, &self.cpu.schema(), &dictionary);
        batch.map_err(RunFailure::Error)
    }

    /// The consequence of an error of the device.
    fn failure_of(&self, error: RunError) -> RunFailure {
        match &error {
            // The CPU's plan gives the answer, or the error.
            RunError::Refused(reason) => return RunFailure::Fallback(reason.to_string()),
            // A second run over the changed file would be no answer to the query as it was planned.
            RunError::Cancelled | RunError::FileChanged { .. } => {
                return RunFailure::Error(DataFusionError::Execution(error.to_string()));
            }
            RunError::Decode(inner) => {
                if cannot_be_held(inner.as_ref()) {
                    return RunFailure::Fallback(error.to_string());
                }
            }
            // The next query opens a lost device again.
            RunError::Cuda(_) | RunError::Stack(_) | RunError::File { .. } | RunError::Invalid(_) => {}
        }
        match self.work.strict {
            false => {
                log::warn!("the GPU failed, the CPU answers: {error}");
                RunFailure::Fallback(error.to_string())
            }
            true => RunFailure::Error(strict_error(error)),
        }
    }

    /// The result in batches of the session's batch size.
    fn batches(&self, batch: RecordBatch) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("GpuAggregate");
        let reservation = consumer.register(self.context.memory_pool());
        reservation.try_grow(batch.get_array_memory_size())?;
        let (schema, rows) = (batch.schema(), batch.num_rows());
        let step = self.context.session_config().batch_size().max(1);
        let slices = (0..rows).step_by(step).map(move |start| {
            // The reservation moves with the batch and is released after the last slice.
            let _held = &reservation;
            Ok(batch.slice(start, step.min(rows - start)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(slices).boxed(),
        )))
    }
}

/// The outcome of a run without a batch.
enum RunFailure {
    /// The CPU answers, for this reason.
    Fallback(String),
    /// The query fails.
    Error(DataFusionError),
}

/// The error of a query that may not fall back. Errors of decoding are wrapped as the CPU's plan wraps them.
fn strict_error(error: RunError) -> DataFusionError {
    match error {
        RunError::Decode(inner) => match inner.downcast::<DataFusionError>() {
            Ok(error) => *error,
            Err(inner) => DataFusionError::External(inner),
        },
        other => DataFusionError::External(Box::new(other)),
    }
}

#[cfg(test)]
#[path = "gpu_aggregate_exec_tests.rs"]
mod tests;
