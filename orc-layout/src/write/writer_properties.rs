//! [`WriterProperties`], the layout of a file, their builder, and the checks of their combination.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Schema};

use super::column_properties::ColumnProperties;
use crate::codec::Codec;
use crate::codec::MAX_BLOCK_BYTES;
use crate::error::{LayoutError, Result};
use crate::text_type::TextType;

/// Layout of a file: by the [`builder`](Self::builder), or by `WriterProperties { codec, ..Default::default() }`.
#[derive(Debug, Clone)]
pub struct WriterProperties {
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
    /// Rows per row group; 0 writes no row index. With a multiple of 8, no two groups share a byte of nulls or
    /// booleans: each is read without a byte of the next.
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
    /// Names of top-level columns that get a bloom filter per row group: integers, floats, decimals, dates, timestamps,
    /// STRING, VARCHAR and binary.
    pub bloom_filter_columns: Vec<String>,
    /// False-positive probability of a bloom filter, between 0 and 1.
    pub bloom_filter_fpp: f64,
    /// User metadata of the footer.
    pub user_metadata: Vec<(String, Vec<u8>)>,
    /// Properties of single columns, by dotted name: "address.lines.item".
    pub columns: BTreeMap<String, ColumnProperties>,
}

/// Alignment of the first value of an original chunk. A larger alignment is pointless: every further chunk header moves
/// the values by three bytes.
pub const CHUNK_ALIGNMENT_BYTES: u64 = 8;

/// Largest alignment: more padding costs more than it can save.
const MAX_ALIGNMENT_BYTES: u64 = 2 << 20;

/// Smallest chunk: below this the chunk headers cost more than sparse reading saves.
pub(super) const MIN_CHUNK_BYTES: usize = 64;

impl Default for WriterProperties {
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
            columns: BTreeMap::new(),
        }
    }
}

/// Rows per stripe of tables that are read on demand: a multiple of the row group's 10,000.
const ON_DEMAND_STRIPE_ROWS: usize = 1_000_000;

impl WriterProperties {
    /// A builder that starts with the default layout.
    pub fn builder() -> WriterPropertiesBuilder {
        WriterPropertiesBuilder::from(Self::default())
    }

    /// A builder that starts with this layout.
    pub fn into_builder(self) -> WriterPropertiesBuilder {
        WriterPropertiesBuilder::from(self)
    }

    /// The false-positive probability of a column's bloom filters.
    pub(super) fn bloom_filter_fpp_of(&self, column: &str) -> f64 {
        let stated = self.columns.get(column).and_then(|column| column.bloom_filter_fpp);
        stated.unwrap_or(self.bloom_filter_fpp)
    }

