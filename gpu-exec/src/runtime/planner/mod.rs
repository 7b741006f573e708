//! `QueryPlan`: the decisions that are made before anything is moved.
//!
//! 1. The request is validated: kernels perform no bounds checks (`validate`).
//! 2. Each column gets a layout in memory (`column_layouts`, before everything else).
//! 3. Each file is compared with the version that was planned for. Everything cached of another version is dropped.
//! 4. Files of which something may have to be read are opened, and probed for the page cache.
//! 5. The kernel's shape is chosen, and the place of its groups (`kernel_choice`, `key_ranges`).
//! 6. The columns that are read whole are found: those of the kernel's tiles.
//! 7. What is known of each column is gathered (`ColumnStats`), and a backing is chosen by the cost model (`backing`,
//!    `cost_model`).

mod backing;
pub(crate) mod column_layouts;
mod cost_model;
mod kernel_choice;
mod key_ranges;
mod validate;

use std::collections::BTreeSet;
use std::fs::File;

use crate::codegen::{Access, ColumnShape, KernelOutline, Shape};
use crate::error::RunError;
use crate::input::file_registry::FileId;
use crate::input::{FileVersion, Placement};
use crate::machine_profile::MachineProfile;
use crate::options::{Backing, ColumnChoice, Place, Request};
use crate::runtime::device_state::DeviceState;
use crate::runtime::file_io::file_source::{FileSource, OpenedFile};
use crate::runtime::file_io::page_cache_probe::direct_if_cold;
use crate::runtime::memory::column_key::ColumnKey;
use crate::runtime::memory::page_table::chunk_rows;
use crate::runtime::memory::residency::{Known, Presence, Residency};
use crate::runtime::planner::backing::choose_backings;
use crate::runtime::planner::cost_model::{ColumnStats, CostInputs};
pub(crate) use crate::runtime::planner::kernel_choice::KernelChoice;
pub(crate) use crate::runtime::planner::validate::check_arguments;
use crate::runtime::planner::validate::validate;
use crate::validity;

/// Files that are probed for the page cache while a query is only planned, at most.
const MAX_PROBED_FILES: usize = 64;

/// A request that can be run.
pub(crate) struct QueryPlan {
    /// By file of the input.
    pub(crate) ids: Vec<FileId>,
    /// By file of the input; `None`: none of its stripes is used.
    pub(crate) sources: Vec<Option<FileSource>>,
    pub(crate) kernel: KernelChoice,
    /// By column of the program.
    pub(crate) choices: Vec<ColumnChoice>,
    /// By column of the program: read whole.
    pub(crate) dense: Vec<bool>,
    /// Bytes of the pool that columns will take.
    pub(crate) missing_bytes: u64,
}

impl QueryPlan {
    /// Whether a column is read by command.
    pub(crate) fn reads_by_command(&self) -> bool {
        self.choices.iter().any(|choice| choice.backing == Backing::Queued)
    }

    pub(crate) fn backings(&self) -> Vec<Backing> {
        self.choices.iter().map(|c| c.backing).collect()
    }

    /// Whether something is not resident yet.
    pub(crate) fn reads_files(&self) -> bool {
        self.sources.iter().flatten().any(|source| source.file.is_some())
    }

    pub(crate) fn is_cold(&self, file: usize) -> bool {
        self.sources[file].as_ref().is_some_and(FileSource::is_cold)
    }
}

/// The rates and sizes that the cost model needs beside the request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rates<'a> {
    pub(crate) profile: &'a MachineProfile,
    pub(crate) sector_log2: u32,
    /// Columns may be read by command.
    pub(crate) commands: bool,
}

