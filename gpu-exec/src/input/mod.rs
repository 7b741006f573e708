//! `Input`: the files, stripes and column placements that a program is run over.
//!
//! ```text
//! mod             inputs, stripes, placements, and the decoder that the caller supplies
//! encoded_check   whether the device takes a column as it is stored
//! segments        consecutive values of a raw column
//! file_version    identity and state of a file
//! file_registry   ids of file versions
//! ```

pub mod encoded_check;
pub(crate) mod file_registry;
mod file_version;
mod segments;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use grampus_orc_layout::codec::Compression;
use grampus_orc_layout::encoded_column::EncodedColumn;

pub use self::file_version::FileVersion;
pub use self::segments::Segment;
pub(crate) use self::segments::file_ranges;
use crate::program::Value;

/// Place of a column's values in one stripe.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// Raw in the file, none missing: ascending segments that cover the stripe's rows.
    Direct(Vec<Segment>),
    /// One value in all rows. `None`: NULL.
    Constant(Option<Value>),
    /// Any other encoding. [`Decode`] returns the values, or the streams for the device to decode.
    Decoded {
        /// Bytes of the file that hold them.
        stored_bytes: u64,
        /// A GPU can decode them, as far as the metadata tells before any stream is read: [`Decode::encoded`].
        on_device: bool,
        /// Decompressed bytes of a chunk, if the values lie raw in compression chunks and none is missing. Pages of the
        /// column are then chunks. Chunks of other lengths are found too, and only take more bytes. `None`: pages are
        /// row groups.
        chunk_bytes: Option<u64>,
    },
}

/// A stripe's rows, or those of its row groups that may hold rows that pass.
#[derive(Debug, Clone)]
pub struct Stripe {
    /// By position in [`Input::files`].
    pub file: usize,
    /// Number in its file.
    pub index: usize,
    /// All its rows.
    pub rows: u64,
    /// Rows of a row group, at whose start decoding can begin. Without a row index: the stripe's rows. Not 0.
    pub group_rows: u64,
    /// Compression of its file; `None`: none. Only estimates depend on it.
    pub compression: Option<Compression>,
    /// Selected rows: ascending, not empty, not overlapping.
    pub selected: Vec<Range<u64>>,
    /// By position in the program's columns.
    pub columns: Vec<Placement>,
}

/// Values that the caller has decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// One value per row in its type's bytes. A missing value is zero.
    pub values: Vec<u8>,
    /// One byte per row: 1 for a value, 0 for NULL. `None`: no value is missing.
    pub valid: Option<Vec<u8>>,
}

/// Decoder of columns that are not raw. Several threads call it at once.
pub trait Decode: fmt::Debug + Send + Sync {
    /// Values of a column in `rows` of a stripe. Positions are those in the program's columns and in
    /// [`Input::stripes`].
    ///
    /// # Errors
    /// A message for the user with file, place and reason.
    fn decode(
        &self,
        stripe: usize,
        column: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>>;

    /// Streams of a column of a stripe, for a GPU to decode. If the result is `None`, for whatever reason, the values
    /// come from [`decode`](Self::decode).
    fn encoded(&self, stripe: usize, column: usize) -> Option<Arc<EncodedColumn>> {
        let _ = (stripe, column);
        None
    }

    /// Codes of all entries of a column's dictionary in a stripe
    /// ([`EncodedValues::Dictionary`](grampus_orc_layout::encoded_column::EncodedValues::Dictionary)): a number of four
    /// bytes for each entry.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    fn dictionary_codes(
        &self,
        stripe: usize,
        column: usize,
    ) -> Result<Arc<[u32]>, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("column {column} of stripe {stripe} has no dictionary").into())
    }
}

/// Files, stripes and column placements that a program is run over.
#[derive(Debug, Clone)]
pub struct Input {
    /// The files.
    pub files: Vec<FileVersion>,
    /// Their stripes, in the order of rows.
    pub stripes: Vec<Stripe>,
    /// Ids of the program's columns, by position. A column of a file version has the same id in every query (its ORC
    /// column id). Cached data on the device is keyed by it.
    pub column_ids: Vec<u32>,
    /// The dictionary that values of [`Type::Code`](crate::program::Type::Code) refer to. Cached codes are keyed by it.
    pub dictionary: u64,
    /// By column, or empty: the least and the greatest value of stripes, as far as they are known. They need not be
    /// exact: they decide where groups are kept, and not which groups there are.
    pub value_ranges: Vec<Vec<(Value, Value)>>,
    /// By column, or empty: the least and the greatest value in the files, as an integer, unscaled, or a code. `None`:
    /// unknown. Decoded values take no more bytes in memory than these bounds need. Bounds need not be right: a value
    /// beyond them makes the column be loaded again.
    pub value_bounds: Vec<Option<(i64, i64)>>,
    /// Decoder for [`Placement::Decoded`].
    pub decoder: Arc<dyn Decode>,
}

impl Input {
    /// First row of each stripe, counted over all stripes, and at the end the number of all rows.
    pub(crate) fn first_rows(&self) -> Vec<u64> {
        let mut next = 0;
        let first = self.stripes.iter().map(|stripe| {
            next += stripe.rows;
            next
        });
        std::iter::once(0).chain(first).collect()
    }
}
