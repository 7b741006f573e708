//! [`OffloadRule`]: the optimizer rule that replaces partial aggregations over ORC scans by [`GpuAggregateExec`].
//!
//! For each aggregation the rule takes these steps:
//!
//! 1. Lower the aggregation to a program.
//! 2. Check that the device's libraries are there. Planning opens no device: the first execution does.
//! 3. Build the program's input.
//! 4. Take the filter's selectivity from its last run, or from a sample.
//! 5. With `grampus.device = 'auto'`, choose the processor:
//!    - the GPU, if everything that the query needs is on the device, also its kernel;
//!    - else the processor with the lower estimated time, and the CPU on a tie;
//!    - if that is the CPU, and the GPU is faster with resident columns, the columns are loaded after the query
//!      (`BackgroundLoader`).
//!
//! **Invariant:** the rule waits for no running query, and changes nothing that a later decision depends on. Neither
//! planning nor EXPLAIN is counted.
//!
//! At the end, final aggregations are left out where the GPU gives each group once (`final_aggregation`).
//!
//! If a step refuses, the plan stays as it is, and the scan shows the reason in EXPLAIN. With `grampus.device = 'gpu'`
//! a refusal is an error.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use grampus_gpu_exec::{Backing, BackingChoice, RunError, RunPreview};

use super::background_loader::{BackgroundLoader, LoadAfterRun};
use super::decompression::ChunkDecompression;
use super::device_choice::{
    COMPILE_TIME, Workload, gpu_time, has_dependents, hot_time, is_resident, least_gpu_time, shown,
};
use super::filter_key::FilterKey;
use super::final_aggregation::simplify_final_aggregations;
use super::gpu_aggregate_exec::GpuAggregateExec;
use super::gpu_filter_sample::sampled_selectivity;
use super::gpu_input::GpuInput;
use super::gpu_work::GpuWork;
use super::input_builder::InputBuilder;
use super::lower::{Lowered, lower};
use super::refusal::Refusal;
use super::runner::{Absence, Runner};
use super::session::GpuSession;
use crate::config::{Device, GpuBacking, GpuLoad, GrampusOptions, LocalIo};
use crate::scan::execution_listener::ExecutionListener;
use crate::scan::orc_scan_exec::OrcScanExec;

/// Minimum estimated time on the CPU for which a closed device is considered, and columns are loaded. Shorter queries
/// repay neither the sample of their filter nor the device.
const MIN_GPU_TIME: Duration = Duration::from_millis(5);

/// Moves filtered aggregates to the GPU. The rule runs after DataFusion's own rules, on the final plan.
#[derive(Debug)]
pub struct OffloadRule {
    session: Arc<GpuSession>,
    loader: Arc<BackgroundLoader>,
}

impl OffloadRule {
    /// The rule for a session that keeps its device in `session`. `loader` loads columns for later queries.
    pub(crate) fn new(session: Arc<GpuSession>, loader: Arc<BackgroundLoader>) -> Self {
        Self { session, loader }
    }
}

impl PhysicalOptimizerRule for OffloadRule {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<GrampusOptions>().cloned().unwrap_or_default();
        if options.device == Device::Cpu {
            return Ok(plan);
        }
        let mut rewrite = PlanRewrite {
            session: &self.session,
            loader: &self.loader,
            options: &options,
            is_absence_shown: false,
        };
        simplify_final_aggregations(rewrite.rewrite(plan, None)?)
    }

    fn name(&self) -> &'static str {
        "gpu_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The reason why an aggregation stays on the CPU.
#[derive(Debug, thiserror::Error)]
enum CpuReason {
    /// Statistics exclude all rows. EXPLAIN shows no reason.
    #[error("there are no rows")]
    NoRows,
    /// There is no device. EXPLAIN shows this once per plan.
    #[error(transparent)]
    NoDevice(Absence),
    /// The GPU does not compute the aggregation.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The runtime does not take the program.
    #[error("{}", program_error(.0))]
    Program(RunError),
    /// The query is too short to open the device for.
    #[error("the CPU takes an estimated {}, too little to open the GPU for", shown(*.cpu))]
    TooShort { cpu: Duration },
    /// The GPU is estimated to take more time.
    #[error("the GPU is estimated to take {}, the CPU {}", shown(*.gpu), shown(*.cpu))]
    Slower { gpu: Duration, cpu: Duration },
    /// The GPU is estimated to take more time now, and less with its columns resident, which are loaded afterwards.
    #[error(
        "the GPU is estimated to take {}, the CPU {}; once loaded in the background, the GPU takes {}",
        shown(*.gpu), shown(*.cpu), shown(*.hot)
    )]
    SlowerNow {
        gpu: Duration,
        cpu: Duration,
        hot: Duration,
        work: Arc<GpuWork>,
    },
}

