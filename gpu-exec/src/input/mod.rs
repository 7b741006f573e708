//! Where a program's values are: files, stripes of rows, and each column's place in a stripe.

pub mod encoded_column;
pub(crate) mod file_registry;
mod file_version;
mod segments;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use self::encoded_column::EncodedColumn;
pub use self::file_version::FileVersion;
pub use self::segments::Segment;
pub(crate) use self::segments::file_ranges;
use crate::program::Value;

/// Where a column's values of one stripe are.
#[derive(Debug, Clone, PartialEq)]
pub enum Placement {
    /// Raw in the file, none missing: ascending segments that cover the stripe's rows.
    Direct(Vec<Segment>),
    /// All rows have this value; `None`: NULL.
    Constant(Option<Value>),
    /// Anything else: [`Decode`] gives the values, or what a GPU needs to decode them.
    Decoded {
        /// Bytes of the file that hold them.
        stored_bytes: u64,
        /// A GPU can decode them, as far as that is known before anything is read: [`Decode::encoded`].
        on_device: bool,
    },
}

/// A stripe's rows, or those row groups of it that may hold rows that pass.
#[derive(Debug, Clone)]
pub struct Stripe {
    /// By position in [`Input::files`].
    pub file: usize,
    /// Number in its file.
    pub index: usize,
    /// All its rows.
    pub rows: u64,
    /// Rows of a row group, from which decoding can start; the stripe's rows where there is no row index. Not 0.
    pub group_rows: u64,
    /// The rows to look at: ascending, not empty, not overlapping.
    pub selected: Vec<Range<u64>>,
    /// By position in the program's columns.
    pub columns: Vec<Placement>,
}

/// Values decoded by the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded {
    /// One value per row in its type's bytes; where one is missing, zero.
    pub values: Vec<u8>,
    /// One byte per row, 1: there, 0: NULL; `None`: all are there.
    pub valid: Option<Vec<u8>>,
}

/// Decodes columns that are not raw. Called from several threads.
pub trait Decode: fmt::Debug + Send + Sync {
    /// The values of a column in `rows` of a stripe, by positions in the program's columns and [`Input::stripes`].
    ///
    /// # Errors
    /// In words for the person who asked: file, place, what is wrong.
    fn decode(
        &self,
        stripe: usize,
        column: usize,
        rows: Range<u64>,
    ) -> Result<Decoded, Box<dyn std::error::Error + Send + Sync>>;

    /// How a column of a stripe is stored, for a GPU to decode it. `None`, for whatever reason: it is [`decode`](Self::decode)d.
    fn encoded(&self, stripe: usize, column: usize) -> Option<Arc<EncodedColumn>> {
        let _ = (stripe, column);
        None
    }

    /// The codes of all entries of a column's dictionary in a stripe ([`Values::Codes`](crate::input::encoded_column::Values::Codes)).
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

/// What a program is run over.
#[derive(Debug, Clone)]
pub struct Input {
    /// The files.
    pub files: Vec<FileVersion>,
    /// Their stripes, in the order of rows.
    pub stripes: Vec<Stripe>,
    /// For each of the program's columns a number that is the same for the same column of the same file version in every query (its
    /// ORC column id): what is kept on the device is known by it.
    pub column_ids: Vec<u32>,
    /// For [`Placement::Decoded`].
    pub decoder: Arc<dyn Decode>,
}

impl Input {
    /// The first row of each stripe, counted over all of them, and the number of all rows.
    pub(crate) fn first_rows(&self) -> Vec<u64> {
        let mut next = 0;
        let first = self.stripes.iter().map(|stripe| {
            next += stripe.rows;
            next
        });
        std::iter::once(0).chain(first).collect()
    }
}
