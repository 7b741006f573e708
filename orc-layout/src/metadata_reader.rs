//! Metadata reads through a [`ByteSource`], in few requests:
//!
//! - the tail in one or two,
//! - a stripe's footer in one,
//! - a column's index in one or two.
//!
//! Callers that fetch bytes in their own way use the parsers in [`tail`](crate::tail), [`stripe`](crate::stripe) and
//! [`index`](crate::index).

use std::sync::Arc;

use crate::error::{Result, Section};
use crate::index::{ColumnIndex, IndexRanges};
use crate::schema::ColumnId;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;
use crate::tail::{FileTail, TailParse};

/// Reads the tail of a file of `length` bytes.
///
/// # Errors
/// As for [`FileTail::parse`], and `Io` from the source.
pub fn read_tail(file: &Arc<str>, length: u64, source: &dyn ByteSource) -> Result<FileTail> {
    let mut wanted = FileTail::FIRST_READ_BYTES;
    // The first read holds the postscript, which states the tail's length: the second answer is complete.
    for _ in 0..2 {
        let last = source.read(length.saturating_sub(wanted)..length)?;
        match FileTail::parse(file, length, &last)? {
            TailParse::Complete(tail) => return Ok(*tail),
            TailParse::NeedBytes(bytes) => wanted = bytes,
        }
    }
    let place = Section {
        file,
        offset: length.saturating_sub(wanted),
        name: "tail",
    };
    Err(place.corrupt(0, "the file changed while it was read"))
}

/// Reads and parses the footer of a stripe.
///
/// # Errors
/// As for [`StripeLayout::parse`], and `Io` from the source.
pub fn read_stripe(tail: &FileTail, source: &dyn ByteSource, stripe: usize) -> Result<StripeLayout> {
    let range = tail.stripes.get(stripe).map_or(0..0, |info| info.footer_range());
    let footer = source.read(range)?;
    StripeLayout::parse(tail, stripe, &footer)
}

/// Reads and parses the row index and the bloom filters of a column. Empty if the stripe has none.
///
/// # Errors
/// As for [`ColumnIndex::parse`], and `Io` from the source.
pub fn read_index(
    tail: &FileTail,
    stripe: &StripeLayout,
    source: &dyn ByteSource,
    column: ColumnId,
) -> Result<ColumnIndex> {
    let ranges = IndexRanges::of(tail, stripe, column);
    let row_index = ranges.row_index.map(|range| source.read(range)).transpose()?;
    let bloom_filter = ranges.bloom_filter.map(|range| source.read(range)).transpose()?;
    ColumnIndex::parse(tail, stripe, column, row_index.as_ref(), bloom_filter.as_ref())
}
