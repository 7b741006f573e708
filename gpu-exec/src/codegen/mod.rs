//! `QueryKernel`: the source of one kernel, generated from a program and the shape of its columns, and the merge of its
//! results.
//!
//! ```text
//! shape         inputs of generation beside the program: access to columns, grouping
//! words         words of a group's aggregates
//! plan          columns of tiles, columns fetched by row, a warp's shared memory
//! outline       what the runtime asks of a kernel before a source is generated
//! statements    C++ statements and the values that they name
//! expr          expressions as statements, with NULL beside each value
//! casts         casts, and parts of dates and times
//! writer        program, shape and plan, for all parts of the source
//! tile          loads of tiles, and the values of their rows
//! declarations  declarations of the source: parameter and memory
//! group_codes   keys as small numbers, and the sizes of tables by code
//! aggregate     addition of rows to their groups
//! coded         the parts of a dense kernel with group tables by code
//! stage         rings of held rows, and the functions that empty them
//! kernel        the complete source: the loop over tiles, begin and end of a launch
//! merge         partials of warps and group table to partial aggregates
//! ```
//!
//! **Invariant:** the source depends on program and shape alone, so that it is compiled once. Literals are read from
//! memory.
//!
//! In a translation unit, io-stack's device headers come first, then this crate's (device/*.cuh), then the source.

mod aggregate;
mod casts;
mod coded;
mod declarations;
mod expr;
mod group_codes;
mod kernel;
mod merge;
mod outline;
mod plan;
mod shape;
mod stage;
mod statements;
mod tile;
mod words;
mod writer;

use grampus_io_stack::device_headers;

pub use group_codes::{CodeUnit, GroupLayout, KeyRange};
pub use merge::{Merged, WarpPartials};
pub use outline::KernelOutline;
pub use shape::{Access, ColumnShape, Grouping, Shape, TableScope};

use crate::abi::paging::{self, PLACE_PAGES, PUBLISH_PAGES};
use crate::abi::query::{self, Sizes};
use crate::error::RunError;
use crate::program::{self, Program, Type};
use kernel::KernelSource;
use plan::Plan;

/// The `extern "C"` name of query kernels.
pub const ENTRY: &str = "grampus_query";
/// The `extern "C"` name of the kernel that merges the partials of tables by code.
pub const MERGE_ENTRY: &str = "grampus_merge_groups";
/// Threads of a block. Kernels have shared memory for this number.
pub const BLOCK_THREADS: u32 = 256;
/// Lanes of a warp on a GPU.
pub const GPU_LANES: u32 = 32;
/// Lanes of a warp on host threads, unless they run as on a GPU.
pub const HOST_LANES: u32 = 1;

/// A kernel's source, with the sizes and properties that a launch needs.
#[derive(Debug, Clone)]
pub struct QueryKernel {
    program: Program,
    plan: Plan,
    text: KernelSource,
    queued: bool,
    paged: bool,
}

impl QueryKernel {
    /// Generates the kernel.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: a program that [`Program::check`] refuses, a shape of other columns, or more than a
    /// kernel can hold.
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

    /// The query's own source, without headers.
    pub fn source(&self) -> &str {
        self.text.whole()
    }

    /// The complete translation unit.
    pub fn translation_unit(&self) -> String {
        let mut more = device_headers::flattened(SLOW_HEADERS[..if self.queued { 2 } else { 1 }].iter().copied());
        if self.paged {
            more += &page_kernels();
        }
        more += &layout_asserts(self.paged);
        self.unit_behind(device_headers::prelude(), &more, self.source())
    }

    /// Translation units to link with each other and with [`slow_path`], which has the code that no query changes.
    ///
    /// There are as many units as it pays to compile at once. The unit that takes longest is first.
    pub fn units_to_link(&self) -> Vec<String> {
        let mut parts = self.text.parts();
        // The unit with the unrolled loop takes longest, unless the other one searches for groups.
        if self.has_group_table() {
            parts.reverse();
        }
        let before = self.prelude_to_link();
        let unit = |part: &String| self.unit_behind(before.clone(), "", part);
        parts.iter().map(unit).collect()
    }

    /// As [`units_to_link`](Self::units_to_link), in one unit, which takes the least work.
    pub fn unit_to_link(&self) -> String {
        self.unit_behind(self.prelude_to_link(), "", self.source())
    }

    fn prelude_to_link(&self) -> String {
        match self.queued {
            true => device_headers::kernel_prelude(),
            false => device_headers::mapped_kernel_prelude(),
        }
    }

    fn unit_behind(&self, mut text: String, more: &str, own: &str) -> String {
        text.push_str(&nan_sign());
        text.push_str(&device_headers::flattened(HEADERS));
        let further = [
            (self.has_wide_decimals(), DECIMALS),
            (self.has_dates(), DATES),
            (self.has_group_table(), GROUPS),
            (self.plan.scope.is_some(), BLOCK_GROUPS),
            (self.paged, PAGING_HEADERS[0]),
            (self.paged, PAGING_HEADERS[1]),
        ];
        // Code that a kernel does not call takes the compiler as long to parse as code that it calls.
        let wanted = further.into_iter().filter(|(wanted, _)| *wanted);
        text.push_str(&device_headers::flattened(wanted.map(|(_, header)| header)));
        text.push_str(more);
        text.push_str("#line 1 \"grampus/query\"\n");
        text + own
    }

    /// Whether an expression is a date or a time.
    fn has_dates(&self) -> bool {
        let mut types = program::nodes(self.program.expressions()).map(|expr| self.program.type_of(expr));
        types.any(|ty| matches!(ty, Ok(Type::Date32 | Type::Timestamp(_))))
    }

