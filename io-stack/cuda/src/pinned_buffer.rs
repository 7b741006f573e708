//! `PinnedBuffer`: page-locked host memory with one owner.
//!
//! The GPU and controller threads may write the memory at any time. Contents are therefore copied in and out, and never
//! lent as references.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys;
use grampus_driver::host::DmaBuffer;
use grampus_driver::raw::{HostMemory, HostPages};

use crate::call::check;
use crate::device::Device;
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::host_faults::HostOperation;

/// Page-locked, cached host memory that the GPU reads and writes under the host's own address. Page-aligned, zeroed.
#[derive(Debug)]
pub struct PinnedBuffer {
    device: Device,
    at: NonNull<u8>,
    len: usize,
    owner: Owner,
}

/// What keeps the memory mapped.
#[derive(Debug)]
enum Owner {
    /// The host machine allocated it.
    Machine,
    Pages(HostPages),
    /// A controller reaches it, too.
    Dma(DmaBuffer),
}

impl Owner {
    /// The address, and the bytes.
    fn range(&self) -> Option<(NonNull<u8>, usize)> {
        match self {
            Self::Machine => None,
            Self::Pages(pages) => Some((pages.start(), pages.len())),
            Self::Dma(buffer) => Some((NonNull::new(buffer.host_address())?, buffer.len())),
        }
    }
}

// SAFETY: plain memory; the methods copy, or use atomics.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as for `Send`; docs/PROTOCOL.md keeps apart the copies of bytes that a device or a thread is using.
unsafe impl Sync for PinnedBuffer {}

/// Flags of cuMemHostRegister: usable in all contexts, and mapped.
const PORTABLE_MAPPED: u32 = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;

