//! `QueryScratch`: device memory for what one query needs beside its columns. It is kept and grown from query to query,
//! since allocation costs more than a launch.

use std::sync::atomic::{AtomicBool, Ordering};

use grampus_cuda::{CudaError, Device, DeviceBuffer, PinnedBuffer, Stream};

/// Offsets in the buffers are multiples of this.
const SCRATCH_GRAIN_BYTES: usize = 256;
const WORD_BYTES: usize = 8;
/// Bytes of pinned memory for results. Tables of more groups are read without it: to pin more would stop the kernels of
/// queries beside this one.
const RESULT_BYTES: usize = 2 << 20;

/// Per-query device buffers:
///
/// - `uploaded`: written by the host.
/// - `zeroed`: zeros at the beginning.
/// - `sparse`: zeros at the beginning too. Most queries leave it clean, so it is cleared only when dirty.
/// - `uninitialized`: anything.
///
/// Results are read through pinned memory.
#[derive(Debug)]
pub(crate) struct QueryScratch {
    device: Device,
    uploaded: Option<DeviceBuffer>,
    zeroed: Option<DeviceBuffer>,
    sparse: Option<DeviceBuffer>,
    /// The whole sparse buffer is zeros.
    sparse_is_clean: AtomicBool,
    uninitialized: Option<DeviceBuffer>,
    results: PinnedBuffer,
}

/// The bytes that a query asks for. Offsets are those of its buffer.
#[derive(Debug, Default)]
pub(crate) struct ScratchLayout {
    bytes: Vec<u8>,
    zeroed: usize,
    sparse: usize,
    uninitialized: usize,
}

impl ScratchLayout {
    /// Copies bytes to the device.
    pub(crate) fn uploaded(&mut self, bytes: &[u8]) -> usize {
        let at = self.bytes.len().next_multiple_of(SCRATCH_GRAIN_BYTES);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(bytes);
        at
    }

    /// Zeros.
    pub(crate) fn zeroed(&mut self, len: usize) -> usize {
        let at = self.zeroed;
        self.zeroed = (at + len.max(1)).next_multiple_of(SCRATCH_GRAIN_BYTES);
        at
    }

    /// Zeros that a query [declares clean](ScratchBuffers::mark_sparse_clean) if it leaves them so: they are many, and
    /// few queries write any.
    pub(crate) fn sparse(&mut self, len: usize) -> usize {
        let at = self.sparse;
        self.sparse = (at + len.max(1)).next_multiple_of(SCRATCH_GRAIN_BYTES);
        at
    }

    /// Uninitialized bytes.
    pub(crate) fn uninitialized(&mut self, len: usize) -> usize {
        let at = self.uninitialized;
        self.uninitialized = (at + len.max(1)).next_multiple_of(SCRATCH_GRAIN_BYTES);
        at
    }
}

/// The buffers of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScratchBuffers<'a> {
    pub(crate) uploaded: &'a DeviceBuffer,
    pub(crate) zeroed: &'a DeviceBuffer,
    pub(crate) sparse: &'a DeviceBuffer,
    pub(crate) uninitialized: &'a DeviceBuffer,
    /// Bytes of `zeroed` that the query asked for.
    zeros: usize,
    sparse_is_clean: &'a AtomicBool,
    results: &'a PinnedBuffer,
}

/// Words of eight bytes in a buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) buffer: &'a DeviceBuffer,
    /// In bytes.
    pub(crate) offset: usize,
    pub(crate) count: usize,
}

impl ScratchBuffers<'_> {
    /// Clears `zeroed` and `sparse` again, in the order of the stream.
    pub(crate) fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        stream.fill(self.sparse, 0, self.sparse.len(), 0)?;
        stream.fill(self.zeroed, 0, self.zeros, 0)
    }

    /// Whether so many bytes are read in one trip.
    pub(crate) fn are_read_at_once(&self, len: usize) -> bool {
        len <= self.results.len()
    }

    /// Reads words, in the order of the stream: in one trip, if there is pinned memory for them.
    pub(crate) fn read<const N: usize>(
        &self,
        stream: &Stream,
        wanted: [Words<'_>; N],
    ) -> Result<[Vec<u64>; N], CudaError> {
        let mut starts = [0; N];
        let mut end = 0;
        for (words, start) in wanted.iter().zip(&mut starts) {
            *start = end;
            end += words.count * WORD_BYTES;
        }
        if end > self.results.len() {
            let mut read = [const { Vec::new() }; N];
            for (words, values) in wanted.iter().zip(&mut read) {
                *values = words.buffer.read(words.offset, words.count)?;
            }
            return Ok(read);
        }
        for (words, start) in wanted.iter().zip(starts).filter(|(words, _)| words.count > 0) {
            let len = words.count * WORD_BYTES;
            stream.download(words.buffer, words.offset, self.results, start, len)?;
        }
        stream.synchronize()?;
        let mut read = [const { Vec::new() }; N];
        for ((words, start), values) in wanted.iter().zip(starts).zip(&mut read) {
            *values = self.results.read_words(start, words.count)?;
        }
        Ok(read)
    }

    /// No kernel has written to `sparse` since it was cleared, and none will.
    pub(crate) fn mark_sparse_clean(&self) {
        self.sparse_is_clean.store(true, Ordering::Relaxed);
    }
}

