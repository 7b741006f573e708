//! One stripe's footer: every stream with its absolute place, every column's encoding, the writer's time zone.

use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;
use crate::proto;
use crate::schema::ColumnId;
use crate::tail::{FileTail, StripeInfo};

/// One stream of a stripe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stream {
    /// The column it belongs to.
    pub column: ColumnId,
    /// What it holds.
    pub kind: proto::stream::Kind,
    /// Absolute file offset of its first byte.
    pub offset: u64,
    /// Its bytes, as stored (compressed).
    pub length: u64,
}

impl Stream {
    /// Absolute byte range of the stream.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// How a column of a stripe is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// DIRECT, DIRECT_V2, DICTIONARY, DICTIONARY_V2.
    pub kind: proto::column_encoding::Kind,
    /// Entries of the dictionary, 0 for direct encodings.
    pub dictionary_size: u32,
}

/// Where everything in one stripe is.
#[derive(Debug, Clone)]
pub struct StripeLayout {
    /// The stripe's place in the file.
    pub info: StripeInfo,
    /// All streams, in file order; each lies inside the stripe.
    pub streams: Vec<Stream>,
    /// Encoding by column id.
    pub encodings: Vec<Encoding>,
    /// The writer's zone for TIMESTAMP columns; `None` means UTC.
    pub writer_timezone: Option<chrono_tz::Tz>,
}

impl StripeLayout {
    /// Parses the footer of stripe `stripe`, whose bytes are [`StripeInfo::footer_range`].
    ///
    /// # Errors
    /// `Corrupt` when streams leave the stripe, encodings are missing or unknown, the zone is unknown, …
    pub fn parse(tail: &FileTail, stripe: usize, footer: &Bytes) -> Result<Self> {
        let _ = (tail, stripe, footer);
        todo!()
    }

    /// The stream of this kind of this column, if the stripe has it.
    pub fn stream(&self, column: ColumnId, kind: proto::stream::Kind) -> Option<&Stream> {
        self.streams.iter().find(|s| s.column == column && s.kind == kind)
    }

    /// Number of row groups (1 when the file has no row index).
    pub fn row_groups(&self, tail: &FileTail) -> usize {
        match tail.row_index_stride {
            Some(stride) => self.info.rows.div_ceil(u64::from(stride)) as usize,
            None => usize::from(self.info.rows > 0),
        }
    }

    /// Stripe-relative rows of a row group.
    pub fn row_group_rows(&self, tail: &FileTail, group: usize) -> Range<u64> {
        match tail.row_index_stride {
            Some(stride) => {
                let stride = u64::from(stride);
                let start = group as u64 * stride;
                start.min(self.info.rows)..(start + stride).min(self.info.rows)
            }
            None => 0..self.info.rows,
        }
    }
}
