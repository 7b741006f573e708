//! The optimizer rule: replaces partial aggregations over ORC scans by [`GpuAggregateExec`] where that can be and is worth it. Everywhere
//! else the plan stays as it is and the scan says why, in EXPLAIN; with `grampus.device = 'gpu'` that is an error.

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
use grampus_gpu_exec::gpu::{Backing, BackingChoice};
use grampus_gpu_exec::output::RunError;

use super::choose::{Work, gpu_time, has_dependents, hot_time, least_gpu_time, sampled_selectivity, shown};
use super::exec::{GpuAggregateExec, GpuWork};
use super::lower::{Lowered, Reason, lower};
use super::place::{Placed, place};
use super::session::{FilterKey, GpuSession};
use crate::config::{Device, GpuBacking, GrampusOptions, LocalIo};
use crate::scan::exec::OrcScanExec;

/// A query that takes the CPU no longer is not worth finding out how long.
const WORTH_SAMPLING: Duration = Duration::from_millis(5);

/// Moves filtered aggregates to the GPU. Belongs after DataFusion's own rules: it wants the plan as it will be run.
#[derive(Debug)]
pub struct GpuAggregates {
    session: Arc<GpuSession>,
}

impl GpuAggregates {
    /// The rule for a session that keeps its device in `session`.
    pub fn new(session: Arc<GpuSession>) -> Self {
        Self { session }
    }
}

impl PhysicalOptimizerRule for GpuAggregates {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let options = config.extensions.get::<GrampusOptions>().cloned().unwrap_or_default();
        if options.device == Device::Cpu {
            return Ok(plan);
        }
        let mut pass = Pass {
            session: &self.session,
            options: &options,
            absence_said: false,
        };
        pass.rewrite(plan, None)
    }

    fn name(&self) -> &'static str {
        "gpu_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Why an aggregation stays on the CPU.
enum Stays {
    /// There is nothing to run.
    Nothing,
    /// There is no device: said once in a plan.
    NoDevice(Reason),
    /// Anything else.
    Because(Reason),
}

impl From<Reason> for Stays {
    fn from(reason: Reason) -> Self {
        Self::Because(reason)
    }
}

/// One walk over a plan.
struct Pass<'a> {
    session: &'a Arc<GpuSession>,
    options: &'a GrampusOptions,
    absence_said: bool,
}

/// Why a scan is not read by the GPU; empty: there is nothing to be said.
type Note = Arc<str>;

