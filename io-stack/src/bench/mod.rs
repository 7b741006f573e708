//! The microbenchmarks of the I/O stack: what each path reaches, next to a plain kernel of the same shape in the same run. Every figure
//! comes with a check: sums of all words read are compared with what the positions say, and a pass over each path compares word
//! by word.

mod compiling;
mod disk;
mod faults;
mod phases;
mod prefetch;
mod pushed;
mod queued;
mod report;
mod resident;
mod setup;

use std::path::PathBuf;

pub use report::{Figure, Report};
use setup::Setup;

use crate::stack::StackError;

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

/// Why a benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The stack said no.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// CUDA said no.
    #[error(transparent)]
    Cuda(#[from] crate::cuda::CudaError),
    /// The data file.
    #[error("data file: {0}")]
    File(#[from] std::io::Error),
    /// Bytes were read that are not what their address says: a defect.
    #[error("{name}: {what}")]
    Wrong {
        /// The benchmark.
        name: String,
        /// What was found and expected.
        what: String,
    },
}

type Section = fn(&Setup, &mut Report) -> Result<(), BenchError>;

/// In the order in which they run.
const SECTIONS: &[(&str, Section)] = &[
    ("compile", compiling::compiling),
    ("hits", resident::hits),
    ("mapped", resident::mapped),
    ("empty", queued::empty),
    ("one-queue", queued::one_queue),
    ("cached", queued::cached),
    ("several", queued::several),
    ("pushed", pushed::pushed),
    ("disk", disk::disk),
    ("prefetch", prefetch::prefetch),
    ("faults", faults::faults),
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
