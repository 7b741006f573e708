//! The executor: a request, from planning until one of its attempts comes to an end.
//!
//! 1. The request is planned (`planner`). If an earlier run found all columns resident, its plan is taken
//!    (`KeptPlans`), without 2 and 3.
//! 2. The files of mapped columns are registered.
//! 3. A `TransferPlan` is made. Beside that, the kernel is loaded that will most likely be launched.
//! 4. The kernel is generated for the columns as they lie, and the I/O stack is bound if a column is read by command.
//! 5. The attempt is run (`QueryRun`), and the pool learns which columns are complete.
//! 6. If the device could not decode a column, the next attempt has the CPU decode it.
//! 7. If it is short of memory, the request gives something up and begins anew (`MemoryRelief`).
//! 8. When an attempt has results, the open files are checked once more against the versions that were planned for.

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
use crate::runtime::launch::device_context::DeviceContext;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::kernel_shape::{planned_shape, transferred_shape};
use crate::runtime::launch::memory_relief::MemoryRelief;
use crate::runtime::launch::query_run::{QueryRun, RunOutcome};
use crate::runtime::memory::buffer_pool::QueryId;
use crate::runtime::memory::page_staging::PAGE_STAGING_SHARE;
use crate::runtime::planner::{self, QueryPlan};
use crate::runtime::query_resources::QueryResources;
use crate::runtime::transfer::encoded_columns::CpuDecodeSet;
use crate::runtime::transfer::transfer_plan::{TransferContext, TransferPlan};
use crate::runtime::turn_queue::Turn;

/// The tiles of all kernels divide so many rows: windows may end there.
const TILE_GRAIN_ROWS: u64 = 512;
/// Groups of a query from which its next run groups in the table of all warps alone.
const MANY_GROUPS: usize = 1 << 13;

/// A request while it is run, with what is its own.
struct Execution<'a> {
    state: &'a DeviceState,
    kept_plans: &'a KeptPlans,
    request: &'a Request<'a>,
    resources: &'a mut QueryResources,
    /// Threads that read files and copy.
    threads: usize,
    /// What the request has given up because it was short of memory.
    relief: MemoryRelief,
    /// The last plan has columns that are read by command.
    reads_by_command: bool,
    /// The device could not decode a column: the CPU decodes everything.
    decodes_on_cpu: bool,
}

/// Runs a request.
pub(crate) fn run(
    state: &DeviceState,
    kept_plans: &KeptPlans,
    request: &Request<'_>,
    turn: &Turn<'_>,
) -> Result<Output, RunError> {
    let stop = || request.is_cancelled();
    let mut relief = MemoryRelief::default();
    loop {
        let left = turn.left();
        state.pool().look_again();
        let (result, reads_by_command) = run_once(state, kept_plans, request, turn, relief);
        let Some(shortage) = result.as_ref().err().and_then(RunError::shortage) else {
            return result;
        };
        if stop() {
            return Err(RunError::Cancelled);
        }
        if relief.next(state, shortage, reads_by_command) {
            continue;
        }
        if request.waits_for_memory && relief.may_wait() && turn.wait_for_memory(left, stop) {
            continue;
        }
        return result;
    }
}

/// Runs a request with resources of its own, until an attempt comes to an end. Says whether columns were to be read by
/// command.
fn run_once(
    state: &DeviceState,
    kept_plans: &KeptPlans,
    request: &Request<'_>,
    turn: &Turn<'_>,
    relief: MemoryRelief,
) -> (Result<Output, RunError>, bool) {
    let mut resources = match state.resources.take() {
        Ok(resources) => resources,
        Err(e) => return (Err(e.into()), false),
    };
    let mut execution = Execution {
        state,
        kept_plans,
        request,
        resources: &mut resources,
        // Queries that run side by side share the processors.
        threads: (state.threads / turn.running().max(1)).max(state.threads.min(2)),
        relief,
        reads_by_command: false,
        decodes_on_cpu: false,
    };
    let result = execution.attempts();
    let reads_by_command = execution.reads_by_command;
    state.resources.give_back(resources);
    (result, reads_by_command)
}