impl CpuReason {
    /// The work whose columns are loaded after an execution on the CPU.
    fn loaded_afterwards(&self) -> Option<&Arc<GpuWork>> {
        match self {
            Self::SlowerNow { work, .. } => Some(work),
            Self::NoRows
            | Self::NoDevice(_)
            | Self::Refused(_)
            | Self::Program(_)
            | Self::TooShort { .. }
            | Self::Slower { .. } => None,
        }
    }
}

/// The processor that answers, by the estimated times.
enum Comparison {
    /// The GPU, for this reason.
    Gpu(String),
    /// The CPU. `hot`: the GPU's time with resident columns, if it is worth loading them.
    Cpu {
        gpu: Duration,
        cpu: Duration,
        hot: Option<Duration>,
    },
}

/// The text of an error of the runtime, without the prefix of invalid programs.
fn program_error(error: &RunError) -> String {
    match error {
        RunError::Invalid(reason) => reason.clone(),
        other => other.to_string(),
    }
}

/// The note that a scan takes from the nearest aggregation above it.
#[derive(Debug, Clone)]
enum ScanNote {
    /// EXPLAIN shows nothing, and `grampus.device = 'gpu'` allows the scan.
    Nothing,
    /// The reason why the GPU does not read the scan, and the work whose columns are loaded after an execution.
    Reason(Arc<str>, Option<Arc<GpuWork>>),
}

/// One walk over a plan.
struct PlanRewrite<'a> {
    session: &'a Arc<GpuSession>,
    loader: &'a Arc<BackgroundLoader>,
    options: &'a GrampusOptions,
    is_absence_shown: bool,
}

