//! `SharedMemory`: memory that a device reads and writes while the host does: rings, PRP lists, data.

use std::any::Any;
use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

use super::HostMemory;

/// Page-aligned memory of a fixed length. Every access is a copy or an atomic load: no reference into it is made.
pub struct SharedMemory {
    start: NonNull<u8>,
    len: usize,
    /// Keeps the memory mapped.
    _owner: Box<dyn Any + Send + Sync>,
}

// SAFETY: the memory outlives the value (contract of `new`), and all accesses are copies of plain bytes or atomics.
// Which agent may write which byte at which time is the rule of NVMe's queues, as with a device.
unsafe impl Send for SharedMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for SharedMemory {}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedMemory({} bytes)", self.len)
    }
}

/// A mapping; unmapped when dropped.
struct Mapped {
    start: usize,
    len: usize,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped by `SharedMemory`, whose value has ended.
        if let Err(e) = unsafe { munmap(self.start as *mut _, self.len) } {
            log::warn!("munmap: {e}");
        }
    }
}

impl SharedMemory {
    /// Takes over `len` bytes at `start`; `owner` is dropped with the value and unmaps them.
    ///
    /// # Safety
    /// The memory is readable and writable, aligned to 4,096 bytes, and stays valid until `owner` is dropped. No Rust
    /// reference to it exists. Agents that write to it at the same time are devices, other processes, or threads that
    /// write bytes which the host does not use meanwhile.
    pub unsafe fn new(start: NonNull<u8>, len: usize, owner: Box<dyn Any + Send + Sync>) -> Self {
        Self {
            start,
            len,
            _owner: owner,
        }
    }

    /// Fresh zeroed memory of this process.
    ///
    /// # Errors
    /// The operating system's.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED) }?;
        Self::owned(start.cast(), len)
    }

    /// The first `len` bytes of a file, a device's memory or a file that another process maps too. The file keeps its
    /// length while the value lives.
    ///
    /// # Errors
    /// The operating system's.
    pub fn map_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            mmap(
                null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                file,
                offset,
            )
        }?;
        Self::owned(start.cast(), len)
    }

    fn owned(start: *mut u8, len: usize) -> io::Result<Self> {
        let owner = Mapped {
            start: start as usize,
            len,
        };
        let start = NonNull::new(start).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: mapped just now, page-aligned; `owner` unmaps it.
        Ok(unsafe { Self::new(start, len, Box::new(owner)) })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte in this process.
    pub fn address(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(
            inside,
            "{len} bytes at {offset} lie outside shared memory of {} bytes",
            self.len
        );
        // SAFETY: inside the memory, by the assertion.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If the range does not lie inside the memory.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: inside the memory; `out` is no part of it, since no references into it exist.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range does not lie inside the memory.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// The word at an offset, with acquire: pairs with a device's write of a completion's last dword.
    ///
    /// # Panics
    /// If the word is not aligned, or lies outside the memory.
    pub fn load_acquire(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4), "a word at byte {offset} is not aligned");
        // SAFETY: inside the memory and aligned; the memory is shared as atomics and plain copies only.
        unsafe { &*self.at(offset, 4).cast::<AtomicU32>() }.load(Ordering::Acquire)
    }

    /// Access for a controller in this process to which the host has given these bytes by a command; `None`: outside.
    ///
    /// NVMe's rules say which side may touch them. A host that breaks these rules finds torn bytes, as with a device.
    pub fn lend(&self, offset: usize, len: usize) -> Option<HostMemory> {
        if offset.checked_add(len)? > self.len {
            return None;
        }
        // SAFETY: inside the memory, which is only ever copied from and to.
        unsafe { Some(HostMemory::new(self.start.add(offset), len)) }
    }
}
