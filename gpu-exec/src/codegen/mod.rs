//! A program and the shape of its columns to the text of one kernel, and what the kernel leaves back to partial aggregates.
//!
//! ```text
//! shape     what a kernel depends on beside the program
//! plan      which columns are read in tiles, which are fetched for rows that passed, what a warp keeps
//! expr      expressions to C++ statements, with NULL beside each value
//! casts     casts, and parts of dates and times
//! kernel    the kernel's text: tiles, and what a launch begins and ends with
//! stage     rings, and what is done with the rows in them
//! declarations its parameter and memory
//! aggregate adding rows to their groups
//! merge     the warps' partials and the group table to partial aggregates
//! ```
//!
//! The text is a function of program and shape alone, so that it is compiled once; literals are read from memory. Device headers of
//! this crate (device/*.cuh) stand before it, and io-stack's before those.

mod aggregate;
mod casts;
mod declarations;
mod expr;
mod kernel;
mod merge;
mod plan;
mod shape;
mod stage;
mod statements;
mod writer;

use grampus_io_stack::device_headers;

pub use merge::{Merged, WarpPartials};
pub use shape::{Access, ColumnShape, Grouping, Shape};

use crate::abi::paging::{self, PLACE_PAGES, PUBLISH_PAGES};
use crate::abi::query::{self, Sizes};
use crate::error::RunError;
use crate::program::{self, Program, Type};
use kernel::KernelSource;
use plan::Plan;

/// The kernel's `extern "C"` name.
pub const ENTRY: &str = "grampus_query";
/// Threads of a block; kernels keep shared memory for so many.
pub const BLOCK_THREADS: u32 = 256;
/// Lanes of a warp on a GPU.
pub const GPU_LANES: u32 = 32;
/// Lanes of a warp on host threads.
pub const HOST_LANES: u32 = 1;

/// A kernel's text, and what its owner must know to run it.
#[derive(Debug, Clone)]
pub struct QueryKernel {
    program: Program,
    plan: Plan,
    text: KernelSource,
    queued: bool,
    paged: bool,
}

impl QueryKernel {
    /// Writes the kernel.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: a program that [`Program::check`] refuses, a shape that is not the program's, or more than a kernel holds.
    pub fn generate(program: &Program, shape: &Shape) -> Result<Self, RunError> {
        program.check()?;
        let plan = Plan::new(program, shape)?;
        let text = KernelSource::new(program, shape, &plan)?;
        let some = |access: Access| shape.columns.iter().any(|c| c.access == access);
        Ok(Self {
            program: program.clone(),
            plan,
            text,
            queued: some(Access::Queued),
            paged: some(Access::Paged),
        })
    }

    /// The query's own text, for people.
    pub fn source(&self) -> &str {
        self.text.whole()
    }

    /// The whole translation unit.
    pub fn translation_unit(&self) -> String {
        let mut more = device_headers::flattened(SLOW_HEADERS[..if self.queued { 2 } else { 1 }].iter().copied());
        if self.paged {
            more += &page_kernels();
        }
        more += &layout_asserts(self.paged);
        self.unit_behind(device_headers::prelude(), &more, self.source())
    }

    /// The translation units without what no query changes, to be linked with each other and with [`slow_path`]: as many as there is
    /// use in compiling at the same time, the one that takes longest first.
    pub fn units_to_link(&self) -> Vec<String> {
        let mut parts = self.text.parts();
        // The loop is unrolled; but looking for groups is more.
        if self.has_group_table() {
            parts.reverse();
        }
        let before = match self.queued {
            true => device_headers::kernel_prelude(),
            false => device_headers::mapped_kernel_prelude(),
        };
        let unit = |part: &String| self.unit_behind(before.clone(), "", part);
        parts.iter().map(unit).collect()
    }

    fn unit_behind(&self, mut text: String, more: &str, own: &str) -> String {
        text.push_str(&nan_sign());
        text.push_str(&device_headers::flattened(HEADERS));
        let further = [
            (self.has_dates(), DATES),
            (self.has_group_table(), GROUPS),
            (self.paged, PAGING_HEADERS[0]),
            (self.paged, PAGING_HEADERS[1]),
        ];
        // A compiler reads what a kernel does not call as slowly as what it does.
        let wanted = further.into_iter().filter(|(wanted, _)| *wanted);
        text.push_str(&device_headers::flattened(wanted.map(|(_, header)| header)));
        text.push_str(more);
        text.push_str("#line 1 \"grampus/query\"\n");
        text + own
    }

    /// Something is a date or a time.
    fn has_dates(&self) -> bool {
        let mut types = program::nodes(self.program.expressions()).map(|expr| self.program.type_of(expr));
        types.any(|ty| matches!(ty, Ok(Type::Date32 | Type::Timestamp(_))))
    }

