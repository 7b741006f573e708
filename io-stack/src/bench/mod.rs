//! The microbenchmarks of the I/O stack: what each path reaches, next to a plain kernel of the same shape in the same run. Every figure
//! comes with a check: sums of all words read are compared with what the positions say, and a pass over each path compares word
//! by word.

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

use std::path::PathBuf;

pub use report::{Figure, Report};
use setup::Setup;

pub use crate::error::BenchError;

/// What to run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Tiny sizes: for checking, and for compute-sanitizer; the figures mean nothing.
    pub small: bool,
    /// Names of sections; empty: all.
    pub sections: Vec<String>,
    /// Folder for the data file; on the disk to be measured, with 8 GiB of room.
    pub folder: PathBuf,
    /// Bytes of the data file and of the resident column; whole MiB.
    pub bytes: u64,
}

type Section = fn(&Setup, &mut Report) -> Result<(), BenchError>;

/// In the order in which they run.
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
];

/// Names of all sections.
pub fn sections() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(name, _)| *name)
}

/// Runs the sections; `shown` sees every figure as it comes. A section that fails is reported with its error, and the next
/// one runs.
///
/// # Errors
/// Without a GPU, a compiler, or room for the data.
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
