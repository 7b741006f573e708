//! `Attempt`: one attempt at a request, from planning to results.
//!
//! 1. The request is planned (`planner`). If an earlier run found all columns resident, its plan is taken
//!    (`KeptPlans`), without 2 and 3.
//! 2. The files of mapped columns are registered.
//! 3. A `TransferPlan` is made. Beside that, the kernel is loaded that will most likely be launched.
//! 4. The kernel is generated for the columns as they lie, and the I/O stack is bound if a column is read by command.
//! 5. The query is run (`QueryRun`), and the pool learns which columns are complete.
//! 6. If there are results, the open files are checked once more against the versions that were planned for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use grampus_cuda::MappedFile;
use grampus_io_stack::stack::StackError;

use crate::codegen::QueryKernel;
use crate::error::{RefusalReason, RunError};
use crate::generated_kernels::GeneratedKernels;
use crate::input::Placement;
use crate::kernel_cache::Origin;
use crate::options::{Backing, ColumnChoice, Request};
use crate::output::{Cost, Output};
use crate::runtime::device_state::DeviceState;
use crate::runtime::kept_plans::{KeptPlan, KeptPlans};
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::kernel_shape::{planned_shape, transferred_shape};
use crate::runtime::launch::query_run::{QueryRun, RunOutcome};
use crate::runtime::launch::remedies::Remedies;
use crate::runtime::launch::stopped::Stopped;
use crate::runtime::memory::buffer_pool::QueryId;
use crate::runtime::planner::{self, QueryPlan};
use crate::runtime::query_resources::QueryResources;
use crate::runtime::transfer::encoded_columns::CpuDecodeSet;
use crate::runtime::transfer::transfer_plan::{TransferContext, TransferPlan};

/// The tiles of all kernels divide so many rows: windows may end there.
const TILE_GRAIN_ROWS: u64 = 512;
/// Groups of a query from which its next run groups in the table of all warps alone.
const MANY_GROUPS: usize = 1 << 13;

/// A request, with what is one attempt's.
pub(crate) struct Attempt<'a> {
    pub(crate) state: &'a DeviceState,
    pub(crate) kept_plans: &'a KeptPlans,
    pub(crate) request: &'a Request<'a>,
    pub(crate) resources: &'a QueryResources,
    /// Threads that read files and copy.
    pub(crate) threads: usize,
    pub(crate) remedies: &'a Remedies,
}

