//! A GPU, and what is kept on it from query to query.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::input::{Input, Placement};
use crate::program::{Program, Value};

/// What runs kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An NVIDIA GPU, by number.
    Cuda(u32),
    /// Threads of this machine, each a warp of one lane, running the same text compiled by the host's C++ compiler (`CXX`, else
    /// `g++`, `clang++`, `c++`). For tests: slow to compile, and as fast as the threads are.
    Host {
        /// How many.
        threads: u32,
    },
}

/// How a [`Gpu`] is set up.
#[derive(Debug, Clone)]
pub struct GpuOptions {
    /// What runs kernels.
    pub target: Target,
    /// Most device memory for resident columns and the sector cache together, in bytes; `None`: three quarters of what is free.
    pub cache_bytes: Option<u64>,
    /// Most bytes of registered file mappings at a time; `None`: half of the host's memory.
    pub pin_bytes: Option<u64>,
    /// Folder of compiled kernels; `None`: none are kept beyond the process.
    pub kernel_folder: Option<PathBuf>,
    /// Threads that read files and copy.
    pub threads: usize,
}

/// How a column's bytes come to kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Whole stripes of the column lie in device memory: pushed there by the copy engine from a pinned ring that threads fill from the
    /// file, pushed as they are stored and decoded there, or decoded by the CPU and pushed; kept for later queries as long as there is room.
    Resident,
    /// Room for whole stripes of the column in device memory, but only those pages there that some query's rows wanted: 64 bytes of values
    /// that lie raw in their file, row groups of decoded ones. Kernels mark what they miss, threads gather it, and the kernel runs again.
    /// Columns that are read whole are resident.
    Paged,
    /// Loads from a registered mapping of the file, over PCIe.
    Mapped,
    /// NVMe commands by the kernel, answered by the controller into the sector cache in device memory.
    Queued,
}

/// What the caller wants of backings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BackingChoice {
    /// By column, from what is known of the machine and the predicate.
    #[default]
    Auto,
    /// This one for every column that lies raw in its file; decoded ones are resident.
    All(Backing),
}

/// How one column will be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnChoice {
    /// How.
    pub backing: Backing,
    /// Bytes of the smallest piece that is moved: a sector, a page, a stripe's column.
    pub granularity_bytes: u64,
    /// Bytes that will be moved, as far as can be told beforehand.
    pub estimated_bytes: u64,
    /// Time to move and decode them, if files are in the page cache.
    pub estimated_time: Duration,
    /// Time that kernels take to scan the column in device memory.
    pub scan_time: Duration,
    /// Of the column's bytes, already on the device.
    pub resident_bytes: u64,
    /// Why, for people.
    pub reason: String,
}

/// A program to run.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// What.
    pub program: &'a Program,
    /// The literals, of the types in [`Program::arguments`].
    pub arguments: &'a [Value],
    /// Over what.
    pub input: &'a Input,
    /// How columns are to be read.
    pub backing: BackingChoice,
    /// Share of rows that are expected to pass, 0 to 1.
    pub selectivity: f64,
    /// Set by the caller to cancel.
    pub cancel: &'a Arc<AtomicBool>,
}

impl Request<'_> {
    /// Whether kernels must look whether a column's values are there.
    pub(crate) fn has_nulls(&self, column: usize) -> bool {
        let may = |placement: &Placement| matches!(placement, Placement::Decoded { .. } | Placement::Constant(None));
        self.program.columns[column].nullable && self.input.stripes.iter().any(|stripe| may(&stripe.columns[column]))
    }
}
