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
//! | `bench_options`, `error` | [`BenchOptions`], [`BenchError`] |
//!
//! **Invariant:** `unsafe` lends memory to a storage in `disk`, and does nothing else.
//!
//! **Invariant:** every figure comes with a check. Sums of all words read are compared with those of the positions, and
//! one pass over each path compares word by word.

mod bench_options;
mod compile_times;
mod disk;
mod error;
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

pub use bench_options::BenchOptions;
pub use error::BenchError;
pub use report::{Figure, Report};
use setup::Setup;

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