impl Pass<'_> {
    /// `plan` with its aggregations moved. `note`: why the nearest aggregation above was not.
    fn rewrite(&mut self, plan: Arc<dyn ExecutionPlan>, note: Option<Note>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut note = note;
        if let Some(aggregation) = plan.downcast_ref::<AggregateExec>() {
            match aggregation.mode() {
                AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => {
                    match self.replace(aggregation) {
                        Ok(replaced) => return replaced,
                        Err(stays) => note = Some(self.note(stays)),
                    }
                }
                AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce => {}
            }
        }
        if let Some(scan) = plan.downcast_ref::<OrcScanExec>() {
            return self.scan_stays(&plan, scan, note);
        }
        let children: Vec<Arc<dyn ExecutionPlan>> = plan.children().into_iter().cloned().collect();
        let mut rewritten = Vec::with_capacity(children.len());
        for child in children {
            rewritten.push(self.rewrite(child, note.clone())?);
        }
        replace_children_if_necessary(plan, rewritten)
    }

    /// A scan that the CPU reads.
    fn scan_stays(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        scan: &OrcScanExec,
        note: Option<Note>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if self.options.device == Device::Gpu && note.as_deref() != Some("") && !scan.work().concat().is_empty() {
            let reason = note
                .as_deref()
                .unwrap_or("its rows are wanted as they are, not aggregated");
            return plan_err!("the query cannot run on the GPU: {reason} (grampus.device = 'gpu')");
        }
        Ok(match note.filter(|note| !note.is_empty()) {
            Some(note) => Arc::new(scan.with_note(note)),
            None => Arc::clone(plan),
        })
    }

    fn note(&mut self, stays: Stays) -> Note {
        match stays {
            Stays::Nothing => "".into(),
            Stays::Because(reason) => reason.into(),
            Stays::NoDevice(reason) => {
                let first = !std::mem::replace(&mut self.absence_said, true);
                let is_error = self.options.device == Device::Gpu;
                if first || is_error { reason.into() } else { "".into() }
            }
        }
    }

    /// What takes the place of `aggregation`.
    fn replace(&self, aggregation: &AggregateExec) -> Result<Result<Arc<dyn ExecutionPlan>>, Stays> {
        let mut lowered = lower(aggregation, &self.session.dictionary)?;
        lowered.program.check().map_err(|error| reason_of(&error))?;
        let scan = lowered.scan().ok_or_else(|| "there is no ORC scan below".to_owned())?;
        if scan.work().iter().all(Vec::is_empty) {
            return Err(Stays::Nothing);
        }
        // Absence first: it needs no look at the files.
        let is_open = match self.session.known_device(self.options) {
            Some(device) => device.map(|_| true),
            None => super::device::present(self.options).map(|()| false),
        };
        let is_open = is_open.map_err(Stays::NoDevice)?;
        let session = self.session;
        let placed = place(&mut lowered, &session.dictionary, &session.numbers, &session.survey)?;
        if placed.input.stripes.is_empty() {
            return Err(Stays::Nothing);
        }
        let work = self.decide(lowered, placed, is_open)?;
        Ok(replacement(aggregation, work))
    }

    /// Whether the GPU is to do it, and how.
    fn decide(&self, lowered: Lowered, placed: Placed, is_open: bool) -> Result<GpuWork, Stays> {
        let may_stay_closed = !is_open && self.options.device == Device::Auto;
        if may_stay_closed {
            // If all rows passed it could take no longer: often that settles it without a sample.
            let most = Work::of(&lowered.program, &placed.input, 1.0);
            let cpu = most.cpu_time(&self.session.profile(self.options));
            if cpu < WORTH_SAMPLING {
                return Err(too_little(cpu).into());
            }
        }
        let key = FilterKey::of(&lowered.program, &lowered.arguments, &placed.input);
        let selectivity = match self.session.selectivity(key) {
            Some(known) => known,
            // Nothing depends on it where no column is read only for rows that pass, and where nobody asks what the CPU would take.
            None if self.options.device == Device::Gpu && !has_dependents(&lowered.program) => 1.0,
            None => {
                let sampled = sampled_selectivity(&lowered, &placed).map_err(|error| crate::error::message(&error))?;
                self.session.remember_selectivity(key, sampled);
                sampled
            }
        };
        let size = Work::of(&lowered.program, &placed.input, selectivity);
        if may_stay_closed {
            self.worth_opening(&size)?;
        }
        let device = self.session.device(self.options).map_err(Stays::NoDevice)?;
        let mut work = GpuWork {
            lowered,
            placed,
            device,
            session: Arc::clone(self.session),
            backing: self.backing(),
            selectivity,
            choices: OnceLock::new(),
            why: format!("grampus.device = '{}'", self.options.device),
            strict: self.options.device == Device::Gpu,
        };
        if self.options.device == Device::Auto {
            work.why = self.worth_it(&size, &work)?;
        }
        Ok(work)
    }

    /// Why the GPU is to do it, by the time it is estimated to take.
    fn worth_it(&self, size: &Work, work: &GpuWork) -> Result<String, Stays> {
        let choices = work.device.choose(&work.request(&Arc::default()));
        let choices = choices.map_err(|error| reason_of(&error))?;
        let profile = self.session.profile(self.options);
        let (gpu, cpu) = (gpu_time(&profile, &choices), size.cpu_time(&profile));
        let hot = hot_time(&profile, &choices);
        // It is asked once.
        let _ = work.choices.set(choices);
        if gpu < cpu {
            return Ok(format!(
                "it is estimated to take {} instead of {}",
                shown(gpu),
                shown(cpu)
            ));
        }
        // Bringing columns that stay is an investment: it is made when queries of these columns have missed as much as it costs.
        let missed = self.session.miss_columns(&work.placed.input, cpu.saturating_sub(hot));
        if hot < cpu && missed >= gpu - cpu {
            return Ok(format!(
                "it is estimated to take {} instead of {} this time, and {} with its columns there",
                shown(gpu),
                shown(cpu),
                shown(hot)
            ));
        }
        Err(format!("the GPU is estimated to take {}, the CPU {}", shown(gpu), shown(cpu)).into())
    }

    /// Whether to open the device for what queries of this size would have saved so far, were it open.
    fn worth_opening(&self, size: &Work) -> Result<(), Stays> {
        let profile = self.session.profile(self.options);
        let (gpu, cpu) = (least_gpu_time(&profile), size.cpu_time(&profile));
        let missed = self.session.miss(cpu.saturating_sub(gpu));
        match missed.as_secs_f64() < profile.open_s {
            true => Err(too_little(cpu).into()),
            false => Ok(()),
        }
    }

    fn backing(&self) -> BackingChoice {
        match (self.options.gpu_backing, self.options.local_io) {
            (GpuBacking::Mapped, _) => BackingChoice::All(Backing::Mapped),
            (GpuBacking::Queued, _) => BackingChoice::All(Backing::Queued),
            (GpuBacking::Resident, _) => BackingChoice::All(Backing::Resident),
            (GpuBacking::Paged, _) => BackingChoice::All(Backing::Paged),
            // Files that others may truncate are not to be mapped.
            (GpuBacking::Auto, LocalIo::Read) => BackingChoice::All(Backing::Resident),
            (GpuBacking::Auto, LocalIo::Mmap) => BackingChoice::Auto,
        }
    }
}

/// Why the device stays closed for a query that the CPU answers in `time`.
fn too_little(time: Duration) -> Reason {
    format!(
        "the CPU takes an estimated {}, too little to open the GPU for",
        shown(time)
    )
}

/// An error of the runtime as a reason.
fn reason_of(error: &RunError) -> Reason {
    match error {
        RunError::Invalid(reason) => reason.clone(),
        other => other.to_string(),
    }
}

/// The GPU's operator instead of a partial aggregation; below a final one instead of a whole aggregation.
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
            let dealt = RepartitionExec::try_new(gpu, Partitioning::Hash(keys.input_exprs(), partitions))?;
            (
                AggregateMode::FinalPartitioned,
                Arc::new(dealt) as Arc<dyn ExecutionPlan>,
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
