//! One query from request to partial aggregates: backings are chosen, room is made, the I/O stack is told of the columns that are
//! read through it, and drive.rs brings and launches.

use std::sync::atomic::Ordering;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use grampus_io_stack::cuda::CudaError;
use grampus_io_stack::stack::Column;

use crate::codegen::{Access, ColumnShape, Grouping, QueryKernel, Shape};
use crate::error::RunError;
use crate::input::{Placement, Stripe};
use crate::kernel_cache::{Modules, Origin};
use crate::options::{Backing, ColumnChoice, Request};
use crate::output::{Cost, Output};
use crate::runtime::device_state::Live;
use crate::runtime::io_stack::command_backend::column as queued_column;
use crate::runtime::launch::query_run::{Attempt, Machine, Query, Stage, drive};
use crate::runtime::planner::{Prepared, grouping, prepare};
use crate::runtime::transfer::transfer_plan::{Bringing, Means, bring, has_nulls};

/// Tiles of all kernels divide this many rows, so that windows may end there.
const TILE_GRAIN_ROWS: u64 = 512;
/// log2 of the group table's slots, at first and at most.
const FIRST_SLOTS_LOG2: u32 = 14;
const MOST_SLOTS_LOG2: u32 = 24;

/// Runs a request.
pub(crate) fn run(live: &mut Live, request: &Request<'_>) -> Result<Output, RunError> {
    let result = attempts(live, request);
    live.by_cpu.finish();
    result
}

/// Until one comes to an end.
fn attempts(live: &mut Live, request: &Request<'_>) -> Result<Output, RunError> {
    let mut slots_log2 = FIRST_SLOTS_LOG2;
    let mut way = grouping(request);
    loop {
        let prepared = prepare(live, request)?;
        match attempt(live, request, &prepared, way, slots_log2)? {
            Attempt::Done(output) => {
                unchanged(live, &prepared)?;
                return Ok(*output);
            }
            Attempt::MoreGroups if slots_log2 < MOST_SLOTS_LOG2 => {
                slots_log2 = (slots_log2 + 5).min(MOST_SLOTS_LOG2);
                way = Grouping::Global;
            }
            // The CPU's decoder has the values, or the right words for what is wrong with them.
            Attempt::Undecoded { stripe, column } => {
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
                live.by_cpu
                    .leave(prepared.ids[at.file], request.input.column_ids[column]);
            }
            Attempt::MoreGroups => {
                let most = 1u64 << MOST_SLOTS_LOG2;
                return Err(RunError::Refused(format!(
                    "more groups than a table of {most} slots holds"
                )));
            }
        }
    }
}

/// Whether the files are still what they were at the start: what was read of one that is not may be anything.
fn unchanged(live: &mut Live, prepared: &Prepared) -> Result<(), RunError> {
    for source in prepared.sources.iter().flatten() {
        if let Err(e) = source.version.check() {
            live.forget_file(&source.version.path);
            return Err(e);
        }
    }
    Ok(())
}

fn attempt(
    live: &mut Live,
    request: &Request<'_>,
    prepared: &Prepared,
    way: Grouping,
    slots_log2: u32,
) -> Result<Attempt, RunError> {
    live.pool.begin();
    live.mappings.begin();
    let began = Instant::now();
    let mapped = map_files(live, request, prepared)?;
    let register = began.elapsed();
    let backings = prepared.backings();
    let cold: Vec<bool> = (0..prepared.ids.len()).map(|file| prepared.is_cold(file)).collect();
    let mut means = Means {
        device: &live.device,
        pool: &mut live.pool,
        constants: &mut live.constants,
        file_ids: &prepared.ids,
        cold: &cold,
        mapped: &mapped,
        backings: &backings,
        tile_rows: TILE_GRAIN_ROWS,
        staging: &mut live.staging,
        staging_bytes: live.tuning.staging_bytes,
        by_cpu: &live.by_cpu,
        threads: live.threads,
    };
    let brought = bring_and_load(&live.modules, request, prepared, way, &mut means);
    let result = brought.and_then(|(bringing, loading)| {
        let cost = Cost {
            register,
            compile: loading,
            ..Cost::default()
        };
        let result = stage_and_drive(live, request, prepared, &bringing, way, slots_log2, cost);
        for piece in &bringing.paging.pieces {
            live.pool
                .pages_came(&piece.key, piece.published.load(Ordering::Relaxed));
        }
        if let Some(piece) = &bringing.transient {
            live.pool.give_back(piece);
        }
        result
    });
    // An attempt with too few groups has brought everything all the same.
    live.pool
        .finish(matches!(result, Ok(Attempt::Done(_) | Attempt::MoreGroups)));
    result
}

