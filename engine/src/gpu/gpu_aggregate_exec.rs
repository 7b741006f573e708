//! [`GpuAggregateExec`]: an aggregation on the GPU as a DataFusion operator.
//!
//! 1. A blocking thread runs the program on the device. Dropping the stream cancels the run.
//! 2. The output becomes the batches that the CPU's plan would give, some thousand groups by a task: partial state, or
//!    the aggregates' values where no final aggregation follows.
//! 3. If the device cannot finish, the operator falls back: the CPU's plan gives the batches, or its own error.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, TryStreamExt, stream};
use grampus_gpu_exec::{Output, RunError};

use super::device_run::{cannot_be_held, run};
use super::explain::Explain;
use super::finished_groups::FinishedGroups;
use super::gpu_work::GpuWork;
use super::grouping_sets::GroupingSets;
use super::metrics::{record, record_fallback};
use super::partial_state;
use super::string_dictionary::StringDictionary;
use crate::plan_methods::leaf_plan;
use crate::scan::metrics::with_amplification;

/// Groups that one task makes batches of.
const TASK_GROUPS: usize = 1 << 16;

/// A partial or a whole aggregation on the GPU.
#[derive(Debug)]
pub struct GpuAggregateExec {
    work: Arc<GpuWork>,
    /// The same aggregation for the CPU, in one partition.
    cpu: Arc<dyn ExecutionPlan>,
    /// The final part of a whole aggregation.
    last: Option<Arc<FinishedGroups>>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// The reason why the CPU answered, set by the first fallback.
    fallback: Arc<OnceLock<String>>,
}

impl GpuAggregateExec {
    /// The operator for `work`. `cpu` is the CPU's plan for the same partial aggregation, in one partition.
    pub(crate) fn new(work: GpuWork, cpu: Arc<dyn ExecutionPlan>) -> Self {
        Self::with(Arc::new(work), cpu, None)
    }

    /// The operator that does the work of `last`, the final aggregation above, too. `cpu` is the CPU's plan for both,
    /// in one partition. `None`: a final aggregation is needed, because its functions merge states row by row, or
    /// because groups may occur more than once in the output.
    pub(super) fn finishing(&self, last: &AggregateExec, cpu: Arc<dyn ExecutionPlan>) -> Option<Self> {
        if !self.work.lowered.has_groups_once() {
            return None;
        }
        let last = FinishedGroups::of(last, self.cpu.schema())?;
        Some(Self::with(Arc::clone(&self.work), cpu, Some(Arc::new(last))))
    }

    fn with(work: Arc<GpuWork>, cpu: Arc<dyn ExecutionPlan>, last: Option<Arc<FinishedGroups>>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(cpu.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        Self {
            work,
            cpu,
            last,
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
            is_whole: self.last.is_some(),
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

    leaf_plan!();

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("GpuAggregateExec has one partition, not {partition}");
        }
        let run = Execution {
            work: Arc::clone(&self.work),
            cpu: Arc::clone(&self.cpu),
            last: self.last.clone(),
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
    last: Option<Arc<FinishedGroups>>,
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
            Ok((output, dictionary)) => self.batches(output, dictionary),
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

    /// The groups from the GPU, with the dictionary of their strings.
    async fn on_device(&self) -> Result<(Output, Arc<StringDictionary>), RunFailure> {
        let cancel = Arc::new(AtomicBool::new(false));
        let stop = CancelOnDrop(Arc::clone(&cancel));
        self.work.session.demand.count(self.work.load_key(), Instant::now());
        let work = Arc::clone(&self.work);
        let ran = tokio::task::spawn_blocking(move || run(&work, &cancel)).await;
        drop(stop);
        match ran {
            Ok(Ok(ran)) => {
                record(&self.metrics, &ran.0.cost, &self.work);
                Ok(ran)
            }
            Ok(Err(error)) => Err(self.failure_of(error)),
            // The device's state of a run that panicked is given up (`Gpu::run`).
            Err(join) if join.is_panic() && !self.work.strict => {
                log::warn!("a fault on the GPU's path, the CPU answers: {join}");
                Err(RunFailure::Fallback(join.to_string()))
            }
            Err(join) => Err(RunFailure::Error(DataFusionError::External(Box::new(join)))),
        }
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

    /// The groups in batches of the session's batch size.
    fn batches(&self, output: Output, dictionary: Arc<StringDictionary>) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("GpuAggregate");
        let reservation = consumer.register(self.context.memory_pool());
        reservation.try_grow(output.memory_bytes())?;
        let config = self.context.session_config();
        let (step, tasks) = (config.batch_size().max(1), config.target_partitions().max(1));
        let groups = output.groups;
        let made = Arc::new(GroupBatches {
            output,
            dictionary,
            work: Arc::clone(&self.work),
            last: self.last.clone(),
            state_schema: match &self.last {
                Some(last) => Arc::clone(&last.state_schema),
                None => self.cpu.schema(),
            },
        });
        // Grouping sets need all groups at once.
        let each = match self.work.lowered.grouping_sets {
            Some(_) => groups.max(1),
            None => TASK_GROUPS,
        };
        let ranges = (0..groups.max(1))
            .step_by(each)
            .map(move |start| start.min(groups)..groups.min(start + each));
        let whole = match groups <= each {
            true => {
                let batches = ranges.map(|range| made.batch(range)).collect::<Vec<_>>();
                stream::iter(batches).boxed()
            }
            false => {
                let task = move |range| {
                    let made = Arc::clone(&made);
                    SpawnedTask::spawn(async move { made.batch(range) })
                };
                let batches = stream::iter(ranges.map(task)).buffered(tasks);
                let joined = |batch| match batch {
                    Ok(batch) => batch,
                    Err(join) => Err(DataFusionError::External(Box::new(join))),
                };
                batches.map(joined).boxed()
            }
        };
        let slices = whole.map_ok(move |batch| {
            // The reservation is released with the stream.
            let _held = &reservation;
            let rows = batch.num_rows();
            let slices = (0..rows).step_by(step);
            stream::iter(slices.map(move |start| Ok(batch.slice(start, step.min(rows - start)))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.cpu.schema(),
            slices.try_flatten(),
        )))
    }
}

/// The groups of a run, of which batches are made.
struct GroupBatches {
    output: Output,
    dictionary: Arc<StringDictionary>,
    work: Arc<GpuWork>,
    last: Option<Arc<FinishedGroups>>,
    state_schema: SchemaRef,
}

impl GroupBatches {
    /// The batch of a range of groups.
    fn batch(&self, groups: Range<usize>) -> Result<RecordBatch> {
        let lowered = &self.work.lowered;
        let state = (&lowered.state[..], lowered.grouping_sets.as_ref());
        let states = partial_state::batch((&self.output, groups), state, &self.state_schema, &self.dictionary)?;
        match &self.last {
            Some(last) => last.finish(&states),
            None => Ok(states),
        }
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
