//! `QueryPlan`: the decisions that are made before anything is moved.
//!
//! 1. The request is validated: kernels perform no bounds checks (`validate`).
//! 2. Each file is compared with the version that was planned for. Everything cached of another version is dropped.
//! 3. Files of which something may have to be read are opened, and probed for the page cache.
//! 4. The columns that are read whole are found: those of the kernel's tiles.
//! 5. What is known of each column is gathered (`ColumnStats`), and a backing is chosen by the cost model (`backing`,
//!    `cost_model`).

mod backing;
mod cost_model;
mod validate;

use std::collections::BTreeSet;
use std::fs::File;

use crate::codegen::{Access, ColumnShape, Grouping, QueryKernel, Shape};
use crate::error::RunError;
use crate::input::file_registry::FileId;
use crate::input::{FileVersion, Placement};
use crate::options::{Backing, ColumnChoice, Request};
use crate::runtime::device_state::DeviceState;
use crate::runtime::file_io::file_source::FileSource;
use crate::runtime::memory::buffer_pool::ColumnKey;
use crate::runtime::planner::backing::choose_backings;
use crate::runtime::planner::cost_model::{ColumnStats, CostInputs};
use crate::runtime::planner::validate::validate;

/// A request that can be run.
pub(crate) struct QueryPlan {
    /// By file of the input.
    pub(crate) ids: Vec<FileId>,
    /// By file of the input; `None`: none of its stripes is used.
    pub(crate) sources: Vec<Option<FileSource>>,
    /// By column of the program.
    pub(crate) choices: Vec<ColumnChoice>,
    /// By column of the program: read whole.
    pub(crate) dense: Vec<bool>,
}

impl QueryPlan {
    pub(crate) fn backings(&self) -> Vec<Backing> {
        self.choices.iter().map(|c| c.backing).collect()
    }

    /// Whether something is not resident yet.
    pub(crate) fn reads_files(&self) -> bool {
        self.sources.iter().flatten().any(|source| source.file.is_some())
    }

    pub(crate) fn is_cold(&self, file: usize) -> bool {
        self.sources[file].as_ref().is_some_and(|s| s.direct.is_some())
    }
}

/// Looks at everything and moves nothing.
pub(crate) fn plan(state: &mut DeviceState, request: &Request<'_>) -> Result<QueryPlan, RunError> {
    validate(request)?;
    let used: BTreeSet<usize> = request.input.stripes.iter().map(|s| s.file).collect();
    let mut ids = Vec::new();
    for (at, version) in request.input.files.iter().enumerate() {
        if used.contains(&at)
            && let Err(e) = version.check()
        {
            state.forget_file(&version.path);
            return Err(e);
        }
        ids.push(state.number(version));
    }
    let missing = files_with_missing(state, request, &ids);
    let mut sources = Vec::new();
    for (at, version) in request.input.files.iter().enumerate() {
        sources.push(match (missing.contains(&at), used.contains(&at)) {
            (true, _) => Some(open(state, version)?),
            (false, true) => Some(FileSource {
                version: version.clone(),
                file: None,
                direct: None,
            }),
            (false, false) => None,
        });
    }
    let dense = columns_read_whole(request)?;
    let facts: Vec<ColumnStats> = (0..dense.len())
        .map(|column| facts(state, request, column, dense[column], &ids, &sources))
        .collect();
    let inputs = CostInputs {
        choice: request.backing,
        selectivity: if request.program.conjuncts.is_empty() {
            1.0
        } else {
            request.selectivity.clamp(0.0, 1.0)
        },
        sector_bytes: 1 << state.commands.options.sector_log2,
        capacity: state.pool.capacity(),
        profile: &state.runtime_options.machine_profile,
        register: false,
        pages: false,
    };
    Ok(QueryPlan {
        ids,
        sources,
        choices: choose_backings(&facts, &inputs),
        dense,
    })
}

/// Files of which something may have to be read; the others need not be opened.
fn files_with_missing(state: &DeviceState, request: &Request<'_>, ids: &[FileId]) -> BTreeSet<usize> {
    let mut missing = BTreeSet::new();
    for stripe in request.input.stripes.iter().filter(|s| !s.selected.is_empty()) {
        let is_missing = |(column, place): (usize, &Placement)| {
            let key = ColumnKey {
                file: ids[stripe.file],
                stripe: stripe.index,
                column: request.input.column_ids[column],
                ty: request.program.columns[column].ty,
            };
            !matches!(place, Placement::Constant(_)) && !state.pool.has(&key)
        };
        if !missing.contains(&stripe.file) && stripe.columns.iter().enumerate().any(is_missing) {
            missing.insert(stripe.file);
        }
    }
    missing
}

