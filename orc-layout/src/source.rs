//! Where bytes come from. The decoders ask for absolute byte ranges of one file; whoever owns the
//! file (a memory map, positioned reads, ranges fetched ahead from an object store) answers.

use std::ops::Range;

use bytes::Bytes;

use crate::error::Result;

/// Random access to one file's bytes.
///
/// Implementations count what they move: every call is a read request of `range.end - range.start`
/// bytes as far as this crate is concerned, and callers never ask for a byte that they do not need.
pub trait ByteSource: Send + Sync {
    /// The bytes of `range` (absolute file offsets), exactly that many.
    ///
    /// # Errors
    /// [`LayoutError::Io`](crate::LayoutError::Io) if they cannot be had.
    fn read(&self, range: Range<u64>) -> Result<Bytes>;

    /// Reads many small values of `width` bytes at the given absolute offsets into `out`
    /// (`offsets.len() * width` bytes, in order). The default merges offsets that lie within
    /// `merge_gap_bytes` of each other into one [`read`](Self::read); a memory map loads each value.
    ///
    /// `offsets` ascend.
    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        let mut i = 0;
        while i < offsets.len() {
            let start = offsets[i];
            let mut end = start + width as u64;
            let mut j = i + 1;
            while j < offsets.len() && offsets[j] <= end + self.merge_gap_bytes() {
                end = offsets[j] + width as u64;
                j += 1;
            }
            let run = self.read(start..end)?;
            for &offset in &offsets[i..j] {
                let at = (offset - start) as usize;
                out.extend_from_slice(&run[at..at + width]);
            }
            i = j;
        }
        Ok(())
    }

    /// How many unneeded bytes between two values are cheaper to read than a second request.
    fn merge_gap_bytes(&self) -> u64 {
        0
    }
}
