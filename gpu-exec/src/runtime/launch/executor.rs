//! The executor: a request, from planning until one of its attempts comes to an end.
//!
//! 1. The request is planned (`planner`).
//! 2. The files of mapped columns are registered.
//! 3. A `TransferPlan` is made. Beside that, the kernel is loaded that will most likely be launched.
//! 4. The kernel is generated for the columns as they lie, and the I/O stack is bound if a column is read by command.
//! 5. The attempt is run (`QueryRun`), and the pool learns which columns are complete.
//! 6. If the group table was too small, the next attempt has a larger one. If the device could not decode a column, the
//!    CPU decodes it.
//! 7. When an attempt has results, the files are checked once more against the versions that were planned for.

use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::CudaError;

use crate::codegen::{Grouping, QueryKernel};
use crate::error::{RefusalReason, RunError};
use crate::input::Placement;
use crate::kernel_cache::{KernelCache, Origin};
use crate::options::{Backing, ColumnChoice, Request};
use crate::output::{Cost, Output};
use crate::runtime::device_state::DeviceState;
use crate::runtime::launch::device_context::DeviceContext;
use crate::runtime::launch::io_binding::IoBinding;
use crate::runtime::launch::kernel_shape::{planned_shape, transferred_shape};
use crate::runtime::launch::query_run::{QueryRun, RunOutcome};
use crate::runtime::planner::{self, QueryPlan, first_grouping};
use crate::runtime::transfer::transfer_plan::{TransferContext, TransferPlan};

/// The tiles of all kernels divide so many rows: windows may end there.
const TILE_GRAIN_ROWS: u64 = 512;
/// log2 of the group table's slots, at first and at most.
const FIRST_SLOTS_LOG2: u32 = 14;
const MAX_SLOTS_LOG2: u32 = 24;

/// Runs a request.
pub(crate) fn run(state: &mut DeviceState, request: &Request<'_>) -> Result<Output, RunError> {
    let result = attempts(state, request);
    state.cpu_decode.finish();
    result
}

/// Attempts, until one comes to an end.
fn attempts(state: &mut DeviceState, request: &Request<'_>) -> Result<Output, RunError> {
    let mut slots_log2 = FIRST_SLOTS_LOG2;
    let mut grouping = first_grouping(request);
    loop {
        let plan = planner::plan(state, request)?;
        match attempt(state, request, &plan, grouping, slots_log2)? {
            RunOutcome::Done(output) => {
                unchanged(state, &plan)?;
                return Ok(*output);
            }
            RunOutcome::MoreGroups if slots_log2 < MAX_SLOTS_LOG2 => {
                slots_log2 = (slots_log2 + 5).min(MAX_SLOTS_LOG2);
                grouping = Grouping::Global;
            }
            // The CPU's decoder returns the values, or a precise error.
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
                state
                    .cpu_decode
                    .insert(plan.ids[at.file], request.input.column_ids[column]);
            }
            RunOutcome::MoreGroups => {
                let slots = 1 << MAX_SLOTS_LOG2;
                return Err(RefusalReason::TooManyGroups { slots }.into());
            }
        }
    }
}

/// Whether the files are still the versions that were planned for: bytes read of another version may be anything.
fn unchanged(state: &mut DeviceState, plan: &QueryPlan) -> Result<(), RunError> {
    for source in plan.sources.iter().flatten() {
        if let Err(e) = source.version.check() {
            state.forget_file(&source.version.path);
            return Err(e);
        }
    }
    Ok(())
}

fn attempt(
    state: &mut DeviceState,
    request: &Request<'_>,
    plan: &QueryPlan,
    grouping: Grouping,
    slots_log2: u32,
) -> Result<RunOutcome, RunError> {
    state.pool.begin();
    state.mapped_files.begin();
    let began = Instant::now();
    let mapped = map_files(state, request, plan)?;
    let register = began.elapsed();
    let backings = plan.backings();
    let cold: Vec<bool> = (0..plan.ids.len()).map(|file| plan.is_cold(file)).collect();
    let mut context = TransferContext {
        device: &state.device,
        pool: &mut state.pool,
        constants: &mut state.constants,
        file_ids: &plan.ids,
        cold: &cold,
        mapped: &mapped,
        backings: &backings,
        tile_rows: TILE_GRAIN_ROWS,
        staging: &mut state.staging,
        staging_bytes: state.runtime_options.staging_bytes,
        cpu_decode: &state.cpu_decode,
        threads: state.threads,
    };
    let planned = transfer_and_load(&state.kernels, request, plan, grouping, &mut context);
    let result = planned.and_then(|(transfer, loading)| {
        let cost = Cost {
            register,
            compile: loading,
            ..Cost::default()
        };
        let result = run_attempt(state, request, plan, &transfer, grouping, slots_log2, cost);
        for piece in &transfer.page_table.columns {
            state
                .pool
                .pages_came(&piece.key, piece.published.load(Ordering::Relaxed));
        }
        if let Some(piece) = &transfer.windows.memory {
            state.pool.give_back(piece);
        }
        result
    });
    // An attempt with too few groups has loaded all columns nevertheless.
    state
        .pool
        .finish(matches!(result, Ok(RunOutcome::Done(_) | RunOutcome::MoreGroups)));
    result
}