    /// The largest share of distinct values with which a column has a dictionary.
    pub(super) fn dictionary_threshold_of(&self, column: &str) -> f64 {
        let stated = self.columns.get(column).and_then(|column| column.dictionary_threshold);
        stated.unwrap_or(self.dictionary_threshold)
    }

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
        if !is_share(self.bloom_filter_fpp) {
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

/// Builder of [`WriterProperties`]. Columns are named by their dotted names: "address.lines.item".
#[derive(Debug, Clone)]
pub struct WriterPropertiesBuilder {
    properties: WriterProperties,
}

impl From<WriterProperties> for WriterPropertiesBuilder {
    fn from(properties: WriterProperties) -> Self {
        Self { properties }
    }
}

impl WriterPropertiesBuilder {
    /// The properties. [`ArrowWriter::try_new`](super::ArrowWriter::try_new) checks them against its schema.
    pub fn build(self) -> WriterProperties {
        self.properties
    }

    /// Sets the codec of all streams; `None`: no compression. ORC has one codec for a file.
    pub fn set_compression(mut self, codec: Option<Codec>) -> Self {
        self.properties.codec = codec;
        self
    }

    /// Sets the most uncompressed bytes of a chunk.
    pub fn set_chunk_size(mut self, bytes: usize) -> Self {
        self.properties.chunk_size_bytes = bytes;
        self
    }

    /// Sets the uncompressed bytes of a chunk of numbers, dates, timestamps and booleans.
    pub fn set_number_chunk_size(mut self, bytes: Option<usize>) -> Self {
        self.properties.number_chunk_size_bytes = bytes;
        self
    }

    /// Sets the rows of a row group; 0: no row index.
    pub fn set_row_index_stride(mut self, rows: u32) -> Self {
        self.properties.row_index_stride = rows;
        self
    }

    /// Sets the most rows of a stripe.
    pub fn set_max_stripe_row_count(mut self, rows: usize) -> Self {
        self.properties.stripe_rows = rows;
        self
    }

    /// Sets the buffered bytes at which a stripe ends, about.
    pub fn set_max_stripe_bytes(mut self, bytes: usize) -> Self {
        self.properties.stripe_size_bytes = bytes;
        self
    }

    /// Sets the alignment of direct columns, a power of two.
    pub fn set_alignment(mut self, bytes: u64) -> Self {
        self.properties.alignment_bytes = bytes;
        self
    }

    /// Sets the largest share of distinct values with which a stripe's strings have a dictionary; 0: never.
    pub fn set_dictionary_threshold(mut self, share: f64) -> Self {
        self.properties.dictionary_threshold = share;
        self
    }

    /// Sets the false-positive probability of bloom filters.
    pub fn set_bloom_filter_fpp(mut self, share: f64) -> Self {
        self.properties.bloom_filter_fpp = share;
        self
    }

    /// Sets the user's metadata of the footer.
    pub fn set_key_value_metadata(mut self, metadata: Vec<(String, Vec<u8>)>) -> Self {
        self.properties.user_metadata = metadata;
        self
    }

    /// Sets whether a column of the root has bloom filters, one for each row group.
    pub fn set_column_bloom_filter_enabled(mut self, column: &str, enabled: bool) -> Self {
        set_member(&mut self.properties.bloom_filter_columns, column, enabled);
        self
    }

    /// Sets the false-positive probability of a column's bloom filters.
    pub fn set_column_bloom_filter_fpp(mut self, column: &str, share: f64) -> Self {
        self.column(column).bloom_filter_fpp = Some(share);
        self
    }

    /// Sets whether a text column may have dictionaries: by the file's threshold, or never.
    pub fn set_column_dictionary_enabled(mut self, column: &str, enabled: bool) -> Self {
        self.column(column).dictionary_threshold = (!enabled).then_some(0.0);
        self
    }

    /// Sets the largest share of distinct values with which a column has a dictionary.
    pub fn set_column_dictionary_threshold(mut self, column: &str, share: f64) -> Self {
        self.column(column).dictionary_threshold = Some(share);
        self
    }

    /// Sets the uncompressed bytes of a column's chunks; at most the file's.
    pub fn set_column_chunk_size(mut self, column: &str, bytes: usize) -> Self {
        self.column(column).chunk_size_bytes = Some(bytes);
        self
    }

    /// Sets whether a FLOAT or DOUBLE column of the root is stored in original chunks of a compressed file, so that
    /// single values can be read.
    pub fn set_column_direct(mut self, column: &str, enabled: bool) -> Self {
        set_member(&mut self.properties.direct_columns, column, enabled);
        self
    }

    /// Sets the ORC type of a text column.
    pub fn set_column_text_type(mut self, column: &str, text_type: TextType) -> Self {
        self.column(column).text_type = Some(text_type);
        self
    }

    /// Adds an attribute to the type of a column.
    pub fn set_column_attribute(mut self, column: &str, key: &str, value: &str) -> Self {
        let attributes = &mut self.column(column).attributes;
        attributes.retain(|(known, _)| known != key);
        attributes.push((key.to_owned(), value.to_owned()));
        self
    }

    fn column(&mut self, name: &str) -> &mut ColumnProperties {
        self.properties.columns.entry(name.to_owned()).or_default()
    }
}

fn set_member(names: &mut Vec<String>, name: &str, is_member: bool) {
    names.retain(|known| known != name);
    if is_member {
        names.push(name.to_owned());
    }
}

/// Between 0 and 1, without these.
pub(super) fn is_share(share: f64) -> bool {
    share > 0.0 && share < 1.0
}
