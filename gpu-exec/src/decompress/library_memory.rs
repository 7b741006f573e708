//! `LibraryMemory`: device memory in which nvCOMP works, and its division among the chunks of a batch.
//!
//! ```text
//! arrays with an entry for each chunk │ stored bytes │ decompressed bytes │ nvCOMP's scratch memory
//! ```
//!
//! **Invariant:** nvCOMP is told no address outside of this memory.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_cuda::{CudaError, Device, DeviceBuffer, Nvcomp, NvcompCodec};

/// Alignment of the parts.
const PART_GRAIN_BYTES: usize = 256;
/// Alignment of a chunk's bytes: nvCOMP asks for 8 at most, and copies of 16 are fast.
const CHUNK_GRAIN_BYTES: u32 = 16;

/// Codec and size of a batch's chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BatchShape {
    pub(crate) codec: NvcompCodec,
    /// Stored bytes of a chunk, at most.
    pub(crate) max_stored_bytes: u32,
    /// Bytes that come out of a chunk, at most.
    pub(crate) max_bytes: u32,
}

/// Offsets of the parts, and strides between chunks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WorkspaceLayout {
    pub(crate) inputs: usize,
    pub(crate) input_bytes: usize,
    pub(crate) spaces: usize,
    pub(crate) output_bytes: usize,
    pub(crate) outputs: usize,
    pub(crate) statuses: usize,
    pub(crate) stored: usize,
    pub(crate) decompressed: usize,
    /// Offset and length.
    pub(crate) scratch: (usize, usize),
    pub(crate) stored_stride: u32,
    pub(crate) decompressed_stride: u32,
    /// Bytes of all parts.
    pub(crate) bytes: usize,
}

impl WorkspaceLayout {
    fn new(library: &Nvcomp, shape: BatchShape, chunks: usize) -> Result<Self, CudaError> {
        let stride = |bytes: u32| bytes.max(1).next_multiple_of(CHUNK_GRAIN_BYTES);
        let (stored_stride, decompressed_stride) = (stride(shape.max_stored_bytes), stride(shape.max_bytes));
        let scratch_bytes = library.scratch_bytes(shape.codec, chunks, shape.max_bytes as usize)?;
        let mut bytes = 0usize;
        let mut part = |each: usize, count: usize| {
            let at = bytes;
            let length = each.saturating_mul(count).saturating_add(PART_GRAIN_BYTES - 1) & !(PART_GRAIN_BYTES - 1);
            bytes = bytes.saturating_add(length);
            at
        };
        Ok(Self {
            inputs: part(8, chunks),
            input_bytes: part(8, chunks),
            spaces: part(8, chunks),
            output_bytes: part(8, chunks),
            outputs: part(8, chunks),
            statuses: part(4, chunks),
            stored: part(stored_stride as usize, chunks),
            decompressed: part(decompressed_stride as usize, chunks),
            scratch: (part(1, scratch_bytes), scratch_bytes),
            stored_stride,
            decompressed_stride,
            bytes,
        })
    }
}

/// Memory for batches of one shape.
#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) layout: WorkspaceLayout,
    pub(crate) codec: NvcompCodec,
    /// Chunks of a batch, at most.
    pub(crate) chunks: usize,
}

/// The memory, taken when the first batch needs it, and kept from query to query.
#[derive(Debug)]
pub(crate) struct LibraryMemory {
    max_bytes: usize,
    buffer: Mutex<Option<Arc<DeviceBuffer>>>,
}

impl LibraryMemory {
    /// Memory of at most so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            buffer: Mutex::default(),
        }
    }

    /// Frees the memory.
    pub(crate) fn free(&mut self) {
        *self.buffer.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Memory for batches of `chunks` chunks of a shape, or of fewer chunks, as its bound and the device's free memory
    /// allow. `None`: there is no memory for a single chunk.
    pub(crate) fn workspace(
        &self,
        device: &Device,
        library: &Nvcomp,
        shape: BatchShape,
        chunks: usize,
    ) -> Result<Option<Workspace>, CudaError> {
        let mut held = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut chunks, mut max_bytes) = (chunks.max(1), self.max_bytes);
        loop {
            let layout = WorkspaceLayout::new(library, shape, chunks)?;
            if layout.bytes > max_bytes {
                if chunks == 1 {
                    return Ok(None);
                }
                let fit = chunks as u128 * max_bytes as u128 / layout.bytes as u128;
                chunks = usize::try_from(fit).unwrap_or(chunks).clamp(1, chunks - 1);
                continue;
            }
            if held.as_ref().is_none_or(|buffer| buffer.len() < layout.bytes) {
                *held = None; // its memory first
                match DeviceBuffer::new(device, layout.bytes) {
                    Ok(buffer) => *held = Some(Arc::new(buffer)),
                    Err(e) if e.is_out_of_memory() => {
                        max_bytes = layout.bytes / 2;
                        continue;
                    }
                    Err(e) => return Err(e),
                }
            }
            return Ok(held.clone().map(|buffer| Workspace {
                buffer,
                layout,
                codec: shape.codec,
                chunks,
            }));
        }
    }
}