/// Looks where everything is and reserves room, and beside that loads the kernel: both take milliseconds, and copies would hold up the
/// loading. With the time that the loading took.
fn bring_and_load(
    modules: &Modules,
    request: &Request<'_>,
    prepared: &Prepared,
    way: Grouping,
    means: &mut Means<'_>,
) -> Result<(Bringing, Duration), RunError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("grampus-loader".to_owned());
        let load = || load_ahead(modules, request, prepared, way);
        let loading = prepared.reads_files().then(|| thread.spawn_scoped(scope, load));
        let bringing = bring(request, means);
        let loaded = match loading.map(|started| started.map(ScopedJoinHandle::join)) {
            Some(Ok(Ok(took))) => took,
            Some(Ok(Err(panic))) => std::panic::resume_unwind(panic),
            Some(Err(_)) | None => Duration::ZERO, // it is loaded later
        };
        Ok((bringing?, loaded))
    })
}

/// Loads the kernel that it will most likely be, if that was kept in the folder; how long it took. Whatever goes wrong is found out again
/// by who needs it.
fn load_ahead(modules: &Modules, request: &Request<'_>, prepared: &Prepared, way: Grouping) -> Duration {
    let kernel = QueryKernel::generate(request.program, &chosen_shape(request, prepared, way));
    match kernel.map(|kernel| modules.ready(&kernel)) {
        Ok(Ok(Some(loaded))) if loaded.origin != Origin::Memory => loaded.took,
        Ok(Err(e)) => {
            log::warn!("a kernel was not loaded ahead: {e}");
            Duration::ZERO
        }
        _ => Duration::ZERO,
    }
}

/// Registers the files of mapped columns.
fn map_files(live: &mut Live, request: &Request<'_>, prepared: &Prepared) -> Result<Vec<Option<u64>>, RunError> {
    let mut wanted = vec![false; request.input.files.len()];
    for stripe in request.input.stripes.iter().filter(|s| !s.selected.is_empty()) {
        let is_mapped = |(place, choice): (&Placement, &ColumnChoice)| {
            choice.backing == Backing::Mapped && matches!(place, Placement::Direct(_))
        };
        wanted[stripe.file] |= stripe.columns.iter().zip(&prepared.choices).any(is_mapped);
    }
    let mut mapped = vec![None; wanted.len()];
    for (at, version) in request.input.files.iter().enumerate().filter(|(at, _)| wanted[*at]) {
        let address = live.mappings.get(prepared.ids[at], &version.path, version.bytes);
        mapped[at] = address.map_err(|e| match e {
            CudaError::File { path, reason } => RunError::File { path, reason },
            other => other.into(),
        })?;
    }
    Ok(mapped)
}

