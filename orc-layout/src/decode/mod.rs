//! Streams to values: reads exactly the selected rows of one top-level column of one stripe.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::access::Access;
use crate::error::Result;
use crate::index::ColumnIndex;
use crate::schema::ColumnId;
use crate::selection::RowSelection;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// Reads one top-level column of one stripe. Cheap to make: nothing is read before [`read`](Self::read).
///
/// Calls with ascending rows reuse the open run and chunk; a call that goes back seeks. Columns without entry points
/// (no row index, nested types) are decoded from the stripe's start, once for ascending calls.
pub struct ColumnReader {
    tail: Arc<FileTail>,
    stripe: Arc<StripeLayout>,
    column: ColumnId,
    index: Option<Arc<ColumnIndex>>,
    access: Access,
    source: Arc<dyn ByteSource>,
}

impl ColumnReader {
    /// Prepares to read `column` (a child of the root struct).
    ///
    /// # Errors
    /// `Corrupt` when streams or encodings that the type needs are missing.
    pub fn new(
        tail: Arc<FileTail>,
        stripe: Arc<StripeLayout>,
        column: ColumnId,
        index: Option<Arc<ColumnIndex>>,
        access: Access,
        source: Arc<dyn ByteSource>,
    ) -> Result<Self> {
        Ok(Self {
            tail,
            stripe,
            column,
            index,
            access,
            source,
        })
    }

    /// How this column is read.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The values of the selected rows (stripe-relative), in order: an array of `rows.rows()` values of the column's Arrow type.
    ///
    /// A contiguous range of an aligned direct column is returned without copying when the source's bytes allow it.
    ///
    /// # Errors
    /// `Corrupt` with stream and offset, `Io` from the source, `OutOfRange` for values that Arrow's type cannot hold.
    pub fn read(&mut self, rows: &RowSelection) -> Result<ArrayRef> {
        let _ = (&self.tail, &self.stripe, self.column, &self.index, &self.source, rows);
        todo!()
    }
}