/// Makes the transfer plan, and loads the kernel beside that: both take milliseconds, and copies would hold up the
/// loading. Returns the time of the loading too.
fn transfer_and_load(
    kernels: &KernelCache,
    request: &Request<'_>,
    plan: &QueryPlan,
    grouping: Grouping,
    context: &mut TransferContext<'_>,
) -> Result<(TransferPlan, Duration), RunError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("grampus-loader".to_owned());
        let load = || load_ahead(kernels, request, plan, grouping);
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
fn load_ahead(kernels: &KernelCache, request: &Request<'_>, plan: &QueryPlan, grouping: Grouping) -> Duration {
    let kernel = QueryKernel::generate(request.program, &planned_shape(request, plan, grouping));
    match kernel.map(|kernel| kernels.ready(&kernel)) {
        Ok(Ok(Some(loaded))) if loaded.origin != Origin::Memory => loaded.took,
        Ok(Err(e)) => {
            log::warn!("a kernel was not loaded ahead: {e}");
            Duration::ZERO
        }
        _ => Duration::ZERO,
    }
}

/// Registers the files of mapped columns.
fn map_files(state: &mut DeviceState, request: &Request<'_>, plan: &QueryPlan) -> Result<Vec<Option<u64>>, RunError> {
    let mut wanted = vec![false; request.input.files.len()];
    for stripe in request.input.stripes.iter().filter(|s| !s.selected.is_empty()) {
        let is_mapped = |(place, choice): (&Placement, &ColumnChoice)| {
            choice.backing == Backing::Mapped && matches!(place, Placement::Direct(_))
        };
        wanted[stripe.file] |= stripe.columns.iter().zip(&plan.choices).any(is_mapped);
    }
    let mut mapped = vec![None; wanted.len()];
    for (at, version) in request.input.files.iter().enumerate().filter(|(at, _)| wanted[*at]) {
        let address = state.mapped_files.get(plan.ids[at], &version.path, version.bytes);
        mapped[at] = address.map_err(|e| match e {
            CudaError::File { path, reason } => RunError::File { path, reason },
            other => other.into(),
        })?;
    }
    Ok(mapped)
}

fn run_attempt(
    state: &mut DeviceState,
    request: &Request<'_>,
    plan: &QueryPlan,
    transfer: &TransferPlan,
    grouping: Grouping,
    slots_log2: u32,
    cost: Cost,
) -> Result<RunOutcome, RunError> {
    let kernel = QueryKernel::generate(request.program, &transferred_shape(request, plan, transfer, grouping))?;
    let DeviceState {
        device,
        compute,
        copy,
        ring,
        page_slots,
        placing,
        faults,
        kernels,
        scratch,
        status,
        commands,
        runtime_options,
        threads,
        ..
    } = state;
    let io = IoBinding::new(request, plan, commands, status, &*runtime_options.open_storage)?;
    let query = QueryRun {
        request,
        plan,
        transfer,
        kernel: &kernel,
        io,
        slots_log2: kernel.has_group_table().then_some(slots_log2),
    };
    let context = DeviceContext {
        device,
        compute,
        copy,
        ring,
        page_slots,
        placing,
        faults,
        kernels,
        threads: *threads,
        launch_bytes: runtime_options.launch_bytes,
    };
    query.run(&context, scratch, cost)
}

/// The source of the planned kernel, if every column comes to be where the plan has it.
pub(crate) fn kernel_source(request: &Request<'_>, plan: &QueryPlan) -> Result<String, RunError> {
    let shape = planned_shape(request, plan, first_grouping(request));
    Ok(QueryKernel::generate(request.program, &shape)?.source().to_owned())
}
