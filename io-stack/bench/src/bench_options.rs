//! `BenchOptions`: what a run measures, and with what data.

use std::path::PathBuf;

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