    /// Some column comes by commands.
    pub fn is_queued(&self) -> bool {
        self.queued
    }

    /// Some column is there in part only, and rows may be left to another pass.
    pub fn is_paged(&self) -> bool {
        self.paged
    }

    /// Steps of the cascade that fetch columns: a pass finds all pages that one of them misses.
    pub fn steps(&self) -> usize {
        self.plan.stages.iter().map(|s| s.steps.len()).sum()
    }

    /// What it takes, on warps of so many lanes.
    pub fn sizes(&self, lanes: u32) -> Sizes {
        self.plan.sizes(lanes)
    }

    /// The groups table is used: without, it may be null.
    pub fn has_group_table(&self) -> bool {
        !self.program.keys.is_empty()
    }

    /// Bytes of its parameter.
    pub fn parameter_bytes(&self) -> usize {
        query::parameter_bytes(self.program.columns.len(), self.paged)
    }

    /// Merges what the warps left, in a fixed order.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: not what this kernel leaves.
    pub fn merge(&self, partials: &WarpPartials<'_>) -> Result<Merged, RunError> {
        merge::merge(&self.program, &self.plan, partials)
    }

    /// The columns that are read whole, in tiles; the others are fetched by row.
    pub fn tile_columns(&self) -> &[usize] {
        &self.plan.tile_columns
    }
}

/// The translation unit that kernels are linked with: what they call and no query changes. With what only kernels need of which some
/// column comes by commands, it takes several times as long.
pub fn slow_path(queued: bool) -> String {
    let mut text = if queued {
        device_headers::slow_path()
    } else {
        device_headers::prelude()
    };
    text.push_str(&nan_sign());
    text.push_str(&device_headers::flattened([
        HEADERS[0],
        HEADERS[1],
        HEADERS[2],
        SLOW_HEADERS[0],
    ]));
    if queued {
        text.push_str(&device_headers::flattened([SLOW_HEADERS[1]]));
    } else {
        text.push_str(
            "namespace grampus {\ntemplate bool tile_slowly<Mapped>(const IoStack&, const ColumnDesc&, u64, u32, u32, u32, u64*);\n}\n",
        );
    }
    text.push_str(&device_headers::flattened(PAGING_HEADERS));
    text + &page_kernels() + &layout_asserts(true)
}

/// Fails the compilation where host and device see a parameter's structs differently: once, where all is one unit or in the unit
/// that kernels are linked with.
fn layout_asserts(paged: bool) -> String {
    let paging = if paged { paging::static_asserts() } else { String::new() };
    format!(
        "#line 1 \"grampus/query_layout_asserts\"\n{}{paging}",
        query::static_asserts()
    )
}

/// The sign of the NaN that an invalid operation gives: set on x86, clear elsewhere (Intel SDM vol. 1 §4.8.3.7).
fn nan_sign() -> String {
    let sign = u32::from(cfg!(any(target_arch = "x86_64", target_arch = "x86")));
    format!("namespace grampus {{ constexpr u32 DEFAULT_NAN_SIGN = {sign}; }}\n")
}

/// What kernels with paged columns call, and the kernels that bring pages.
fn page_kernels() -> String {
    let kernels = format!(
        "namespace grampus {{\n\
         GRAMPUS_KERNEL({PLACE_PAGES}, PageBatch, batch) {{ place_pages(batch); }}\n\
         GRAMPUS_KERNEL({PUBLISH_PAGES}, PagesCame, what) {{ publish_pages(what); }}\n}}\n"
    );
    device_headers::flattened([PAGES_SLOW]) + &kernels
}

/// Behind the others where all is one unit.
const SLOW_HEADERS: [(&str, &str); 2] = [
    ("tiles_slow.cuh", include_str!("../../device/tiles_slow.cuh")),
    ("queued_slow.cuh", include_str!("../../device/queued_slow.cuh")),
];
const PAGES_SLOW: (&str, &str) = ("pages_slow.cuh", include_str!("../../device/pages_slow.cuh"));
/// In dependency order.
const HEADERS: [(&str, &str); 4] = [
    ("query.h", include_str!("../../device/query.h")),
    ("values.cuh", include_str!("../../device/values.cuh")),
    ("tiles.cuh", include_str!("../../device/tiles.cuh")),
    ("aggregates.cuh", include_str!("../../device/aggregates.cuh")),
];
/// Behind those, for kernels with expressions of dates and times.
const DATES: (&str, &str) = ("dates.cuh", include_str!("../../device/dates.cuh"));
/// Behind those, for kernels that group.
const GROUPS: (&str, &str) = ("groups.cuh", include_str!("../../device/groups.cuh"));
/// Behind those, for kernels with paged columns.
const PAGING_HEADERS: [(&str, &str); 2] = [
    ("pages.h", include_str!("../../device/pages.h")),
    ("pages.cuh", include_str!("../../device/pages.cuh")),
];