impl PlanRewrite<'_> {
    /// The plan with its aggregations moved. `note` comes from the nearest aggregation above, if that was not moved.
    fn rewrite(&mut self, plan: Arc<dyn ExecutionPlan>, note: Option<ScanNote>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut note = note;
        if let Some(aggregation) = plan.downcast_ref::<AggregateExec>() {
            match aggregation.mode() {
                AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => {
                    match self.replace(aggregation) {
                        Ok(replaced) => return replaced,
                        Err(CpuReason::Refused(Refusal::NoNvcomp(error))) => {
                            return plan_err!("{error} (grampus.gpu_decompress = 'nvcomp')");
                        }
                        Err(reason) => note = Some(self.note(&reason)),
                    }
                }
                AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce => {}
            }
        }
        if let Some(scan) = plan.downcast_ref::<OrcScanExec>() {
            return self.noted_scan(&plan, scan, note);
        }
        let children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
        let mut rewritten = Vec::with_capacity(children.len());
        for child in children {
            rewritten.push(self.rewrite(child, note.clone())?);
        }
        replace_children_if_necessary(plan, rewritten)
    }

    /// A scan that the CPU reads, with its note.
    fn noted_scan(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        scan: &OrcScanExec,
        note: Option<ScanNote>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let reason = match &note {
            Some(ScanNote::Nothing) => return Ok(Arc::clone(plan)),
            Some(ScanNote::Reason(reason, work)) => Some((reason, work)),
            None => None,
        };
        if self.options.device == Device::Gpu && !scan.work().concat().is_empty() {
            let reason = reason.map_or("its rows are wanted as they are, not aggregated", |(reason, _)| {
                reason.as_ref()
            });
            return plan_err!("the query cannot run on the GPU: {reason} (grampus.device = 'gpu')");
        }
        Ok(match reason {
            Some((reason, work)) => {
                let load = work.as_ref().map(|work| LoadAfterRun {
                    loader: Arc::downgrade(self.loader),
                    work: Arc::clone(work),
                });
                let listener = load.map(|load| Arc::new(load) as Arc<dyn ExecutionListener>);
                Arc::new(scan.with_note(Arc::clone(reason), listener))
            }
            None => Arc::clone(plan),
        })
    }

    fn note(&mut self, reason: &CpuReason) -> ScanNote {
        match reason {
            CpuReason::NoRows => ScanNote::Nothing,
            CpuReason::NoDevice(absence) => {
                let is_first = !std::mem::replace(&mut self.is_absence_shown, true);
                let is_error = self.options.device == Device::Gpu;
                match is_first || is_error {
                    true => ScanNote::Reason(absence.to_string().into(), None),
                    false => ScanNote::Nothing,
                }
            }
            other => ScanNote::Reason(other.to_string().into(), other.loaded_afterwards().cloned()),
        }
    }

    /// The operator that replaces `aggregation`.
    fn replace(&self, aggregation: &AggregateExec) -> Result<Result<Arc<dyn ExecutionPlan>>, CpuReason> {
        let mut lowered = lower(aggregation)?;
        lowered.program.check().map_err(CpuReason::Program)?;
        let scan = lowered.scan().ok_or(Refusal::NoOrcScan)?;
        if scan.work().iter().all(Vec::is_empty) {
            return Err(CpuReason::NoRows);
        }
        // The device is checked first, since the check reads no file.
        let session = self.session;
        let (settings, profile) = (self.options.device_settings(), session.profile(self.options));
        let device = session.planned_device(&settings, &profile);
        let device = device.map_err(CpuReason::NoDevice)?;
        let dictionary = session.dictionary();
        let decompression = ChunkDecompression::of(self.options, &scan.shared())?;
        let builder = InputBuilder {
            dictionary: &dictionary,
            column_ids: &session.column_ids,
            locations: &session.locations,
            decompression: &decompression,
            cache: &session.inputs,
        };
        let gpu_input = builder.input(&mut lowered)?;
        if gpu_input.input.stripes.is_empty() {
            return Err(CpuReason::NoRows);
        }
        let work = self.decide(lowered, (gpu_input, decompression), device)?;
        Ok(replacement(aggregation, work))
    }

    /// The aggregation's work for the GPU, if the GPU is to compute the aggregation.
    fn decide(
        &self,
        lowered: Lowered,
        (gpu_input, decompression): (Arc<GpuInput>, ChunkDecompression),
        device: Arc<dyn Runner>,
    ) -> Result<GpuWork, CpuReason> {
        let may_stay_closed = !device.is_open() && self.options.device == Device::Auto;
        if may_stay_closed {
            // The time is longest if all rows pass. If that is short too, no sample is needed.
            let longest = Workload::of(&lowered.program, &gpu_input.input, 1.0);
            let cpu = longest.cpu_time(&self.session.profile(self.options));
            if cpu < MIN_GPU_TIME {
                return Err(CpuReason::TooShort { cpu });
            }
        }
        let key = FilterKey::of(&lowered.program, &lowered.arguments, &gpu_input.input);
        let selectivity = match self.session.selectivity(key) {
            Some(known) => known,
            // Without dependent columns, only the estimate for the CPU depends on the selectivity, and a required GPU
            // needs no such estimate.
            None if self.options.device == Device::Gpu && !has_dependents(&lowered.program) => 1.0,
            None => {
                let sampled = sampled_selectivity(&lowered, &gpu_input).map_err(Refusal::File)?;
                self.session.remember_sample(key, sampled);
                sampled
            }
        };
        let size = Workload::of(&lowered.program, &gpu_input.input, selectivity);
        let mut work = GpuWork {
            lowered,
            gpu_input,
            planned_device: device,
            settings: self.options.device_settings(),
            runtime: self.options.runtime.clone(),
            profile: self.session.profile(self.options),
            session: Arc::clone(self.session),
            backing: self.backing(),
            decompression,
            selectivity,
            preview: OnceLock::new(),
            reason: format!("grampus.device = '{}'", self.options.device),
            strict: self.options.device == Device::Gpu,
        };
        if self.options.device == Device::Auto {
            match self.compare(&size, &work)? {
                Comparison::Gpu(reason) => work.reason = reason,
                Comparison::Cpu { gpu, cpu, hot: None } => return Err(CpuReason::Slower { gpu, cpu }),
                Comparison::Cpu {
                    gpu,
                    cpu,
                    hot: Some(hot),
                } => {
                    let work = Arc::new(work);
                    return Err(CpuReason::SlowerNow { gpu, cpu, hot, work });
                }
            }
        }
        Ok(work)
    }

    /// The processor for the work, and why.
    fn compare(&self, size: &Workload, work: &GpuWork) -> Result<Comparison, CpuReason> {
        let preview = work.plan(&*work.planned_device).map_err(CpuReason::Program)?;
        // EXPLAIN shows this preview.
        let RunPreview {
            columns: choices,
            is_compiled,
            ..
        } = work.preview.get_or_init(|| preview);
        let profile = self.session.profile(self.options);
        let (gpu, cpu) = (gpu_time(&profile, choices), size.cpu_time(&profile));
        let (hot, is_resident) = (hot_time(&profile, choices), is_resident(choices));
        let is_open = work.planned_device.is_open();
        if *is_compiled && is_resident && least_gpu_time(&profile) < cpu {
            return Ok(Comparison::Gpu(format!(
                "its columns are on the device: an estimated {}, {} on the CPU",
                shown(gpu),
                shown(cpu)
            )));
        }
        let opening = match is_open {
            true => Duration::ZERO,
            false => Duration::from_secs_f64(profile.open_s),
        };
        let compiling = if *is_compiled { Duration::ZERO } else { COMPILE_TIME };
        let gpu = gpu + opening + compiling;
        if gpu < cpu {
            return Ok(Comparison::Gpu(format!(
                "it is estimated to take {} instead of {}",
                shown(gpu),
                shown(cpu)
            )));
        }
        let is_loaded = self.options.gpu_load == GpuLoad::Background
            && hot < cpu
            && cpu >= MIN_GPU_TIME
            && self.loader.may_load(work.load_key());
        Ok(Comparison::Cpu {
            gpu,
            cpu,
            hot: is_loaded.then_some(hot),
        })
    }

    fn backing(&self) -> BackingChoice {
        match (self.options.gpu_backing, self.options.local_io) {
            (GpuBacking::Mapped, _) => BackingChoice::All(Backing::Mapped),
            (GpuBacking::Queued, _) => BackingChoice::All(Backing::Queued),
            (GpuBacking::Resident, _) => BackingChoice::All(Backing::Resident),
            (GpuBacking::Paged, _) => BackingChoice::All(Backing::Paged),
            // With LocalIo::Read nothing is mapped, so no handler of SIGBUS is installed.
            (GpuBacking::Auto, LocalIo::Read) => BackingChoice::All(Backing::Resident),
            (GpuBacking::Auto, LocalIo::Mmap) => BackingChoice::Auto,
        }
    }
}