impl Attempt<'_> {
    /// Plans and runs the request.
    pub(crate) fn run(&self) -> Result<Output, Stopped> {
        let (state, request) = (self.state, self.request);
        let kept = match self.remedies.plans_anew {
            true => None,
            false => self.kept_plans.find(request, &state.residency),
        };
        let again = match &kept {
            Some(kept) => kept.plan_again(state, request)?,
            None => None,
        };
        let kept = kept.filter(|_| again.is_some());
        let mut plan = match again {
            Some(plan) => plan,
            None => planner::plan(state, request, self.remedies.memory.commands())?,
        };
        let outcome = self.within_pool(&mut plan, kept.as_deref()).and_then(|outcome| {
            if let RunOutcome::Done(_) = outcome {
                unchanged(state, &plan)?;
            }
            Ok(outcome)
        });
        match outcome {
            Ok(RunOutcome::Done(output)) => Ok(*output),
            Ok(RunOutcome::Lost) => Err(Stopped::KeptPlanLost),
            // The CPU's decoder returns the values, or a precise error.
            Ok(RunOutcome::Undecoded { column, .. }) if request.is_narrow(column) => {
                Err(RunError::from(RefusalReason::NarrowLayout { column }).into())
            }
            Ok(RunOutcome::Undecoded { stripe, column }) => Err(self.undecoded(&plan, stripe, column)),
            Err(error) => {
                if !is_beyond_files(&error) {
                    unchanged(state, &plan)?; // bytes of a changed file may cause any error
                }
                Err(Stopped::Failed {
                    error,
                    reads_by_command: plan.reads_by_command(),
                })
            }
        }
    }

    fn undecoded(&self, plan: &QueryPlan, stripe: usize, column: usize) -> Stopped {
        let (input, at) = (self.request.input, &self.request.input.stripes[stripe]);
        log::info!(
            "{}, stripe {}: {} is left to the CPU's decoder",
            input.files[at.file].path.display(),
            at.index,
            self.request.program.columns[column].name
        );
        Stopped::Undecoded {
            file: plan.ids[at.file],
            column: input.column_ids[column],
        }
    }

    /// Runs a plan as a query of the pool. `kept`: the plan is this one.
    fn within_pool(&self, plan: &mut QueryPlan, kept: Option<&KeptPlan>) -> Result<RunOutcome, RunError> {
        let state = self.state;
        if plan.reads_by_command() {
            state.commands.set_memory_aside(&state.pool)?;
        } else {
            self.give_up_old_stack(plan);
        }
        let query = state.pool().begin();
        let result = match kept {
            Some(kept) => self.over_resident(query, plan, kept),
            None => self.transfer_and_run(query, plan),
        };
        let well = matches!(result, Ok(RunOutcome::Done(_) | RunOutcome::Lost));
        state.pool().finish(query, well);
        result
    }

    /// Gives the sector cache's memory to columns that have no other place, if it was used less recently than the
    /// columns that would be evicted.
    fn give_up_old_stack(&self, plan: &QueryPlan) {
        if plan.missing_bytes == 0 {
            return; // to ask the pool takes as long as it has columns
        }
        let (unused, oldest) = {
            let pool = self.state.pool();
            (pool.unused(), pool.oldest_age())
        };
        if plan.missing_bytes > unused {
            self.state.commands.give_up(&self.state.pool, oldest.max(1));
        }
    }

    /// Runs over columns that are where they were.
    fn over_resident(&self, query: QueryId, plan: &QueryPlan, kept: &KeptPlan) -> Result<RunOutcome, RunError> {
        let transfer = kept.transfer_plan(&mut self.state.pool(), query);
        match transfer {
            Some(transfer) => self.execute(plan, &transfer, Cost::default()),
            None => Ok(RunOutcome::Lost),
        }
    }

    fn transfer_and_run(&self, query: QueryId, plan: &mut QueryPlan) -> Result<RunOutcome, RunError> {
        let (state, request) = (self.state, self.request);
        let began = Instant::now();
        let mappings = map_files(state, request, plan)?;
        let register = began.elapsed();
        let address = |mapping: &Option<Arc<MappedFile>>| mapping.as_ref().and_then(|m| m.device_address());
        let mapped: Vec<Option<u64>> = mappings.iter().map(address).collect();
        let backings = plan.backings();
        let cold: Vec<bool> = (0..plan.ids.len()).map(|file| plan.is_cold(file)).collect();
        let cpu_decode = CpuDecodeSet {
            residency: &state.residency,
            everything: self.remedies.decodes_on_cpu,
        };
        let mut context = TransferContext {
            device: &state.device,
            pool: &state.pool,
            query,
            constants: &state.constants,
            file_ids: &plan.ids,
            cold: &cold,
            mapped: &mapped,
            backings: &backings,
            windows_first: self.remedies.memory.windows_first(),
            tile_rows: TILE_GRAIN_ROWS,
            staging: &mut self.resources.staging(),
            cpu_decode: &cpu_decode,
            threads: self.threads,
        };
        let (transfer, loading) = transfer_and_load(state, request, plan, &mut context)?;
        planner::open_also(state, request, plan, transfer.files(request))?;
        let cost = Cost {
            register,
            compile: loading,
            ..Cost::default()
        };
        let result = self.execute(plan, &transfer, cost);
        let mut pool = state.pool();
        if let Ok(RunOutcome::Done(output)) = &result {
            if output.groups >= MANY_GROUPS {
                plan.kernel = plan.kernel.clone().with_more_groups(request.program);
            }
            if self.remedies.memory.commands() {
                let ran = (&*plan, &transfer);
                self.kept_plans.keep(request, &state.residency, ran, (&pool, query));
            }
        }
        for column in &transfer.page_table.columns {
            pool.pages_came(query, &column.key, column.published.load(Ordering::Relaxed));
        }
        drop(pool);
        unbroken(state, plan, &mappings)?;
        result
    }

    fn execute(&self, plan: &QueryPlan, transfer: &TransferPlan, cost: Cost) -> Result<RunOutcome, RunError> {
        let (state, request) = (self.state, self.request);
        let shape = transferred_shape(request, plan, transfer);
        let kernel = state.generated.get(request.program, &shape)?;
        let query = QueryRun {
            request,
            plan,
            transfer,
            kernel: &kernel,
            io: IoBinding::new(request, plan, state, &self.resources.status)?,
            state,
            resources: self.resources,
            threads: self.threads.max(1),
        };
        query.run(cost)
    }
}

