//! Owning handles on device memory and pinned host memory. Both may be written by the GPU or by controller threads at any
//! time, so contents are copied in and out, and never lent as references.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use cudarc::driver::sys;
use grampus_driver::raw::HostMemory;

use super::{CudaError, Device, Plain, check, host};

/// The bytes of plain values.
fn bytes_of<T: Plain>(values: &[T]) -> (*const std::ffi::c_void, usize) {
    (values.as_ptr().cast(), size_of_val(values))
}

/// Waits for what the default stream has to do: clearing memory, and the last piece of a copy from pageable memory, may go on when the
/// call has returned (CUDA Driver API, "API synchronization behavior"), and our streams do not wait for the default one.
fn settle() -> Result<(), CudaError> {
    // SAFETY: a context is current; null is the default stream.
    check("cuStreamSynchronize", unsafe {
        sys::cuStreamSynchronize(std::ptr::null_mut())
    })
}

/// Device memory, freed on drop. The driver aligns it to 256 bytes at least; pieces of 2 MiB and more to 2 MiB.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    at: u64,
    len: usize,
}

impl DeviceBuffer {
    /// Allocates `len` bytes, not initialised.
    ///
    /// # Errors
    /// Mostly: out of device memory.
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        if let Some(machine) = device.as_host() {
            return Ok(Self {
                device: device.clone(),
                at: machine.allocate(len)?,
                len,
            });
        }
        device.bind()?;
        let mut at = 0;
        // SAFETY: a context is current; `at` is writable; length 0 is not allowed by the driver.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut at, len.max(16)) })
            .map_err(|e| e.about(|| format!("{len} bytes of device memory")))?;
        Ok(Self {
            device: device.clone(),
            at,
            len,
        })
    }

    /// Allocates `len` bytes, all of them `byte`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn filled(device: &Device, len: usize, byte: u8) -> Result<Self, CudaError> {
        let buffer = Self::new(device, len)?;
        buffer.fill(byte)?;
        Ok(buffer)
    }

    /// Allocates room for `values` and copies them there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_values<T: Plain>(device: &Device, values: &[T]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Address on the device.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// A failed call, mostly an earlier kernel's.
    pub fn fill(&self, byte: u8) -> Result<(), CudaError> {
        if self.device.is_host() {
            // SAFETY: our own memory; the caller sees to it that no kernel works on it, as on a GPU.
            unsafe { (self.at as *mut u8).write_bytes(byte, self.len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our own memory.
        check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(self.at, byte, self.len) })?;
        settle()
    }

    /// Copies values to byte `offset`.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call.
    pub fn write<T: Plain>(&self, offset: usize, values: &[T]) -> Result<(), CudaError> {
        let (from, len) = bytes_of(values);
        self.inside(offset, len)?;
        if self.device.is_host() {
            // SAFETY: inside our memory, by the check; the source is a live slice.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (self.at as *mut u8).add(offset), len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: inside our memory, by the check; the source is a live slice.
        check("cuMemcpyHtoD", unsafe {
            sys::cuMemcpyHtoD_v2(self.at + offset as u64, from, len)
        })?;
        settle()
    }

    /// Copies `count` values from byte `offset`.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call, mostly an earlier kernel's.
    pub fn read<T: Plain + Default>(&self, offset: usize, count: usize) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::default(); count];
        let len = size_of_val(values.as_slice());
        self.inside(offset, len)?;
        if self.device.is_host() {
            let from = (self.at as *const u8).wrapping_add(offset);
            // SAFETY: inside our memory; the target is as long; every bit pattern is a `Plain` value.
            unsafe { std::ptr::copy_nonoverlapping(from, values.as_mut_ptr().cast::<u8>(), len) };
            return Ok(values);
        }
        self.device.bind()?;
        // SAFETY: inside our memory; the target is as long; every bit pattern is a `Plain` value.
        check("cuMemcpyDtoH", unsafe {
            sys::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.at + offset as u64, len)
        })?;
        Ok(values)
    }

    fn inside(&self, offset: usize, len: usize) -> Result<(), CudaError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{len} bytes at {offset} of a buffer of {}", self.len),
            }),
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if let Some(machine) = self.device.as_host() {
            machine.free(self.at, self.len);
        } else if self.device.bind().is_ok() {
            // SAFETY: allocated in `new`, freed once. A kernel that still runs is waited for by the driver.
            let _ = unsafe { sys::cuMemFree_v2(self.at) };
        }
    }
}