/// The GPU's operator. If `aggregation` is a whole aggregation, a final one above merges the partial state.
fn replacement(aggregation: &AggregateExec, work: GpuWork) -> Result<Arc<dyn ExecutionPlan>> {
    let partial = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregation.group_expr().clone(),
        aggregation.aggr_expr().to_vec(),
        aggregation.filter_expr().to_vec(),
        Arc::clone(aggregation.input()),
        aggregation.input_schema(),
    )?;
    let mut cpu: Arc<dyn ExecutionPlan> = Arc::new(partial);
    if cpu.output_partitioning().partition_count() > 1 {
        cpu = Arc::new(CoalescePartitionsExec::new(cpu));
    }
    let gpu: Arc<dyn ExecutionPlan> = Arc::new(GpuAggregateExec::new(work, cpu));
    if *aggregation.mode() == AggregateMode::Partial {
        return Ok(gpu);
    }
    let keys = aggregation.group_expr().as_final();
    let partitions = aggregation.properties().output_partitioning().partition_count();
    let (mode, input) = match aggregation.mode() {
        AggregateMode::SinglePartitioned if partitions > 1 => {
            let repartitioned = RepartitionExec::try_new(gpu, Partitioning::Hash(keys.input_exprs(), partitions))?;
            (
                AggregateMode::FinalPartitioned,
                Arc::new(repartitioned) as Arc<dyn ExecutionPlan>,
            )
        }
        _ => (AggregateMode::Final, gpu),
    };
    let merged = AggregateExec::try_new(
        mode,
        keys,
        aggregation.aggr_expr().to_vec(),
        aggregation.filter_expr().to_vec(),
        input,
        aggregation.input_schema(),
    )?;
    Ok(Arc::new(merged))
}
