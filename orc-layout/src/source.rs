//! [`ByteSource`], the bytes of one file by absolute range. The file's owner implements it: a memory map, positioned
//! reads, or ranges fetched ahead from an object store. [`ChunkReader`] adds the file's length and name.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{LayoutError, Result};

/// Random access to one file's bytes.
///
/// Implementations may count traffic: every call is one read request of `range.end - range.start` bytes. Callers never
/// ask for a byte that they do not need.
pub trait ByteSource: Send + Sync {
    /// Exactly the bytes of `range` (absolute file offsets).
    ///
    /// # Errors
    /// [`LayoutError::Io`] if the bytes cannot be read.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;

    /// As [`read`](Self::read), for callers that load each byte once and accept any value: the source may return memory
    /// that another process changes.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_volatile(&self, range: Range<u64>) -> Result<Bytes> {
        self.read(range)
    }

    /// Reads many small values of `width` bytes at the given absolute offsets into `out`: `offsets.len() * width`
    /// bytes, in order. The default merges offsets within `merge_gap_bytes` of each other into one
    /// [`read`](Self::read). A memory map loads each value.
    ///
    /// `offsets` ascend.
    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        gather_by_reads(self, offsets, width, out)
    }

    /// Largest number of unneeded bytes between two values that is cheaper to read than a second request.
    fn merge_gap_bytes(&self) -> u64 {
        0
    }
}

/// Reads small values as [`ByteSource::gather`] does by default: values near each other by one read.
///
/// # Errors
/// As [`ByteSource::read`].
pub fn gather_by_reads(
    source: &(impl ByteSource + ?Sized),
    offsets: &[u64],
    width: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let mut i = 0;
    while i < offsets.len() {
        let start = offsets[i];
        let mut end = start + width as u64;
        let mut j = i + 1;
        while j < offsets.len() && offsets[j] <= end + source.merge_gap_bytes() {
            end = offsets[j] + width as u64;
            j += 1;
        }
        let run = source.read(start..end)?;
        for &offset in &offsets[i..j] {
            let at = (offset - start) as usize;
            out.extend_from_slice(&run[at..at + width]);
        }
        i = j;
    }
    Ok(())
}

/// A [`ByteSource`] that knows the length and the name of its file: what a reader needs to open it.
pub trait ChunkReader: ByteSource + 'static {
    /// Bytes of the file.
    fn length(&self) -> u64;

    /// The file's name in errors.
    fn name(&self) -> Arc<str> {
        "ORC file".into()
    }
}

/// A source that several readers share.
impl<T: ByteSource + ?Sized> ByteSource for Arc<T> {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        (**self).read(range)
    }

    fn read_volatile(&self, range: Range<u64>) -> Result<Bytes> {
        (**self).read_volatile(range)
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        (**self).gather(offsets, width, out)
    }

    fn merge_gap_bytes(&self) -> u64 {
        (**self).merge_gap_bytes()
    }
}

impl<T: ChunkReader + ?Sized> ChunkReader for Arc<T> {
    fn length(&self) -> u64 {
        (**self).length()
    }

    fn name(&self) -> Arc<str> {
        (**self).name()
    }
}

/// A file in memory.
impl ByteSource for Bytes {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let length = self.len() as u64;
        if range.start > range.end || range.end > length {
            let reason = format!("the file has {length} bytes");
            return Err(LayoutError::io_without_source(&self.name(), range, reason));
        }
        Ok(self.slice(range.start as usize..range.end as usize))
    }
}

impl ChunkReader for Bytes {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn name(&self) -> Arc<str> {
        "bytes in memory".into()
    }
}
