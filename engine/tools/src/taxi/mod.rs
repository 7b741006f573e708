//! Taxi trips that look like New York's: the same columns, order, dirt, NULLs and drift, in ORC files laid out for
//! on-demand reading. Same options, same bytes, whatever the number of threads.
//!
//! ```text
//! rng       random numbers that are the same everywhere
//! calendar  which trips lie where: years, months, parts of months, hours
//! distance  how far they go
//! trips     everything else that all column sets share, a run of rows at a time
//! columns   trips to Arrow batches: core, six; full: the 51 columns, with zones and weather
//! files     batches to files: threads, order, temporary names
//! ```

mod calendar;
mod core_columns;
mod distance;
mod generator;
mod full_columns;
mod rng;
#[cfg(test)]
mod trip_statistics_tests;
mod trip_maker;
mod zones;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::str::FromStr;

use grampus_orc_layout::tail::Codec;

use crate::atomic_output::OutputError;

/// Which columns a generated table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ColumnSet {
    /// What the queries in `queries/` use: amounts, distance and counts as doubles, two timestamps, two strings.
    #[default]
    Core,
    /// The 51 columns of the "1.1 billion taxi rides" table.
    Full,
    /// The six doubles of q0–q5 alone, without NULLs (`ehail_fee` is 0): what BaM measured.
    Six,
}

impl FromStr for ColumnSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "core" => Ok(Self::Core),
            "full" => Ok(Self::Full),
            "six" => Ok(Self::Six),
            _ => Err(format!("columns are 'core', 'full' or 'six', not '{text}'")),
        }
    }
}

/// What to generate and where.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Trips altogether; the years 2009–2021 share them as they share the real 1.74 billion.
    pub rows: u64,
    /// Folder for the files `trips_0000.orc` …; made if it is not there.
    pub out_dir: PathBuf,
    /// How many files; `None`: one per 2.5 million rows, at most 64.
    pub files: Option<usize>,
    /// Trips of different seeds differ.
    pub seed: u64,
    /// Which columns.
    pub columns: ColumnSet,
    /// How streams are compressed; `None`: not at all.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per compression chunk; `None`: a size chosen for sparse reads.
    pub chunk_size_bytes: Option<usize>,
    /// Double columns stored as original chunks in a compressed file, so that single values can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group, each with statistics and an entry point; `None`: 10,000. Smaller ones let sparse reads skip more.
    pub row_index_stride: Option<u32>,
    /// Write into a folder that is not empty, over files of the same name.
    pub overwrite: bool,
    /// Threads; `None`: one per core. The bytes do not depend on it.
    pub threads: Option<usize>,
}

impl GenerateOptions {
    /// `rows` trips of `core` columns, uncompressed, into `out_dir`.
    pub fn new(rows: u64, out_dir: impl Into<PathBuf>) -> Self {
        Self {
            rows,
            out_dir: out_dir.into(),
            files: None,
            seed: 1,
            columns: ColumnSet::Core,
            codec: None,
            chunk_size_bytes: None,
            direct_columns: Vec::new(),
            row_index_stride: None,
            overwrite: false,
            threads: None,
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Default)]
pub struct GenerateReport {
    /// The files, in row order.
    pub files: Vec<PathBuf>,
    /// Trips in them.
    pub rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Why nothing (or not everything) was generated.
#[derive(Debug, thiserror::Error)]
pub enum TaxiError {
    /// Options that contradict each other or the format.
    #[error("{0}")]
    Options(String),
    /// The place to write to.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The ORC writer.
    #[error(transparent)]
    Layout(#[from] grampus_orc_layout::LayoutError),
    /// Arrow refused to build a batch: a defect of the generator.
    #[error("internal: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The progress function said stop; unfinished files are removed, finished ones stay.
    #[error("cancelled")]
    Cancelled,
}

/// Generates the table. `progress` is told of every few ten thousand new rows, from any thread; if it answers `Break`, generation
/// stops and unfinished files are removed.
///
/// # Errors
/// [`TaxiError`]; after one, no unfinished file is left.
pub fn generate(
    options: &GenerateOptions,
    progress: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
) -> Result<GenerateReport, TaxiError> {
    generator::generate(options, progress)
}