/// Whether an error has nothing to do with the bytes of files.
fn is_beyond_files(e: &RunError) -> bool {
    let is_cuda = matches!(e, RunError::Cuda(_) | RunError::Stack(StackError::Cuda(_)));
    is_cuda || matches!(e, RunError::Cancelled) || e.shortage().is_some()
}

/// Whether the open files are still the versions that were planned for.
fn unchanged(state: &DeviceState, plan: &QueryPlan) -> Result<(), RunError> {
    for source in plan.sources.iter().flatten() {
        if let Err(e) = source.check() {
            state.forget_file(&source.version.path);
            return Err(e);
        }
    }
    Ok(())
}

/// Whether no mapping has lost bytes. `mappings`: by file of the input.
fn unbroken(state: &DeviceState, plan: &QueryPlan, mappings: &[Option<Arc<MappedFile>>]) -> Result<(), RunError> {
    for (mapping, source) in mappings.iter().zip(&plan.sources) {
        let (Some(mapping), Some(source)) = (mapping, source) else {
            continue;
        };
        if mapping.has_failed() {
            state.forget_file(&source.version.path);
            source.check()?;
            return Err(source.lost_bytes());
        }
    }
    Ok(())
}

/// Makes the transfer plan, and loads the kernel beside that: both take milliseconds, and copies would hold up the
/// loading. Returns the time of the loading too.
fn transfer_and_load(
    state: &DeviceState,
    request: &Request<'_>,
    plan: &QueryPlan,
    context: &mut TransferContext<'_>,
) -> Result<(TransferPlan, Duration), RunError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("grampus-loader".to_owned());
        let load = || load_ahead(state, request, plan);
        let loading = plan.reads_files().then(|| thread.spawn_scoped(scope, load));
        let transfer = TransferPlan::new(request, context);
        let loaded = match loading.map(|started| started.map(ScopedJoinHandle::join)) {
            Some(Ok(Ok(took))) => took,
            Some(Ok(Err(panic))) => std::panic::resume_unwind(panic),
            Some(Err(_)) | None => Duration::ZERO, // the launch loads the kernel
        };
        Ok((transfer?, loaded))
    })
}

/// Loads the kernel that will most likely be launched, if the folder has it. Returns the time. If the loading fails,
/// the launch finds out again.
fn load_ahead(state: &DeviceState, request: &Request<'_>, plan: &QueryPlan) -> Duration {
    let kernel = planned_kernel(&state.generated, request, plan);
    match kernel.map(|kernel| state.kernels.ready(&kernel)) {
        Ok(Ok(Some(loaded))) if loaded.origin != Origin::Memory => loaded.took,
        Ok(Err(e)) => {
            log::warn!("a kernel was not loaded ahead: {e}");
            Duration::ZERO
        }
        _ => Duration::ZERO,
    }
}

/// Registers the files of mapped columns. By file of the input.
fn map_files(
    state: &DeviceState,
    request: &Request<'_>,
    plan: &QueryPlan,
) -> Result<Vec<Option<Arc<MappedFile>>>, RunError> {
    let mut wanted = vec![false; request.input.files.len()];
    for stripe in request.input.stripes.iter().filter(|s| !s.selected.is_empty()) {
        let is_mapped = |(place, choice): (&Placement, &ColumnChoice)| {
            choice.backing == Backing::Mapped && matches!(place, Placement::Direct(_))
        };
        wanted[stripe.file] |= stripe.columns.iter().zip(&plan.choices).any(is_mapped);
    }
    let mut mapped = vec![None; wanted.len()];
    for (at, version) in request.input.files.iter().enumerate().filter(|(at, _)| wanted[*at]) {
        let stop = || request.is_cancelled();
        mapped[at] = state.mapped_files.get(plan.ids[at], version, stop)?;
        if request.is_cancelled() {
            return Err(RunError::Cancelled);
        }
    }
    Ok(mapped)
}

/// The planned kernel, if every column comes to be where the plan has it.
pub(crate) fn planned_kernel(
    generated: &GeneratedKernels,
    request: &Request<'_>,
    plan: &QueryPlan,
) -> Result<Arc<QueryKernel>, RunError> {
    generated.get(request.program, &planned_shape(request, plan))
}