fn stage_and_drive(
    live: &mut Live,
    request: &Request<'_>,
    prepared: &Prepared,
    bringing: &Bringing,
    way: Grouping,
    slots_log2: u32,
    cost: Cost,
) -> Result<Attempt, RunError> {
    let kernel = QueryKernel::generate(request.program, &shape(request, prepared, bringing, way))?;
    let Live {
        device,
        compute,
        copy,
        ring,
        page_slots,
        placing,
        faults,
        modules,
        scratch,
        signals,
        queued,
        tuning,
        threads,
        ..
    } = live;
    let stage = if prepared.choices.iter().any(|c| c.backing == Backing::Queued) {
        let files: Vec<usize> = (0..prepared.ids.len())
            .filter(|at| prepared.sources[*at].is_some())
            .collect();
        let named: Vec<_> = files
            .iter()
            .map(|&at| (prepared.ids[at], &request.input.files[at], prepared.is_cold(at)))
            .collect();
        let (stack, places) = queued.over(&named, &*tuning.open_storage)?;
        let mut sources = vec![0; prepared.ids.len()];
        files.iter().zip(places).for_each(|(&at, place)| sources[at] = place);
        let mut columns: Vec<Option<Column>> = Vec::new();
        for (at, choice) in prepared.choices.iter().enumerate() {
            columns.push(match choice.backing {
                Backing::Queued => Some(queued_column(stack, request, at, &sources)?),
                _ => None,
            });
        }
        stack.begin()?;
        Stage {
            io: stack.io(),
            stack: Some(stack),
            columns,
        }
    } else {
        signals.begin()?;
        Stage {
            io: signals.io(),
            stack: None,
            columns: prepared.choices.iter().map(|_| None).collect(),
        }
    };
    let query = Query {
        request,
        prepared,
        bringing,
        kernel: &kernel,
        stage,
        slots_log2: if kernel.has_group_table() {
            Some(slots_log2)
        } else {
            None
        },
    };
    let machine = Machine {
        device,
        compute,
        copy,
        ring,
        page_slots,
        placing,
        faults,
        modules,
        signals,
        threads: *threads,
        launch_bytes: tuning.launch_bytes,
    };
    drive(&query, &machine, scratch, cost)
}

/// The text of the kernel that the choices come to, if everything is brought to where it is chosen to be.
pub(crate) fn text(request: &Request<'_>, prepared: &Prepared) -> Result<String, RunError> {
    let shape = chosen_shape(request, prepared, grouping(request));
    Ok(QueryKernel::generate(request.program, &shape)?.text().to_owned())
}

/// What the kernel would have to know of the columns.
fn chosen_shape(request: &Request<'_>, prepared: &Prepared, grouping: Grouping) -> Shape {
    let column = |at: usize| {
        let backing = prepared.choices[at].backing;
        let aligned = backing != Backing::Mapped || lies_aligned(request, at);
        column_shape(request, prepared, at, aligned, backing == Backing::Paged)
    };
    Shape {
        columns: (0..request.program.columns.len()).map(column).collect(),
        grouping,
    }
}

/// Whether all the column's values in files begin at multiples of their size.
fn lies_aligned(request: &Request<'_>, column: usize) -> bool {
    let width = u64::from(request.program.columns[column].ty.width());
    let direct = |s: &Stripe| match &s.columns[column] {
        Placement::Direct(segments) => segments.iter().all(|s| s.offset.is_multiple_of(width)),
        _ => true,
    };
    request.input.stripes.iter().all(direct)
}

fn column_shape(
    request: &Request<'_>,
    prepared: &Prepared,
    column: usize,
    plain_aligned: bool,
    paged: bool,
) -> ColumnShape {
    let backing = prepared.choices[column].backing;
    let queued = backing == Backing::Queued;
    ColumnShape {
        access: match (queued, paged) {
            (true, _) => Access::Queued,
            (false, true) => Access::Paged,
            (false, false) => Access::Plain,
        },
        aligned: if queued {
            lies_aligned(request, column)
        } else {
            plain_aligned
        },
        on_device: matches!(backing, Backing::Resident | Backing::Paged),
        nullable: !queued && has_nulls(request, column),
    }
}

/// What the kernel has to know of the columns.
fn shape(request: &Request<'_>, prepared: &Prepared, bringing: &Bringing, way: Grouping) -> Shape {
    let column = |at: usize| {
        let width = u64::from(request.program.columns[at].ty.width());
        let aligned = bringing.columns[at]
            .extents
            .iter()
            .all(|e| e.mapped.is_multiple_of(width));
        // One that is there whole by now is loaded without looking.
        let paged = bringing.paging.columns.contains(&at);
        column_shape(request, prepared, at, aligned, paged)
    };
    Shape {
        columns: (0..request.program.columns.len()).map(column).collect(),
        grouping: way,
    }
}