impl PinnedBuffer {
    /// Allocates `len` zero bytes.
    ///
    /// # Errors
    /// Mostly: a limit on locked memory.
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        let len = len.max(1).next_multiple_of(4096);
        if let Some(machine) = device.as_host() {
            return Ok(Self {
                device: device.clone(),
                at: device.gate().call(|| machine.pages(len))?,
                len,
                owner: Owner::Machine,
            });
        }
        let pages = HostPages::new(len).map_err(|error| CudaError::Call {
            call: "mmap",
            code: OUT_OF_MEMORY,
            text: error.to_string(),
            detail: format!(" ({len} bytes to pin)"),
        })?;
        Self::pin(device, pages)
    }

    /// Pins pages. cuMemHostAlloc would make them first, and it keeps other threads from calling the driver meanwhile:
    /// 0.65 ms a MiB were measured, and 0.03 for pages that are there.
    ///
    /// # Errors
    /// Mostly: a limit on locked memory.
    pub fn pin(device: &Device, pages: HostPages) -> Result<Self, CudaError> {
        Self::register(device, Owner::Pages(pages))
    }

    /// Pins contiguous memory that a controller reaches.
    ///
    /// # Errors
    /// As [`pin`](Self::pin).
    pub fn over(device: &Device, memory: DmaBuffer) -> Result<Self, CudaError> {
        Self::register(device, Owner::Dma(memory))
    }

    fn register(device: &Device, owner: Owner) -> Result<Self, CudaError> {
        let Some((at, len)) = owner.range() else {
            return Err(CudaError::NoDriver("no memory to pin".to_owned()));
        };
        let buffer = Self {
            device: device.clone(),
            at,
            len,
            owner,
        };
        if let Some(machine) = device.as_host() {
            machine.pinned(len);
            // A failure drops the buffer.
            return machine.faults().check(HostOperation::Pin).map(|()| buffer);
        }
        let at = buffer.at.as_ptr().cast();
        let register = || {
            device.bind()?;
            // SAFETY: a context is current; whole pages, which stay mapped until the drop has unregistered them.
            check("cuMemHostRegister", unsafe {
                sys::cuMemHostRegister_v2(at, buffer.len, PORTABLE_MAPPED)
            })
        };
        (device.gate().call(register)).map_err(|e| e.about(|| format!("{} bytes to pin", buffer.len)))?;
        let mut address = 0;
        // SAFETY: registered with DEVICEMAP by the call before.
        check("cuMemHostGetDevicePointer", unsafe {
            sys::cuMemHostGetDevicePointer_v2(&mut address, at, 0)
        })?;
        match address == buffer.address() {
            true => Ok(buffer),
            false => Err(CudaError::NoDriver(
                "the GPU does not use the host's addresses for pinned memory".to_owned(),
            )),
        }
    }

    /// The device for which the memory is pinned.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The address, the same for host and GPU (unified addressing).
    pub fn address(&self) -> u64 {
        self.at.as_ptr() as u64
    }

    /// Length in bytes, whole pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets every byte to zero. Neither the GPU nor a controller may be using the memory.
    pub fn zero(&self) {
        // SAFETY: our own memory, `len` bytes of it.
        unsafe { self.at.as_ptr().write_bytes(0, self.len) };
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// A range outside the buffer.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), CudaError> {
        if offset.checked_add(bytes.len()).is_none_or(|end| end > self.len) {
            return Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{} bytes at {offset} of {} pinned ones", bytes.len(), self.len),
            });
        }
        // SAFETY: inside our memory, by the check; a Rust slice never lies there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr().add(offset), bytes.len()) };
        Ok(())
    }

    /// Copies `count` words of eight bytes out, from byte `offset` on. No copy into them is in flight.
    ///
    /// # Errors
    /// A range outside the buffer.
    pub fn read_words(&self, offset: usize, count: usize) -> Result<Vec<u64>, CudaError> {
        let len = count * size_of::<u64>();
        if offset.checked_add(len).is_none_or(|end| end > self.len) {
            return Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{len} bytes at {offset} of {} pinned ones", self.len),
            });
        }
        let mut words = vec![0; count];
        // SAFETY: inside our memory, by the check; the target is as long; every bit pattern is a `u64`.
        unsafe { std::ptr::copy_nonoverlapping(self.at.as_ptr().add(offset), words.as_mut_ptr().cast::<u8>(), len) };
        Ok(words)
    }

    /// Stores a word for the GPU: the abort word. The GPU's waits load it relaxed; no other data depends on it.
    pub fn store_u32(&self, value: u32) {
        // SAFETY: at least one aligned page; all concurrent access is atomic on either side.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast()) }.store(value, Ordering::Release);
    }

    /// Word `at` of a list of words that kernels fill in; 0: not filled in yet. Relaxed: other bytes that the kernel
    /// wrote need not be visible.
    pub fn peek_u32(&self, at: usize) -> u32 {
        if at >= self.len / 4 {
            return 0;
        }
        // SAFETY: inside our pages, by the check, and aligned as they are; concurrent access is atomic on either side.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast::<u32>().add(at)) }.load(Ordering::Relaxed)
    }

    /// Takes up to `most` words from word `at` on and leaves zeros; ends at the first word that is zero.
    pub fn take_u32s(&self, at: usize, most: usize) -> Vec<u32> {
        let end = at.saturating_add(most).min(self.len / 4);
        let mut words = Vec::new();
        for at in at..end {
            // SAFETY: as in `peek_u32`.
            let word = unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast::<u32>().add(at)) };
            let value = word.load(Ordering::Relaxed);
            if value == 0 {
                break;
            }
            word.store(0, Ordering::Relaxed);
            words.push(value);
        }
        words
    }

    /// Lends `len` bytes at `offset` to a controller or a storage; `None`: outside the buffer.
    ///
    /// # Safety
    /// The buffer outlives the handle, and nothing else accesses these bytes while the handle is there.
    pub unsafe fn lend(&self, offset: usize, len: usize) -> Option<HostMemory> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside our memory. The caller ensures lifetime and exclusive use.
        Some(unsafe { HostMemory::new(self.at.add(offset), len) })
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let (device, at, len) = (self.device.clone(), self.at.as_ptr() as usize, self.len);
        let owner = std::mem::replace(&mut self.owner, Owner::Machine);
        self.device.gate().give_back(move || {
            let Some(at) = NonNull::new(at as *mut u8) else { return };
            if let Some(machine) = device.as_host() {
                match owner {
                    Owner::Machine => machine.free_pages(at, len),
                    _ => {
                        drop(machine.call_alone());
                        machine.unpinned(len);
                    }
                }
            } else if device.bind().is_ok() {
                // SAFETY: registered in `register`, if it succeeded, and still mapped: `owner` is there.
                let _ = unsafe { sys::cuMemHostUnregister(at.as_ptr().cast()) };
                drop(owner);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_once_up_to_the_first_zero() {
        let buffer = PinnedBuffer::new(&Device::host(1, 1 << 20), 4096).unwrap();
        let words: Vec<u8> = [7u32, 8, 9, 0, 11].iter().flat_map(|w| w.to_le_bytes()).collect();
        buffer.write(0, &words).unwrap();
        assert_eq!(
            (buffer.peek_u32(2), buffer.peek_u32(3), buffer.peek_u32(1024)),
            (9, 0, 0)
        );
        assert_eq!(buffer.take_u32s(0, 2), [7, 8]);
        assert_eq!(buffer.take_u32s(2, 100), [9]);
        assert!(buffer.take_u32s(0, 100).is_empty());
        assert_eq!(buffer.take_u32s(4, 100), [11]);
        buffer.write(4092, &1u32.to_le_bytes()).unwrap();
        assert_eq!(buffer.take_u32s(1023, 100), [1], "not past the end");
    }
}
