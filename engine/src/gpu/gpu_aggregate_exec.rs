//! [`GpuAggregateExec`]: a partial aggregation on the GPU as a DataFusion operator. It keeps the CPU's plan for the same batch: where the
//! GPU gives up, that one gives the answer, or the right words for the error.

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
use grampus_gpu_exec::gpu::{BackingChoice, ColumnChoice, Request};
use grampus_gpu_exec::output::RunError;

use super::input_builder::GpuInput;
use super::lower::Lowered;
use super::metrics::{record, record_fallback};
use super::partial_state::batch;
use super::runner::Runner;
use super::session::{FilterKey, GpuSession};
use super::string_dictionary::DictionaryFull;
use crate::scan::metrics::with_amplification;

/// What is to be run, and on what.
#[derive(Debug)]
pub(crate) struct GpuWork {
    pub(crate) lowered: Lowered,
    pub(crate) placed: GpuInput,
    pub(crate) device: Arc<dyn Runner>,
    pub(crate) session: Arc<GpuSession>,
    pub(crate) backing: BackingChoice,
    pub(crate) selectivity: f64,
    /// How columns were to be read when that was first asked: to decide where to run, or by EXPLAIN.
    pub(crate) choices: OnceLock<Vec<ColumnChoice>>,
    /// Why the GPU, for people.
    pub(crate) why: String,
    /// Errors of the device are errors of the query.
    pub(crate) strict: bool,
}

/// A partial aggregation on the GPU.
#[derive(Debug)]
pub struct GpuAggregateExec {
    work: Arc<GpuWork>,
    /// The same aggregation for the CPU, in one partition.
    cpu: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// Why the CPU did it after all.
    fell_back: Arc<OnceLock<String>>,
}

impl GpuAggregateExec {
    /// The operator that does what `cpu`, of one partition, does.
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
            fell_back: Arc::default(),
        }
    }

    /// The plan that answers where the GPU gives up.
    pub fn cpu_plan(&self) -> &Arc<dyn ExecutionPlan> {
        &self.cpu
    }

    /// Why the CPU answered after all, once that has happened.
    pub fn fell_back(&self) -> Option<&str> {
        self.fell_back.get().map(String::as_str)
    }

    /// What is run, for the display.
    pub(crate) fn work(&self) -> &GpuWork {
        &self.work
    }
}

impl DisplayAs for GpuAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::explain::show(self, format, f)
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
        let run = Run {
            work: Arc::clone(&self.work),
            cpu: Arc::clone(&self.cpu),
            metrics: self.metrics.clone(),
            fell_back: Arc::clone(&self.fell_back),
            context,
        };
        let stream = futures::stream::once(run.stream()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.cpu.schema(), stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_amplification(self.metrics.clone_inner()))
    }
}

/// One execution.
struct Run {
    work: Arc<GpuWork>,
    cpu: Arc<dyn ExecutionPlan>,
    metrics: ExecutionPlanMetricsSet,
    fell_back: Arc<OnceLock<String>>,
    context: Arc<TaskContext>,
}

/// Tells the device to stop when whoever waits for it goes away.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Run {
    async fn stream(self) -> Result<SendableRecordBatchStream> {
        match self.on_device().await {
            Ok(batch) => self.batches(batch),
            Err(Failed::CpuAnswers(reason)) => {
                log::info!("the CPU answers: {reason}");
                record_fallback(&self.metrics);
                // Only the first execution's reason is shown.
                let _ = self.fell_back.set(reason);
                self.cpu.execute(0, Arc::clone(&self.context))
            }
            Err(Failed::Error(error)) => Err(error),
        }
    }

    /// The partial aggregates by the GPU.
    async fn on_device(&self) -> Result<RecordBatch, Failed> {
        let cancel = Arc::new(AtomicBool::new(false));
        let stop = CancelOnDrop(Arc::clone(&cancel));
        let work = Arc::clone(&self.work);
        let ran = tokio::task::spawn_blocking(move || work.device.run(&work.request(&cancel))).await;
        drop(stop);
        let output = match ran {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => return Err(self.failed(error)),
            Err(join) => return Err(Failed::Error(DataFusionError::External(Box::new(join)))),
        };
        let work = &self.work;
        record(&self.metrics, &output.cost, work);
        if output.cost.rows > 0 {
            let key = FilterKey::of(&work.lowered.program, &work.lowered.arguments, &work.placed.input);
            work.session
                .remember_selectivity(key, output.cost.passed as f64 / output.cost.rows as f64);
        }
        let batch = batch(
            &output,
            &work.lowered.state,
            &self.cpu.schema(),
            &work.session.dictionary,
        );
        batch.map_err(Failed::Error)
    }

    /// What becomes of the query after an error of the device.
    fn failed(&self, error: RunError) -> Failed {
        match &error {
            // The CPU has the answer, or the right words.
            RunError::Refused(reason) => return Failed::CpuAnswers(reason.clone()),
            RunError::Cancelled => return Failed::Error(DataFusionError::Execution(error.to_string())),
            RunError::Decode(inner) => {
                if is_dictionary_full(inner.as_ref()) {
                    return Failed::CpuAnswers(error.to_string());
                }
            }
            // A device that is lost is opened anew by the next query's run.
            RunError::Cuda(_) | RunError::Stack(_) | RunError::File { .. } | RunError::Invalid(_) => {}
        }
        match self.work.strict {
            false => {
                log::warn!("the GPU failed, the CPU answers: {error}");
                Failed::CpuAnswers(error.to_string())
            }
            true => Failed::Error(strict_error(error)),
        }
    }

    /// The result in batches of the session's size.
    fn batches(&self, batch: RecordBatch) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new("GpuAggregate");
        let reservation = consumer.register(self.context.memory_pool());
        reservation.try_grow(batch.get_array_memory_size())?;
        let (schema, rows) = (batch.schema(), batch.num_rows());
        let step = self.context.session_config().batch_size().max(1);
        let slices = (0..rows).step_by(step).map(move |start| {
            // Moves with the batch: given back when the last slice was taken.
            let _held = &reservation;
            Ok(batch.slice(start, step.min(rows - start)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            futures::stream::iter(slices).boxed(),
        )))
    }
}

/// Why there is no batch of the GPU's.
enum Failed {
    /// The CPU is to answer, for this reason.
    CpuAnswers(String),
    /// The query fails.
    Error(DataFusionError),
}

impl GpuWork {
    /// How each column would be read; nothing if the device cannot tell.
    pub(crate) fn choices(&self) -> &[ColumnChoice] {
        let ask = || self.device.choose(&self.request(&Arc::default())).unwrap_or_default();
        self.choices.get_or_init(ask)
    }

    /// What is asked of the device.
    pub(crate) fn request<'a>(&'a self, cancel: &'a Arc<AtomicBool>) -> Request<'a> {
        Request {
            program: &self.lowered.program,
            arguments: &self.lowered.arguments,
            input: &self.placed.input,
            backing: self.backing,
            selectivity: self.selectivity,
            cancel,
        }
    }
}

fn is_dictionary_full(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<DictionaryFull>() {
            return true;
        }
        if let Some(DataFusionError::External(inner)) = error.downcast_ref::<DataFusionError>() {
            return is_dictionary_full(inner.as_ref());
        }
        cause = error.source();
    }
    false
}

/// The error as the CPU's plan would carry it where both read the same bytes.
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