/// The plan of a request that is run now. Opens the files of which something is missing.
///
/// `commands`: columns may be read by command.
pub(crate) fn plan(state: &DeviceState, request: &Request<'_>, commands: bool) -> Result<QueryPlan, RunError> {
    validate(request)?;
    let used = used_files(request);
    let mut ids = Vec::new();
    for (at, version) in request.input.files.iter().enumerate() {
        if used.contains(&at) {
            check_version(state, version)?;
        }
        ids.push(state.number(version));
    }
    let missing = files_with_missing(&state.residency, request, &ids);
    let mut sources = Vec::new();
    for (at, version) in request.input.files.iter().enumerate() {
        sources.push(match (missing.contains(&at), used.contains(&at)) {
            (true, _) => Some(open(state, version)?),
            (false, true) => Some(FileSource::unopened(version)),
            (false, false) => None,
        });
    }
    let cold: Vec<bool> = (sources.iter())
        .map(|source| source.as_ref().is_some_and(FileSource::is_cold))
        .collect();
    let rates = Rates {
        profile: &state.runtime_options.machine_profile,
        sector_log2: state.runtime_options.sector_log2,
        commands,
    };
    let choices = choose(&state.residency, request, &ids, &cold, rates)?;
    Ok(QueryPlan {
        ids,
        sources,
        ..choices
    })
}

/// Checks that a file is the version that was planned for. Otherwise everything cached of it is dropped.
pub(crate) fn check_version(state: &DeviceState, version: &FileVersion) -> Result<(), RunError> {
    version.check().inspect_err(|_| state.forget_file(&version.path))
}

/// Opens further files of a plan: their columns were resident when the plan was made, and were evicted since.
pub(crate) fn open_also(
    state: &DeviceState,
    request: &Request<'_>,
    plan: &mut QueryPlan,
    files: impl Iterator<Item = usize>,
) -> Result<(), RunError> {
    for file in files {
        if plan.sources[file].as_ref().is_none_or(|source| source.file.is_none()) {
            plan.sources[file] = Some(open(state, &request.input.files[file])?);
        }
    }
    Ok(())
}

/// The plan of a request that is not run: by what is published of the device. Changes nothing, and waits for no query.
/// Of many files only some are probed for the page cache.
pub(crate) fn preview(residency: &Residency, request: &Request<'_>, rates: Rates<'_>) -> Result<QueryPlan, RunError> {
    validate(request)?;
    let known = |version: &FileVersion| residency.file_id(version).unwrap_or(FileId::NONE);
    let ids: Vec<FileId> = request.input.files.iter().map(known).collect();
    let missing: Vec<usize> = files_with_missing(residency, request, &ids).into_iter().collect();
    let mut cold = vec![false; ids.len()];
    for &at in missing.iter().step_by(missing.len().div_ceil(MAX_PROBED_FILES).max(1)) {
        let version = &request.input.files[at];
        // A file that cannot be opened is the running query's error.
        let is_cold = || File::open(&version.path).is_ok_and(|file| direct_if_cold(&file, version).is_some());
        cold[at] = version.namespace.is_some() || is_cold();
    }
    let choices = choose(residency, request, &ids, &cold, rates)?;
    Ok(QueryPlan {
        sources: ids.iter().map(|_| None).collect(),
        ids,
        ..choices
    })
}

/// Files of the input that a stripe lies in.
fn used_files(request: &Request<'_>) -> BTreeSet<usize> {
    request.input.stripes.iter().map(|s| s.file).collect()
}

/// A plan without files: the kernel and the columns' backings. `cold`: by file, its pages are not in the page cache.
///
/// Columns that a kernel by row would have whole in device memory serve a dense kernel as well.
fn choose(
    residency: &Residency,
    request: &Request<'_>,
    ids: &[FileId],
    cold: &[bool],
    rates: Rates<'_>,
) -> Result<QueryPlan, RunError> {
    let limits = residency.known().limits;
    let plan = |kernel| choose_for(kernel, residency, request, (ids, cold), rates);
    let chosen = plan(KernelChoice::new(request, limits.block_shared_bytes)?)?;
    let is_resident = |plan: &QueryPlan| plan.choices.iter().all(|choice| choice.backing == Backing::Resident);
    if !is_resident(&chosen) {
        return Ok(chosen);
    }
    match KernelChoice::over_resident_columns(request, limits.block_shared_bytes)? {
        Some(kernel) => Ok(Some(plan(kernel)?).filter(is_resident).unwrap_or(chosen)),
        None => Ok(chosen),
    }
}