/// Page-locked, cached host memory that the GPU reads and writes under the host's own address. Page-aligned, zeroed.
#[derive(Debug)]
pub struct PinnedBuffer {
    device: Device,
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory; the methods copy, or use atomics.
unsafe impl Send for PinnedBuffer {}
// SAFETY: as above: concurrent copies of bytes in use by a device or a thread are kept apart by docs/PROTOCOL.md.
unsafe impl Sync for PinnedBuffer {}

/// cuMemHostAlloc: usable in all contexts, and mapped; not write-combined, which is slow to read for the CPU.
const PORTABLE_MAPPED: u32 = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;

impl PinnedBuffer {
    /// Allocates `len` zero bytes.
    ///
    /// # Errors
    /// Mostly: no more memory may be locked.
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        device.bind()?;
        let len = len.max(1).next_multiple_of(4096);
        if device.is_host() {
            return Ok(Self {
                device: device.clone(),
                at: host::pages(len)?,
                len,
            });
        }
        let mut at = std::ptr::null_mut();
        // SAFETY: a context is current; `at` is writable.
        check("cuMemHostAlloc", unsafe {
            sys::cuMemHostAlloc(&mut at, len, PORTABLE_MAPPED)
        })
        .map_err(|e| e.about(|| format!("{len} bytes of pinned memory")))?;
        let at = NonNull::new(at.cast()).ok_or_else(|| CudaError::NoDriver("pinned memory at address 0".to_owned()))?;
        let buffer = Self {
            device: device.clone(),
            at,
            len,
        };
        buffer.zero();
        Ok(buffer)
    }

    /// Its address: the same for host and GPU (unified addressing).
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

    /// Sets every byte to zero. Only while neither the GPU nor a controller uses the memory.
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
        // SAFETY: inside our memory, by the check; a Rust slice is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.as_ptr().add(offset), bytes.len()) };
        Ok(())
    }

    /// Stores a word for the GPU to see: the abort word.
    pub fn store_u32(&self, value: u32) {
        // SAFETY: at least one aligned page; all concurrent access is atomic on either side.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast()) }.store(value, Ordering::Release);
    }

    /// Word `at` of a list of words that kernels fill in, if it is there: 0 is none. Other bytes that the kernel wrote are not promised to be
    /// seen because this one is.
    pub fn peek_u32(&self, at: usize) -> u32 {
        if at >= self.len / 4 {
            return 0;
        }
        // SAFETY: inside our pages, by the check, and aligned as they are; all concurrent access is atomic on either side.
        unsafe { AtomicU32::from_ptr(self.at.as_ptr().cast::<u32>().add(at)) }.load(Ordering::Relaxed)
    }

    /// Takes up to `most` words that are there from word `at` on, leaving zeros; ends at the first that is not.
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

    /// `len` bytes at `offset` for a controller; `None` outside the buffer. The buffer must outlive the handle, and the
    /// protocol must give the bytes to its holder.
    pub(super) fn host_memory(&self, offset: usize, len: usize) -> Option<HostMemory> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside our memory. Lifetime and exclusiveness are the caller's: `CudaBus` keeps the buffer, and the protocol
        // gives a bounce slot to the command that holds it (PROTOCOL.md, "What a controller must do", 3).
        Some(unsafe { HostMemory::new(self.at.add(offset), len) })
    }
}

impl PinnedBuffer {
    /// As [`host_memory`](Self::host_memory), for measuring a storage without a GPU: the buffer must outlive what is lent,
    /// and nothing may be lent twice.
    pub(crate) fn lend(&self, offset: usize, len: usize) -> Option<HostMemory> {
        self.host_memory(offset, len)
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if let Some(machine) = self.device.as_host() {
            machine.wait_idle(); // as the driver waits for kernels that may still use it
            host::free_pages(self.at, self.len);
        } else if self.device.bind().is_ok() {
            // SAFETY: allocated in `new`, freed once.
            let _ = unsafe { sys::cuMemFreeHost(self.at.as_ptr().cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_taken_once_and_up_to_the_first_that_is_missing() {
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
