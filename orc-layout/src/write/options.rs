//! [`WriterOptions`], the layout of a file, and the checks of their combination.

use arrow::datatypes::{DataType, Schema};

use crate::codec::Codec;
use crate::codec::MAX_BLOCK_BYTES;
use crate::error::{LayoutError, Result};

/// Layout of a file.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// Codec of the streams; `None`: streams are not compressed.
    pub codec: Option<Codec>,
    /// Uncompressed bytes per chunk, the most of any stream; at most 2^23 - 1. Smaller chunks make compressed columns
    /// cheaper to read sparsely, and files larger.
    pub chunk_size_bytes: usize,
    /// Uncompressed bytes per chunk of numbers, dates, timestamps and booleans; at most `chunk_size_bytes`. `None`: as
    /// many. Strings compress better in large chunks.
    pub number_chunk_size_bytes: Option<usize>,
    /// Names of top-level FLOAT and DOUBLE columns stored as original chunks in a compressed file. Single values of
    /// such columns can be fetched.
    pub direct_columns: Vec<String>,
    /// Rows per row group; 0 writes no row index (which pyarrow refuses to read). With a multiple of 8, no two groups
    /// share a byte of nulls or booleans: each is read without a byte of the next.
    pub row_index_stride: u32,
    /// Rows at which a stripe is closed.
    pub stripe_rows: usize,
    /// Approximate bytes of buffered streams at which a stripe is closed.
    pub stripe_size_bytes: usize,
    /// DATA streams of direct columns start at a multiple of this (a power of two; 1: no alignment). In a compressed
    /// file the first value after the chunk header is aligned, to at most [`CHUNK_ALIGNMENT_BYTES`].
    pub alignment_bytes: u64,
    /// Largest share of distinct values with which a string column is dictionary-encoded in a stripe.
    pub dictionary_threshold: f64,
    /// Names of top-level columns that get a bloom filter per row group (integers, dates, floats, strings, binary).
    pub bloom_filter_columns: Vec<String>,
    /// False-positive probability of a bloom filter, between 0 and 1.
    pub bloom_filter_fpp: f64,
    /// User metadata of the footer.
    pub user_metadata: Vec<(String, Vec<u8>)>,
}

/// Alignment of the first value of an original chunk. A larger alignment is pointless: every further chunk header moves
/// the values by three bytes.
pub const CHUNK_ALIGNMENT_BYTES: u64 = 8;

/// Largest alignment: more padding costs more than it can save.
const MAX_ALIGNMENT_BYTES: u64 = 2 << 20;

/// Smallest chunk: below this the chunk headers cost more than sparse reading saves.
const MIN_CHUNK_BYTES: usize = 64;

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            codec: None,
            chunk_size_bytes: 64 * 1024,
            number_chunk_size_bytes: None,
            direct_columns: Vec::new(),
            row_index_stride: 10_000,
            stripe_rows: 5_000_000,
            stripe_size_bytes: 256 << 20,
            alignment_bytes: 4096,
            dictionary_threshold: 0.5,
            bloom_filter_columns: Vec::new(),
            bloom_filter_fpp: 0.05,
            user_metadata: Vec::new(),
        }
    }
}

/// Rows per stripe of tables that are read on demand: a multiple of the row group's 10,000.
const ON_DEMAND_STRIPE_ROWS: usize = 1_000_000;

impl WriterOptions {
    /// Layout of tables that are read on demand: stripes of 1,000,000 rows, chunks of 64 KiB, and of 4 KiB for numbers
    /// in Snappy. These sizes are chosen by measurement (docs/experiments/0032-chunk-sizes.md).
    pub fn on_demand(codec: Option<Codec>) -> Self {
        Self {
            codec,
            number_chunk_size_bytes: (codec == Some(Codec::Snappy)).then_some(4 << 10),
            stripe_rows: ON_DEMAND_STRIPE_ROWS,
            ..Self::default()
        }
    }

    /// The same layout with chunks of `bytes` uncompressed bytes in all columns.
    pub fn with_chunks_of(self, bytes: usize) -> Self {
        Self {
            chunk_size_bytes: bytes,
            number_chunk_size_bytes: None,
            ..self
        }
    }

    /// Refuses options that contradict each other or the schema.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        let refuse = |reason: String| Err(LayoutError::Write(reason));
        if self.codec == Some(Codec::Lzo) {
            return refuse("LZO is only read, not written: choose zlib, snappy, lz4 or zstd".into());
        }
        if !(MIN_CHUNK_BYTES..=MAX_BLOCK_BYTES).contains(&self.chunk_size_bytes) {
            return refuse(format!(
                "the chunk size must be between {MIN_CHUNK_BYTES} and {MAX_BLOCK_BYTES} bytes, not {}",
                self.chunk_size_bytes
            ));
        }
        if let Some(bytes) = self.number_chunk_size_bytes
            && !(MIN_CHUNK_BYTES..=self.chunk_size_bytes).contains(&bytes)
        {
            return refuse(format!(
                "the chunk size of numbers must be between {MIN_CHUNK_BYTES} and the chunk size of {} bytes, \
                 not {bytes}",
                self.chunk_size_bytes
            ));
        }
        if !self.alignment_bytes.is_power_of_two() || self.alignment_bytes > MAX_ALIGNMENT_BYTES {
            return refuse(format!(
                "the alignment must be a power of two up to {MAX_ALIGNMENT_BYTES} bytes, not {}",
                self.alignment_bytes
            ));
        }
        if self.stripe_rows == 0 || self.stripe_size_bytes == 0 {
            return refuse("a stripe needs at least one row and one byte".into());
        }
        if self.dictionary_threshold.is_nan() {
            return refuse("the dictionary threshold is not a number".into());
        }
        for name in &self.direct_columns {
            match schema.field_with_name(name).map(|field| field.data_type()) {
                Ok(DataType::Float32 | DataType::Float64) => {}
                Ok(other) => {
                    return refuse(format!(
                        "direct column {name} is {other}: only Float32 and Float64 can be"
                    ));
                }
                Err(_) => return refuse(format!("direct column {name} is not in the schema")),
            }
        }
        self.check_bloom_filters(schema)
    }

    fn check_bloom_filters(&self, schema: &Schema) -> Result<()> {
        if self.bloom_filter_columns.is_empty() {
            return Ok(());
        }
        if self.row_index_stride == 0 {
            return Err(LayoutError::Write(
                "bloom filters need a row index: set a stride".into(),
            ));
        }
        if !(self.bloom_filter_fpp > 0.0 && self.bloom_filter_fpp < 1.0) {
            return Err(LayoutError::Write(format!(
                "the bloom filters' false positive share must be between 0 and 1, not {}",
                self.bloom_filter_fpp
            )));
        }
        for name in &self.bloom_filter_columns {
            if schema.field_with_name(name).is_err() {
                return Err(LayoutError::Write(format!(
                    "bloom filter column {name} is not in the schema"
                )));
            }
        }
        Ok(())
    }
}
