//! [`AsyncByteSource`], the bytes of one file that take time to come.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Result;

/// Random access to one file's bytes that take time to come.
///
/// The reader asks for the ranges that it needs next in one call, so that an implementation can fetch them together.
pub trait AsyncByteSource: Send + Sync + 'static {
    /// Exactly the bytes of `range` (absolute file offsets).
    ///
    /// # Errors
    /// [`LayoutError::Io`](crate::LayoutError::Io) if the bytes cannot be fetched.
    fn get_range(&self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>>;

    /// The bytes of each range. The ranges ascend and do not overlap. The default fetches one after the other.
    ///
    /// # Errors
    /// As [`get_range`](Self::get_range).
    fn get_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(async move {
            let mut fetched = Vec::with_capacity(ranges.len());
            for range in ranges {
                fetched.push(self.get_range(range).await?);
            }
            Ok(fetched)
        })
    }

    /// Bytes of the file.
    ///
    /// # Errors
    /// [`LayoutError::Io`](crate::LayoutError::Io) if the length cannot be found out.
    fn length(&self) -> BoxFuture<'_, Result<u64>>;

    /// The file's name in errors.
    fn name(&self) -> Arc<str> {
        "ORC file".into()
    }
}