/// Opens a file and checks that it is the version that was planned for. Otherwise everything cached of it is dropped.
fn open(state: &mut DeviceState, version: &FileVersion) -> Result<FileSource, RunError> {
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
    let opened = File::open(&version.path)
        .and_then(|file| Ok((file.metadata()?, file)))
        .map_err(failed);
    let opened =
        opened.and_then(
            |(metadata, file)| match FileVersion::of_metadata(&version.path, &metadata) == *version {
                true => Ok(file),
                false => Err(failed(std::io::Error::other(
                    "the file changed after the query was planned",
                ))),
            },
        );
    match opened {
        Ok(file) => Ok(FileSource {
            version: version.clone(),
            direct: crate::runtime::file_io::page_cache_probe::direct_if_cold(&file, version),
            file: Some(file),
        }),
        Err(e) => {
            state.forget_file(&version.path);
            Err(e)
        }
    }
}

/// By column: true if the column is read whole.
fn columns_read_whole(request: &Request<'_>) -> Result<Vec<bool>, RunError> {
    let columns = request.program.columns.len();
    let shape = ColumnShape {
        access: Access::Plain,
        aligned: false,
        on_device: false,
        nullable: false,
    };
    let shape = Shape {
        columns: vec![shape; columns],
        grouping: first_grouping(request),
    };
    let kernel = QueryKernel::generate(request.program, &shape)?;
    let mut dense = vec![false; columns];
    kernel.tile_columns().iter().for_each(|&c| dense[c] = true);
    Ok(dense)
}

/// How groups are kept, at first.
pub(crate) fn first_grouping(request: &Request<'_>) -> Grouping {
    if request.program.keys.is_empty() {
        Grouping::Ungrouped
    } else {
        Grouping::Private
    }
}

fn facts(
    state: &DeviceState,
    request: &Request<'_>,
    column: usize,
    dense: bool,
    ids: &[FileId],
    sources: &[Option<FileSource>],
) -> ColumnStats {
    let ty = request.program.columns[column].ty;
    let width = u64::from(ty.width());
    let validity = u64::from(request.has_nulls(column));
    let mut facts = ColumnStats {
        dense,
        width,
        raw_rows: 0,
        decoded_rows: 0,
        on_device_rows: 0,
        constant_rows: 0,
        group_rows: 0,
        pages_there: 0,
        groups_there: 0,
        resident_bytes: 0,
        missing_bytes: 0,
        moved_bytes: 0,
        unregistered_bytes: Some(0),
        cold: false,
    };
    let mut raw_files = BTreeSet::new();
    for stripe in &request.input.stripes {
        let rows: u64 = stripe.selected.iter().map(|r| r.end - r.start).sum();
        let key = ColumnKey {
            file: ids[stripe.file],
            stripe: stripe.index,
            column: request.input.column_ids[column],
            ty,
        };
        let (bytes, moved) = match &stripe.columns[column] {
            Placement::Constant(_) => {
                facts.constant_rows += rows;
                continue;
            }
            Placement::Direct(_) => {
                facts.raw_rows += rows;
                raw_files.insert(stripe.file);
                (stripe.rows * width, stripe.rows * width)
            }
            Placement::Decoded {
                stored_bytes,
                on_device,
            } => {
                facts.decoded_rows += rows;
                facts.group_rows = facts.group_rows.max(stripe.group_rows.min(stripe.rows));
                let bytes = stripe.rows * (width + validity);
                if *on_device && !state.cpu_decode.has(ids[stripe.file], request.input.column_ids[column]) {
                    facts.on_device_rows += rows;
                    (bytes, *stored_bytes)
                } else {
                    (bytes, bytes)
                }
            }
        };
        if state.pool.has(&key) {
            facts.resident_bytes += bytes;
        } else if rows > 0 {
            facts.missing_bytes += bytes;
            facts.moved_bytes += moved;
            let there = state
                .pool
                .page_bits(&key)
                .map_or(0, |bits| u64::from(bits.pages - bits.missing));
            match &stripe.columns[column] {
                Placement::Direct(_) => facts.pages_there += there,
                _ => facts.groups_there += there,
            }
        }
    }
    for file in raw_files {
        let cold = sources[file].as_ref().is_some_and(|s| s.direct.is_some());
        facts.cold |= cold;
        let bytes = request.input.files[file].bytes;
        facts.unregistered_bytes = match facts.unregistered_bytes {
            Some(all) if state.mapped_files.has(ids[file]) => Some(all),
            Some(all) if !state.mapped_files.cannot(ids[file]) && state.mapped_files.has_room(all + bytes) => {
                Some(all + bytes)
            }
            _ => None,
        };
    }
    facts
}