impl QueryScratch {
    /// Pins the memory for results.
    pub(crate) fn new(device: &Device) -> Result<Self, CudaError> {
        Ok(Self {
            device: device.clone(),
            uploaded: None,
            zeroed: None,
            sparse: None,
            sparse_is_clean: AtomicBool::new(false),
            uninitialized: None,
            results: PinnedBuffer::new(device, RESULT_BYTES)?,
        })
    }

    /// Frees buffers of more than `max_bytes`. No kernel uses them.
    pub(crate) fn trim(&mut self, max_bytes: usize) {
        for buffer in [
            &mut self.uploaded,
            &mut self.zeroed,
            &mut self.sparse,
            &mut self.uninitialized,
        ] {
            if buffer.as_ref().is_some_and(|b| b.len() > max_bytes) {
                *buffer = None;
            }
        }
    }

    /// Makes space, copies and clears, in the order of the stream. No kernel uses the buffers of an earlier call.
    pub(crate) fn give(&mut self, wanted: &ScratchLayout, stream: &Stream) -> Result<ScratchBuffers<'_>, CudaError> {
        let uploaded = room(&self.device, &mut self.uploaded, wanted.bytes.len())?;
        uploaded.write(0, &wanted.bytes)?;
        let zeroed = room(&self.device, &mut self.zeroed, wanted.zeroed)?;
        let uninitialized = room(&self.device, &mut self.uninitialized, wanted.uninitialized)?;
        let sparse_is_clean = self.sparse_is_clean.get_mut();
        *sparse_is_clean &= self.sparse.as_ref().is_some_and(|sparse| sparse.len() >= wanted.sparse);
        let sparse = room(&self.device, &mut self.sparse, wanted.sparse)?;
        if !*sparse_is_clean {
            stream.fill(sparse, 0, sparse.len(), 0)?;
        }
        *sparse_is_clean = wanted.sparse == 0; // else the query declares it clean
        stream.fill(zeroed, 0, wanted.zeroed, 0)?;
        Ok(ScratchBuffers {
            results: &self.results,
            uploaded,
            zeroed,
            sparse,
            uninitialized,
            zeros: wanted.zeroed,
            sparse_is_clean: &self.sparse_is_clean,
        })
    }
}

fn room<'a>(device: &Device, buffer: &'a mut Option<DeviceBuffer>, len: usize) -> Result<&'a DeviceBuffer, CudaError> {
    if buffer.as_ref().is_none_or(|b| b.len() < len) {
        *buffer = None; // its memory first
        let bytes = len
            .max(SCRATCH_GRAIN_BYTES)
            .next_power_of_two()
            .min(len.max(SCRATCH_GRAIN_BYTES) + (64 << 20));
        return Ok(buffer.insert(DeviceBuffer::new(device, bytes)?));
    }
    // Borrowed anew: the checker does not see that the branch above returns.
    buffer
        .as_ref()
        .ok_or_else(|| CudaError::NoDriver("no scratch memory".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sparse bytes that a query finds; it leaves a mark behind, at the end.
    fn sparse(scratch: &mut QueryScratch, len: usize, stream: &Stream, says_clean: bool) -> Vec<u8> {
        let mut wanted = ScratchLayout::default();
        let at = wanted.sparse(len);
        let given = scratch.give(&wanted, stream).unwrap();
        let found = given.sparse.read(at, len).unwrap();
        given.sparse.write(at + len - 1, &[7u8]).unwrap();
        if says_clean {
            given.mark_sparse_clean();
        }
        found
    }

    #[test]
    fn marks_are_cleared_unless_the_query_before_said_that_there_are_none() {
        let device = Device::host(1, 1 << 24);
        let stream = Stream::new(&device).unwrap();
        let mut scratch = QueryScratch::new(&device).unwrap();
        assert_eq!(sparse(&mut scratch, 1000, &stream, false), [0; 1000]);
        assert_eq!(sparse(&mut scratch, 900, &stream, false), [0; 900]);
        // A query without sparse bytes in between changes nothing.
        scratch.give(&ScratchLayout::default(), &stream).unwrap();
        assert_eq!(sparse(&mut scratch, 1000, &stream, true), [0; 1000]);
        let mut left = [0; 1000];
        left[999] = 7;
        assert_eq!(
            sparse(&mut scratch, 1000, &stream, true),
            left,
            "it was said to be clear"
        );
        assert_eq!(sparse(&mut scratch, 5000, &stream, false), [0; 5000], "new memory");
        scratch.give(&ScratchLayout::default(), &stream).unwrap();
        assert_eq!(sparse(&mut scratch, 5000, &stream, false), [0; 5000]);
    }

    #[test]
    fn clearing_again_clears_marks_too() {
        let device = Device::host(1, 1 << 24);
        let stream = Stream::new(&device).unwrap();
        let mut scratch = QueryScratch::new(&device).unwrap();
        let mut wanted = ScratchLayout::default();
        let (mark, zero) = (wanted.sparse(300), wanted.zeroed(300));
        let given = scratch.give(&wanted, &stream).unwrap();
        given.sparse.write(mark, &[1u8; 300]).unwrap();
        given.zeroed.write(zero, &[1u8; 300]).unwrap();
        given.clear(&stream).unwrap();
        stream.synchronize().unwrap();
        assert_eq!(given.sparse.read::<u8>(mark, 300).unwrap(), [0; 300]);
        assert_eq!(given.zeroed.read::<u8>(zero, 300).unwrap(), [0; 300]);
    }
}
