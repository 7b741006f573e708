//! The end of the file: postscript, footer and metadata, parsed from bytes the caller has read.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::codec;
use crate::error::Result;
use crate::schema::OrcSchemaRef;
use crate::statistics::ColumnStatistics;

/// Compression of every stream and footer of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    /// The codec.
    pub codec: Codec,
    /// No chunk decompresses to more than this many bytes.
    pub block_size_bytes: u64,
}

impl Compression {
    /// [`block_size_bytes`](Self::block_size_bytes) as far as it can be believed: what decompression of one chunk may produce.
    pub fn block_size(&self) -> usize {
        usize::try_from(self.block_size_bytes).map_or(codec::MAX_BLOCK_BYTES, |bytes| bytes.min(codec::MAX_BLOCK_BYTES))
    }
}

/// Chunk codecs (ORC v1, "Compression").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the specification's own names
pub enum Codec {
    Zlib,
    Snappy,
    Lzo,
    Lz4,
    Zstd,
}

/// Where a stripe lies and how many rows it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeInfo {
    /// Position in the file, from 0.
    pub index: usize,
    /// First byte of the stripe (its index section).
    pub offset: u64,
    /// Bytes of the index section.
    pub index_length: u64,
    /// Bytes of the data section.
    pub data_length: u64,
    /// Bytes of the stripe footer.
    pub footer_length: u64,
    /// Rows in the stripe.
    pub rows: u64,
    /// File-relative number of the stripe's first row.
    pub first_row: u64,
}

impl StripeInfo {
    /// The bytes of the stripe footer.
    pub fn footer_range(&self) -> Range<u64> {
        let start = self.offset + self.index_length + self.data_length;
        start..start + self.footer_length
    }
}

/// Everything the tail of an ORC file says.
#[derive(Debug, Clone)]
pub struct FileTail {
    /// Path or URL as the user named it; every error carries it.
    pub file: Arc<str>,
    /// Length of the whole file in bytes.
    pub file_length: u64,
    /// `None` when streams are stored as they are.
    pub compression: Option<Compression>,
    /// Column tree and Arrow schema.
    pub schema: OrcSchemaRef,
    /// Rows in the file.
    pub rows: u64,
    /// Rows per row group; `None` when the file has no row index.
    pub row_index_stride: Option<u32>,
    /// The stripes, in file order; each lies inside the file and no arithmetic on them overflows.
    pub stripes: Vec<StripeInfo>,
    /// Statistics of the whole file by column id; shorter or empty if the writer left them out.
    pub file_statistics: Vec<ColumnStatistics>,
    /// Statistics by stripe, then by column id; empty if the writer left them out.
    pub stripe_statistics: Vec<Vec<ColumnStatistics>>,
    /// User metadata, in file order.
    pub user_metadata: Vec<(String, Vec<u8>)>,
    /// "0.12" and the like.
    pub format_version: String,
    /// Name of the writer implementation ("ORC Java", "ORC C++", "Presto", "unknown (7)", …) and its software version, if stated.
    pub writer: String,
    /// The writer's own version number: which known bugs its statistics, bloom filters or timestamps have.
    pub writer_version: u32,
    /// Bytes of postscript, footer and metadata together: what reading the tail costs.
    pub tail_length: u64,
}

/// Result of looking at the last bytes of a file.
#[derive(Debug)]
pub enum TailParse {
    /// Everything was there.
    Complete(Box<FileTail>),
    /// The tail is longer: call again with at least this many bytes from the end of the file.
    NeedBytes(u64),
}

impl FileTail {
    /// How much of the end of a file to read before anything is known about it.
    pub const FIRST_READ_BYTES: u64 = 16 * 1024;

    /// Parses the tail of a file of `file_length` bytes whose last bytes are `last`.
    ///
    /// # Errors
    /// `NotOrc` for anything else than ORC (0 bytes, no magic), `Corrupt` with the place, `Unsupported` for encrypted columns and DWRF.
    pub fn parse(file: &Arc<str>, file_length: u64, last: &Bytes) -> Result<TailParse> {
        let _ = (file, file_length, last);
        todo!()
    }
}
