//! `Slot`: pinned memory with one owner at a time, from which the copy engine fills device memory.
//!
//! **Invariant:** a slot is either its owner's to write, or in flight. `upload` and `lend` therefore take the slot, and
//! [`PendingSlot::finish`] returns it.

use std::sync::Arc;

use grampus_driver::raw::HostMemory;

use crate::device_buffer::DeviceBuffer;
use crate::error::CudaError;
use crate::pinned_buffer::PinnedBuffer;
use crate::stream::{Event, Stream};

/// A piece of pinned memory that its owner alone writes.
#[derive(Debug)]
pub struct Slot {
    buffer: Arc<PinnedBuffer>,
    offset: usize,
    memory: HostMemory,
    event: Event,
    /// A copy or a kernel may still read the slot: no thread has waited for its end yet.
    pending: bool,
}

/// As many slots of `bytes` each, whole pages, as pinned memory has space for.
///
/// # Errors
/// The driver's.
pub fn slots(buffer: PinnedBuffer, bytes: usize) -> Result<Vec<Slot>, CudaError> {
    let (count, buffer) = (buffer.len() / bytes, Arc::new(buffer));
    let slot = |i: usize| {
        let offset = i * bytes;
        // SAFETY: the slot keeps the buffer, and no other slot has these bytes.
        let memory = unsafe { buffer.lend(offset, bytes) }.ok_or_else(|| CudaError::Arguments {
            kernel: "ring".to_owned(),
            reason: format!("slot {i} of {count}"),
        })?;
        Ok(Slot {
            buffer: buffer.clone(),
            offset,
            memory,
            event: Event::new(buffer.device(), false)?,
            pending: false,
        })
    };
    (0..count).map(slot).collect()
}

impl Slot {
    /// The bytes, page-aligned.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.bytes_mut()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The address at which kernels read the bytes, once the slot was [lent](Self::lend).
    pub fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }

    /// Lends the slot to the kernels in the stream. The slot comes back when the stream has reached this point.
    ///
    /// # Errors
    /// A failed call.
    pub fn lend(mut self, stream: &Stream) -> Result<PendingSlot, CudaError> {
        self.pending = true;
        self.event.record(stream)?;
        Ok(PendingSlot(self))
    }

    /// Starts copying parts of the slot to device memory, which must live until the stream has reached this point.
    ///
    /// # Errors
    /// A range outside the slot or a buffer, or a failed call.
    pub fn upload(mut self, stream: &Stream, parts: &[Part<'_>]) -> Result<PendingSlot, CudaError> {
        for part in parts {
            if part.from.checked_add(part.len).is_none_or(|end| end > self.len()) {
                return Err(CudaError::Arguments {
                    kernel: "copy".to_owned(),
                    reason: format!("{} bytes from {} of a slot of {}", part.len, part.from, self.len()),
                });
            }
            // From here on the copy engine may read the slot: the slot is neither returned nor freed before the event.
            self.pending = true;
            stream.upload(&self.buffer, self.offset + part.from, part.to, part.to_offset, part.len)?;
        }
        self.event.record(stream)?;
        Ok(PendingSlot(self))
    }
}

/// Bytes of a slot and their target.
#[derive(Debug, Clone, Copy)]
pub struct Part<'a> {
    /// First byte in the slot.
    pub from: usize,
    /// Number of bytes.
    pub len: usize,
    /// The target.
    pub to: &'a DeviceBuffer,
    /// First byte in the target.
    pub to_offset: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.pending && self.event.synchronize().is_err() {
            // The copy engine of a dead context no longer reads.
            log::warn!("a copy to the device did not come to its end");
        }
    }
}

/// A slot that the copy engine or a kernel may be reading.
#[derive(Debug)]
pub struct PendingSlot(Slot);

impl PendingSlot {
    /// Reached when the copy or the kernel has ended.
    pub fn event(&self) -> &Event {
        &self.0.event
    }

    /// Whether the copy or the kernel has ended. Never blocks.
    ///
    /// # Errors
    /// An earlier failure in the stream.
    pub fn reached(&self) -> Result<bool, CudaError> {
        self.0.event.reached()
    }

    /// Waits for the end of the copy or the kernel, and returns the slot.
    ///
    /// # Errors
    /// An earlier failure in the stream. The slot and the context are then lost.
    pub fn finish(mut self) -> Result<Slot, CudaError> {
        self.0.event.synchronize()?;
        self.0.pending = false;
        Ok(self.0)
    }
}