impl Execution<'_> {
    /// Attempts, until one comes to an end.
    fn attempts(&mut self) -> Result<Output, RunError> {
        let (state, request) = (self.state, self.request);
        let mut kept = self.kept_plans.find(request, &state.residency);
        loop {
            if request.is_cancelled() {
                return Err(RunError::Cancelled);
            }
            let again = match &kept {
                Some(kept) => kept.plan_again(state, request)?,
                None => None,
            };
            kept = kept.filter(|_| again.is_some());
            let mut plan = match again {
                Some(plan) => plan,
                None => planner::plan(state, request, self.relief.commands())?,
            };
            self.reads_by_command = plan.reads_by_command();
            let outcome = match self.attempt(&mut plan, kept.as_deref()) {
                Ok(outcome) => outcome,
                Err(e) => {
                    if !is_beyond_files(&e) {
                        unchanged(state, &plan)?; // bytes of a changed file may cause any error
                    }
                    return Err(e);
                }
            };
            match outcome {
                RunOutcome::Done(output) => {
                    unchanged(state, &plan)?;
                    return Ok(*output);
                }
                RunOutcome::Lost => kept = None,
                // The CPU's decoder returns the values, or a precise error.
                RunOutcome::Undecoded { column, .. } if request.is_narrow(column) => {
                    return Err(RefusalReason::NarrowLayout { column }.into());
                }
                RunOutcome::Undecoded { stripe, column } => {
                    let at = &request.input.stripes[stripe];
                    let (file, name) = (
                        &request.input.files[at.file].path,
                        &request.program.columns[column].name,
                    );
                    log::info!(
                        "{}, stripe {}: {name} is left to the CPU's decoder",
                        file.display(),
                        at.index
                    );
                    let column = request.input.column_ids[column];
                    state.residency.leave_to_cpu(plan.ids[at.file], column);
                    self.decodes_on_cpu = true;
                }
            }
        }
    }

    /// `kept`: the plan is this one.
    fn attempt(&mut self, plan: &mut QueryPlan, kept: Option<&KeptPlan>) -> Result<RunOutcome, RunError> {
        let state = self.state;
        if plan.reads_by_command() {
            state.commands.set_memory_aside(&state.pool)?;
        } else {
            self.give_up_old_stack(plan);
        }
        let query = state.pool().begin();
        let result = match kept {
            Some(kept) => self.attempt_again(query, plan, kept),
            None => self.attempt_as(query, plan),
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

    /// An attempt over columns that are where they were.
    fn attempt_again(&mut self, query: QueryId, plan: &QueryPlan, kept: &KeptPlan) -> Result<RunOutcome, RunError> {
        let transfer = kept.transfer_plan(&mut self.state.pool(), query);
        match transfer {
            Some(transfer) => self.run_attempt(plan, &transfer, Cost::default()),
            None => Ok(RunOutcome::Lost),
        }
    }

    fn attempt_as(&mut self, query: QueryId, plan: &mut QueryPlan) -> Result<RunOutcome, RunError> {
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
            everything: self.decodes_on_cpu,
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
            windows_first: self.relief.windows_first(),
            tile_rows: TILE_GRAIN_ROWS,
            staging: &mut self.resources.staging,
            staging_bytes: state.staging_bytes(),
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
        let result = self.run_attempt(plan, &transfer, cost);
        let mut pool = state.pool();
        if let Ok(RunOutcome::Done(output)) = &result {
            if output.groups >= MANY_GROUPS {
                plan.kernel = plan.kernel.clone().with_more_groups(request.program);
            }
            if self.relief.commands() {
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

    fn run_attempt(&mut self, plan: &QueryPlan, transfer: &TransferPlan, cost: Cost) -> Result<RunOutcome, RunError> {
        let (state, request) = (self.state, self.request);
        let shape = transferred_shape(request, plan, transfer);
        let kernel = state.generated.get(request.program, &shape)?;
        let QueryResources {
            compute,
            copy,
            placing,
            ring,
            page_slots,
            faults,
            status,
            scratch,
            decode_lanes,
            page_staging,
            page_library_memory,
            ..
        } = &mut *self.resources;
        let query = QueryRun {
            request,
            plan,
            transfer,
            kernel: &kernel,
            io: IoBinding::new(request, plan, state, status)?,
        };
        let context = DeviceContext {
            device: &state.device,
            compute,
            copy,
            ring,
            page_slots,
            placing,
            faults,
            kernels: &state.kernels,
            decode_lanes,
            library_bytes: state.nvcomp_bytes() as usize,
            page_staging: (page_staging, (state.staging_bytes() / PAGE_STAGING_SHARE) as usize),
            page_library_memory,
            residency: &state.residency,
            threads: self.threads,
            launch_bytes: state.runtime_options.launch_bytes,
            launch_rows: state.runtime_options.launch_rows,
            free_bytes: state.facts.free_bytes,
        };
        query.run(&context, scratch, cost)
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