/// The plan with a kernel.
fn choose_for(
    kernel: KernelChoice,
    residency: &Residency,
    request: &Request<'_>,
    (ids, cold): (&[FileId], &[bool]),
    rates: Rates<'_>,
) -> Result<QueryPlan, RunError> {
    let dense = columns_read_whole(request, &kernel)?;
    let stats: Vec<ColumnStats> = (0..dense.len())
        .map(|column| stats(residency, request, (column, dense[column]), ids, cold))
        .collect();
    let inputs = CostInputs {
        choice: request.backing,
        selectivity: if request.program.conjuncts.is_empty() {
            1.0
        } else {
            request.selectivity.clamp(0.0, 1.0)
        },
        sector_bytes: 1 << rates.sector_log2,
        commands: rates.commands,
        capacity: residency.known().capacity(),
        profile: rates.profile,
        pages: false,
    };
    let choices = choose_backings(&stats, &inputs);
    let takes_memory = |choice: &ColumnChoice| matches!(choice.backing, Backing::Resident | Backing::Paged);
    let columns = stats.iter().zip(&choices);
    let missing = columns.filter(|(_, choice)| takes_memory(choice));
    Ok(QueryPlan {
        ids: Vec::new(),
        sources: Vec::new(),
        missing_bytes: missing.map(|(column, _)| column.bytes.missing).sum(),
        kernel,
        choices,
        dense,
    })
}

/// Files of which something may have to be read; the others need not be opened.
fn files_with_missing(residency: &Residency, request: &Request<'_>, ids: &[FileId]) -> BTreeSet<usize> {
    let known = residency.known();
    let mut missing = BTreeSet::new();
    for (at, stripe) in request.input.stripes.iter().enumerate() {
        let is_missing = |(column, place): (usize, &Placement)| {
            !matches!(place, Placement::Constant(_)) && !known.has(&ColumnKey::of(request, ids, at, column))
        };
        if !stripe.selected.is_empty()
            && !missing.contains(&stripe.file)
            && stripe.columns.iter().enumerate().any(is_missing)
        {
            missing.insert(stripe.file);
        }
    }
    missing
}

/// Opens a file and checks that it is the version that was planned for. Otherwise everything cached of it is dropped.
fn open(state: &DeviceState, version: &FileVersion) -> Result<FileSource, RunError> {
    if let Some(file) = &version.namespace {
        return Ok(FileSource {
            version: version.clone(),
            file: Some(OpenedFile::Namespace(file.clone())),
            direct: None,
        });
    }
    let too_many = rustix::io::Errno::MFILE.raw_os_error();
    let failed = |e: std::io::Error| RunError::File {
        path: version.path.display().to_string(),
        reason: match e.raw_os_error() {
            Some(code) if code == too_many => {
                format!("{e}: a query on the GPU keeps its files open; `ulimit -n` allows more")
            }
            _ => e.to_string(),
        },
    };
    let opened = File::open(&version.path).map_err(failed);
    let checked = opened.and_then(|file| version.check_open(&file).map(|()| file));
    match checked {
        Ok(file) => Ok(FileSource {
            version: version.clone(),
            direct: direct_if_cold(&file, version),
            file: Some(OpenedFile::Local(file)),
        }),
        Err(e) => {
            state.forget_file(&version.path);
            Err(e)
        }
    }
}

/// By column: true if the column is read whole.
fn columns_read_whole(request: &Request<'_>, kernel: &KernelChoice) -> Result<Vec<bool>, RunError> {
    let columns = request.program.columns.len();
    let shape = ColumnShape {
        access: Access::Plain,
        aligned: false,
        on_device: false,
        nullable: false,
    };
    let shape = Shape {
        columns: vec![shape; columns],
        grouping: kernel.grouping,
        dense: kernel.dense,
    };
    let kernel = KernelOutline::new(request.program, &shape)?;
    let mut dense = vec![false; columns];
    kernel.tile_columns().iter().for_each(|&c| dense[c] = true);
    Ok(dense)
}

