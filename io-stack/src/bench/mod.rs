//! The microbenchmarks of the I/O stack: the rate of each path, next to a plain kernel of the same shape in the same
//! run.
//!
//! | file | sections |
//! | --- | --- |
//! | `operations` | operations: fences, loads of host memory, pauses |
//! | `compile_times` | compile |
//! | `resident` | hits, mapped: values in the cache, and in a registered mapping |
//! | `small_reads` | empty, one-queue, cached, several: commands of 512 bytes to 4 KiB |
//! | `large_reads`, `disk` | pushed, disk |
//! | `prefetch`, `step_clocks` | prefetch, and the time of each step of the protocol |
//! | `fault_injection` | faults |
//! | `stores`, `vector_add` | stores: a vector add through the cache |
//! | `kernels`, `setup`, `report` | the kernels' text, what sections share, figures |
//!
//! **Invariant:** every figure comes with a check. Sums of all words read are compared with those of the positions, and
//! one pass over each path compares word by word.

mod compile_times;
mod disk;
mod fault_injection;
pub mod kernels;
mod large_reads;
mod operations;
mod prefetch;
mod report;
mod resident;
mod setup;
mod small_reads;
mod step_clocks;
mod stores;
pub mod vector_add;

use std::path::PathBuf;

pub use report::{Figure, Report};
use setup::Setup;

pub use crate::error::BenchError;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Tiny sizes, for checks and for compute-sanitizer; the figures mean nothing.
    pub small: bool,
    /// Names of the sections to run; empty: all.
    pub sections: Vec<String>,
    /// Folder for the data file, on the disk to be measured, with 8 GiB of free space.
    pub folder: PathBuf,
    /// Bytes of the data file and of the resident column, in whole MiB.
    pub bytes: u64,
}

type Section = fn(&Setup, &mut Report) -> Result<(), BenchError>;

/// The sections, in the order in which they run.
const SECTIONS: &[(&str, Section)] = &[
    ("operations", operations::operations),
    ("compile", compile_times::compile_times),
    ("hits", resident::hits),
    ("mapped", resident::mapped),
    ("empty", small_reads::empty),
    ("one-queue", small_reads::one_queue),
    ("cached", small_reads::cached),
    ("several", small_reads::several),
    ("pushed", large_reads::large_reads),
    ("disk", disk::disk),
    ("prefetch", prefetch::prefetch),
    ("faults", fault_injection::fault_injection),
    ("stores", stores::stores),
];

/// Names of all sections.
pub fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(name, _)| *name)
}

/// Runs the sections; `shown` gets every figure as it comes. A failed section is reported with its error, and the next
/// one runs.
///
/// # Errors
/// No GPU, no compiler, or too little memory for the data.
pub fn run(options: &BenchOptions, shown: &mut dyn FnMut(&Figure)) -> Result<Report, BenchError> {
    let setup = Setup::new(options)?;
    let mut report = Report::new(setup.facts()?, setup.kernels());
    for (name, section) in SECTIONS {
        if !options.sections.is_empty() && !options.sections.iter().any(|s| s == name) {
            continue;
        }
        let before = report.figures.len();
        report.section = (*name).to_owned();
        if let Err(e) = section(&setup, &mut report) {
            report.failure(&e);
        }
        report.figures[before..].iter().for_each(&mut *shown);
    }
    Ok(report)
}