    /// Whether an expression is a decimal that may take more than eight bytes.
    fn has_wide_decimals(&self) -> bool {
        let mut types = program::nodes(self.program.expressions()).map(|expr| self.program.type_of(expr));
        types.any(|ty| matches!(ty, Ok(ty) if statements::cpp(ty) == statements::WIDE))
    }

    /// Whether some column is queued (read by NVMe commands).
    pub fn is_queued(&self) -> bool {
        self.queued
    }

    /// Whether some column is paged, so that rows may be left to a replay.
    pub fn is_paged(&self) -> bool {
        self.paged
    }

    /// Steps of the cascade that fetch columns. A pass finds all pages that the first incomplete step misses.
    pub fn steps(&self) -> usize {
        self.plan.stages.iter().map(|s| s.steps.len()).sum()
    }

    /// Memory that the kernel needs, on warps of `lanes` lanes.
    pub fn sizes(&self, lanes: u32) -> Sizes {
        self.plan.sizes(lanes)
    }

    /// Whether the kernel uses the group table. Otherwise the table may be null.
    pub fn has_group_table(&self) -> bool {
        !self.program.keys.is_empty()
    }

    /// Bytes of the kernel's parameter.
    pub fn parameter_bytes(&self) -> usize {
        let tail = query::Tail {
            is_paged: self.paged,
            coded_keys: self.plan.scope.map_or(0, |_| self.program.keys.len()),
        };
        query::parameter_bytes(self.program.columns.len(), tail)
    }

    /// Owners of the kernel's group tables by code. `None`: it has none.
    pub fn scope(&self) -> Option<TableScope> {
        self.plan.scope
    }

    /// The groups by code for ranges of the keys, with the tables of a scope.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: not one range for each key, or too many groups.
    pub fn group_layout(&self, scope: TableScope, ranges: &[KeyRange]) -> Result<GroupLayout, RunError> {
        GroupLayout::new(&self.program, &self.plan, scope, ranges)
    }

    /// Merges the partials of the warps and the group table, in a fixed order.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: partials of another kernel.
    pub fn merge(&self, partials: &WarpPartials<'_>) -> Result<Merged, RunError> {
        merge::merge(&self.program, &self.plan, partials)
    }
}

/// The translation unit that kernels are linked with: functions that kernels call and no query changes.
///
/// `queued` adds the functions that only kernels with queued columns call. The unit then takes several times as long to
/// compile.
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
        HEADERS[3],
        SLOW_HEADERS[0],
    ]));
    if queued {
        text.push_str(&device_headers::flattened([SLOW_HEADERS[1]]));
    } else {
        text.push_str(
            "namespace grampus {\n\
             template bool tile_slowly<Mapped>(const IoStack&, const ColumnDesc&, u64, u32, u32, u32, u64*);\n}\n",
        );
    }
    text.push_str(&device_headers::flattened(PAGING_HEADERS));
    text + &page_kernels() + &layout_asserts(true)
}

/// Assertions that fail the compilation if host and device lay out a parameter's structs differently. They stand in the
/// complete unit, and in the unit that kernels are linked with.
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

/// Functions that kernels with paged columns call, and the kernels that place and publish pages.
fn page_kernels() -> String {
    let kernels = format!(
        "namespace grampus {{\n\
         GRAMPUS_KERNEL({PLACE_PAGES}, PageBatch, batch) {{ place_pages(batch); }}\n\
         GRAMPUS_KERNEL({PUBLISH_PAGES}, PagesCame, what) {{ publish_pages(what); }}\n}}\n"
    );
    device_headers::flattened([PAGES_SLOW]) + &kernels
}

/// Headers behind the others in the complete unit.
const SLOW_HEADERS: [(&str, &str); 2] = [
    ("tiles_slow.cuh", include_str!("../../device/tiles_slow.cuh")),
    ("queued_slow.cuh", include_str!("../../device/queued_slow.cuh")),
];
const PAGES_SLOW: (&str, &str) = ("pages_slow.cuh", include_str!("../../device/pages_slow.cuh"));
/// Headers of all kernels, in dependency order.
const HEADERS: [(&str, &str); 5] = [
    ("query.h", include_str!("../../device/query.h")),
    ("values.cuh", include_str!("../../device/values.cuh")),
    ("validity.cuh", include_str!("../../device/validity.cuh")),
    ("tiles.cuh", include_str!("../../device/tiles.cuh")),
    ("aggregates.cuh", include_str!("../../device/aggregates.cuh")),
];
/// Header behind `HEADERS`, for kernels with expressions of decimals of more than eight bytes.
const DECIMALS: (&str, &str) = ("decimals.cuh", include_str!("../../device/decimals.cuh"));
/// Header behind `HEADERS`, for kernels with expressions of dates and times.
const DATES: (&str, &str) = ("dates.cuh", include_str!("../../device/dates.cuh"));
/// Header behind `HEADERS`, for kernels that group.
const GROUPS: (&str, &str) = ("groups.cuh", include_str!("../../device/groups.cuh"));
/// Header behind `GROUPS`, for kernels with group tables by code.
const BLOCK_GROUPS: (&str, &str) = ("block_groups.cuh", include_str!("../../device/block_groups.cuh"));
/// Headers behind `HEADERS`, for kernels with paged columns.
const PAGING_HEADERS: [(&str, &str); 2] = [
    ("pages.h", include_str!("../../device/pages.h")),
    ("pages.cuh", include_str!("../../device/pages.cuh")),
];