fn stats(
    residency: &Residency,
    request: &Request<'_>,
    (column, dense): (usize, bool),
    ids: &[FileId],
    cold: &[bool],
) -> ColumnStats {
    let known = residency.known();
    let width = u64::from(request.program.columns[column].stored.bytes());
    let has_nulls = request.has_nulls(column);
    let mut stats = ColumnStats {
        dense,
        width,
        ..ColumnStats::default()
    };
    let mut raw_files = BTreeSet::new();
    for (at, stripe) in request.input.stripes.iter().enumerate() {
        let rows: u64 = stripe.selected.iter().map(|r| r.end - r.start).sum();
        let key = ColumnKey::of(request, ids, at, column);
        let (mut is_on_device, mut is_by_chunk) = (false, false);
        let place = request.place(stripe, column);
        let (bytes, moved) = match place {
            Place::Constant(_) => {
                stats.rows.constant += rows;
                continue;
            }
            Place::Raw(_) => {
                stats.rows.raw += rows;
                raw_files.insert(stripe.file);
                (stripe.rows * width, stripe.rows * width)
            }
            Place::Decoded {
                stored_bytes,
                on_device,
                chunk_bytes,
            } => {
                stats.rows.decoded += rows;
                let is_marked = has_nulls && matches!(stripe.columns[column], Placement::Decoded { .. });
                let validity = if is_marked { validity::bytes_of(stripe.rows) } else { 0 };
                let bytes = stripe.rows * width + validity;
                is_on_device = on_device && !known.is_decoded_by_cpu(key.file, key.column);
                match chunk_bytes.filter(|_| is_on_device) {
                    Some(bytes) => {
                        is_by_chunk = true;
                        stats.rows.by_chunk += rows;
                        stats.chunk_rows = stats.chunk_rows.max(chunk_rows(bytes, width).min(stripe.rows));
                    }
                    None => stats.group_rows = stats.group_rows.max(stripe.group_rows.min(stripe.rows)),
                }
                stats.cold |= rows > 0 && cold[stripe.file];
                if is_on_device {
                    stats.rows.on_device += rows;
                    (bytes, stored_bytes)
                } else {
                    (bytes, bytes)
                }
            }
        };
        let presence = known.column(&key);
        if presence == Some(Presence::Whole) {
            stats.bytes.resident += bytes;
        } else if rows > 0 {
            stats.bytes.missing += bytes;
            stats.bytes.moved += moved;
            if matches!(place, Place::Decoded { .. }) {
                stats.bytes.decoded_moved += moved;
            }
            if let (Placement::Decoded { .. }, Some(compression)) = (&stripe.columns[column], stripe.compression) {
                let of = match is_on_device {
                    true => &mut stats.bytes.compressed.by_device,
                    false => &mut stats.bytes.compressed.by_cpu,
                };
                *of.get_mut(compression.codec) += stripe.rows * width;
            }
            let there = match presence {
                Some(Presence::Pages(there)) => u64::from(there),
                Some(Presence::Whole) | None => 0,
            };
            match place {
                Place::Raw(_) => stats.there.raw += there,
                _ if is_by_chunk => stats.there.chunks += there,
                _ => stats.there.groups += there,
            }
        }
    }
    for &file in &raw_files {
        stats.cold |= cold[file];
    }
    stats.has_one_controller = has_one_controller(request, &raw_files);
    stats.can_be_mapped = can_be_mapped(&known, request, ids, &raw_files);
    stats
}

/// Whether files lie where the software controller reads them, or on drives of one NVMe controller.
fn has_one_controller(request: &Request<'_>, files: &BTreeSet<usize>) -> bool {
    let mut controllers = files.iter().map(|&file| request.input.files[file].controller());
    let first = controllers.next();
    first.is_none_or(|first| controllers.all(|other| other == first))
}

/// Whether files are registered, or can be.
fn can_be_mapped(known: &Known, request: &Request<'_>, ids: &[FileId], files: &BTreeSet<usize>) -> bool {
    let mut pinned_bytes = 0;
    files.iter().all(|&file| {
        if known.is_registered(ids[file]) {
            return true;
        }
        let version = &request.input.files[file];
        pinned_bytes += version.bytes;
        version.namespace.is_none() && !known.cannot_be_registered(ids[file]) && pinned_bytes <= known.limits.pin_bytes
    })
}
