//! [`ConvertOptions`] and [`ConvertReport`]: the inputs, the layout and the outputs of a conversion.

use std::path::PathBuf;
use std::sync::Arc;

use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::EncodingThreads;

/// Form of CSV files.
#[derive(Debug, Clone)]
pub struct CsvOptions {
    /// The first line names the columns; otherwise their names are `column_1` and so on.
    pub header: bool,
    /// The ASCII character between two fields.
    pub delimiter: u8,
    /// Rows from which the columns' types are inferred.
    pub infer_rows: usize,
    /// Text of a field that is NULL. Empty fields are NULL in any case.
    pub null_text: Option<String>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            header: true,
            delimiter: b',',
            infer_rows: 100_000,
            null_text: None,
        }
    }
}

/// Inputs, outputs and layout of a conversion.
#[derive(Debug, Clone, Default)]
pub struct ConvertOptions {
    /// Files. A folder stands for the `.parquet`, `.csv`, `.tsv` and `.orc` files in it. Whether a file is Parquet or
    /// ORC is decided by its content, not by its name.
    pub inputs: Vec<PathBuf>,
    /// A folder (one output per input, named after it), or a file if it ends in `.orc` and there is one input.
    pub out: PathBuf,
    /// The columns to keep, in this order; `None`: all.
    pub columns: Option<Vec<String>>,
    /// Compression of streams; `None`: none.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per compression chunk; `None`: a size chosen for sparse reads.
    pub chunk_size_bytes: Option<usize>,
    /// Uncompressed bytes per compression chunk of numbers, dates, timestamps and booleans; `None`:
    /// `chunk_size_bytes`, else a size chosen for sparse reads.
    pub number_chunk_size_bytes: Option<usize>,
    /// FLOAT and DOUBLE columns stored as original chunks in a compressed file, so that single values can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group, each with statistics and an entry point; `None`: 10,000. Smaller row groups let sparse
    /// reads skip more.
    pub row_index_stride: Option<u32>,
    /// Rows per stripe; `None`: a million.
    pub stripe_rows: Option<usize>,
    /// Start a new output file (`name_0001.orc` and so on) after this many rows; `None`: one file per input.
    pub rows_per_file: Option<u64>,
    /// Replace a file, or a folder whole. A folder may hold only files that Grampus wrote.
    pub overwrite: bool,
    /// Read every output again, before it is published, and compare row count and content with the input.
    pub verify: bool,
    /// Form of CSV files.
    pub csv: CsvOptions,
    /// Threads that encode columns side by side, divided over the inputs; `None`: each input has one thread.
    pub threads: Option<Arc<dyn EncodingThreads>>,
}

/// The files that a conversion wrote.
#[derive(Debug, Clone, Default)]
pub struct ConvertReport {
    /// The files, in input order.
    pub files: Vec<PathBuf>,
    /// Rows in all files.
    pub rows: u64,
    /// Size of all files on disk, in bytes.
    pub bytes: u64,
}
