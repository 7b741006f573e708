//! Arrow batches to an ORC file laid out for on-demand reading: aligned direct streams, row index with positions and
//! statistics, stripe and file statistics, raw chunks for columns that queries fetch by value.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::tail::Codec;

/// How a file is laid out.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// `None`: streams are stored as they are.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per chunk; at most 2^23 - 1. Smaller chunks make compressed columns cheaper to read sparsely.
    pub chunk_size_bytes: usize,
    /// Names of top-level FLOAT and DOUBLE columns stored as original chunks in a compressed file, so that single values can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group; 0 writes no row index.
    pub row_index_stride: u32,
    /// A stripe is closed when it has this many rows …
    pub stripe_rows: usize,
    /// … or when its buffered streams hold about this many bytes.
    pub stripe_size_bytes: usize,
    /// DATA streams of direct columns start at a multiple of this (a power of two; 1: no alignment).
    pub alignment_bytes: u64,
    /// A string column is dictionary-encoded when distinct values are at most this share of its values in the stripe.
    pub dictionary_threshold: f64,
    /// Written to the footer as user metadata.
    pub user_metadata: Vec<(String, Vec<u8>)>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            codec: None,
            chunk_size_bytes: 64 * 1024,
            direct_columns: Vec::new(),
            row_index_stride: 10_000,
            stripe_rows: 5_000_000,
            stripe_size_bytes: 256 << 20,
            alignment_bytes: 4096,
            dictionary_threshold: 0.5,
            user_metadata: Vec::new(),
        }
    }
}

/// Writes one ORC file. Nothing is valid until [`finish`](Self::finish) returns.
pub struct OrcWriter<W: Write> {
    sink: W,
    schema: SchemaRef,
    options: WriterOptions,
}

impl<W: Write> OrcWriter<W> {
    /// Starts a file with this schema (primitive types, decimals, timestamps, strings, binary; list, struct and map too).
    ///
    /// # Errors
    /// `Write` for types ORC cannot store (unsigned 64-bit, intervals, …) and for options that contradict each other.
    pub fn new(sink: W, schema: SchemaRef, options: WriterOptions) -> Result<Self> {
        Ok(Self { sink, schema, options })
    }

    /// Appends rows; may write finished stripes.
    ///
    /// # Errors
    /// `Write` when the batch's schema differs or the sink fails (disk full).
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let _ = (&mut self.sink, &self.schema, &self.options, batch);
        todo!()
    }

    /// Writes the last stripe and the tail and returns the sink.
    ///
    /// # Errors
    /// `Write` when the sink fails.
    pub fn finish(self) -> Result<W> {
        todo!()
    }
}
