//! [`GenerateOptions`] and [`GenerateReport`]: the table to generate, and the written files.

use std::path::PathBuf;

use grampus_orc_layout::codec::Codec;

use super::column_set::ColumnSet;

/// Contents, place and layout of a generated table.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Trips altogether. The years 2009–2021 share them in proportion to the 1.74 billion real trips.
    pub rows: u64,
    /// Folder for the files `trips_0000.orc` and so on; created if it does not exist.
    pub out_dir: PathBuf,
    /// Number of files; `None`: one per 2.5 million rows, at most 64.
    pub files: Option<usize>,
    /// Trips of different seeds differ.
    pub seed: u64,
    /// The set of columns.
    pub columns: ColumnSet,
    /// Compression of streams; `None`: none.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per compression chunk; `None`: a size chosen for sparse reads.
    pub chunk_size_bytes: Option<usize>,
    /// Uncompressed bytes per compression chunk of numbers, dates, timestamps and booleans; `None`:
    /// `chunk_size_bytes`, else a size chosen for sparse reads.
    pub number_chunk_size_bytes: Option<usize>,
    /// Double columns stored as original chunks in a compressed file, so that single values can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group, each with statistics and an entry point; `None`: 10,000. Smaller row groups let sparse
    /// reads skip more.
    pub row_index_stride: Option<u32>,
    /// Replace a folder whole. It may hold only files that Grampus wrote.
    pub overwrite: bool,
    /// Number of threads; `None`: one per core. The bytes do not depend on it.
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
            number_chunk_size_bytes: None,
            direct_columns: Vec::new(),
            row_index_stride: None,
            overwrite: false,
            threads: None,
        }
    }
}

/// The files that a generation wrote.
#[derive(Debug, Clone, Default)]
pub struct GenerateReport {
    /// The files, in row order.
    pub files: Vec<PathBuf>,
    /// Trips in all files.
    pub rows: u64,
    /// Size of all files on disk, in bytes.
    pub bytes: u64,
}
