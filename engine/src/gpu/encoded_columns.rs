//! Which columns of ORC stripes the GPU can decode as they are stored.
//!
//! The footer and the row index of a stripe give all that the GPU needs to decode a column.

use grampus_gpu_exec::input::encoded_check::{MAX_DICTIONARY_CODES, MAX_GROUP_ROWS};
use grampus_orc_layout::encoded_column::may_be_encoded;
use grampus_orc_layout::schema::ColumnId;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::FileTail;

/// Rows of a row group of a stripe, at least one.
pub(super) fn group_rows(tail: &FileTail, stripe: &StripeLayout) -> u64 {
    let stride = tail.row_group_stride(&stripe.info);
    stride.map_or(stripe.info.rows, u64::from).max(1)
}

/// True if the GPU can probably decode a column of a stripe. The row index, which this does not read, may exclude it.
pub(super) fn on_device(tail: &FileTail, stripe: &StripeLayout, column: ColumnId) -> bool {
    let group_rows = group_rows(tail, stripe);
    let entries = stripe.encodings.get(column as usize).map_or(0, |e| e.dictionary_size);
    may_be_encoded(tail, stripe, column) && group_rows <= MAX_GROUP_ROWS && entries <= MAX_DICTIONARY_CODES
}

#[cfg(test)]
#[path = "encoded_columns_tests.rs"]
mod tests;
