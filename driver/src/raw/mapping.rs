//! `Mapping`: a file mapped read-only: bytes of the page cache, loaded without a system call. `WritableMapping`: the
//! same with stores.

use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::bus_error_guard::BusErrorGuard;

/// The mapping of a whole file.
///
/// If the file loses bytes (another process truncates it, the disk fails), loads return zeros instead of ending the
/// process, and [`has_failed`](Self::has_failed) is true from then on. The first mapping installs a handler of SIGBUS
/// for that. The handler passes the signal on if it is not about a mapping.
///
/// **Invariant:** a caller looks at [`has_failed`](Self::has_failed) after its loads, and before a result of them is
/// used elsewhere.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    /// `None` during the drop.
    guard: Option<BusErrorGuard>,
}

// SAFETY: the mapping is read-only and belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: the mapping is read-only; reads from several threads do not touch each other.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the file; `len` is not 0.
    ///
    /// # Errors
    /// The operating system's error, `Unsupported` if another handler of SIGBUS has replaced the guard's, or
    /// `QuotaExceeded` if there are thousands of mappings. Positioned reads work in each of these cases.
    pub fn new(file: &File, len: usize) -> io::Result<Self> {
        Self::with_protection(file, len, ProtFlags::READ)
    }

    fn with_protection(file: &File, len: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let mut mapping = Self {
            start,
            len,
            guard: None,
        };
        let is_writable = protection.contains(ProtFlags::WRITE);
        mapping.guard = Some(BusErrorGuard::new(start.as_ptr() as usize, len, is_writable)?);
        Ok(mapping)
    }

    /// Bytes of the mapping.
    pub fn len(&self) -> usize {
        self.len
    }

    /// False: no mapping is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    pub fn address(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Tells the system that loads come in no order. A load from a page that is not in memory then brings this page
    /// alone, and nothing ahead of it.
    ///
    /// # Errors
    /// The operating system's error. Loads work nevertheless.
    pub fn expect_random_loads(&self) -> io::Result<()> {
        // SAFETY: the mapping is this value's own, and the advice leaves its bytes as they are.
        Ok(unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::Random) }?)
    }

    /// Whether the page of a byte is in memory. The system says so of files that the process owns or may write, and
    /// calls all pages of others resident.
    ///
    /// # Errors
    /// The operating system's error.
    #[cfg(target_os = "linux")]
    pub fn is_resident(&self, offset: usize) -> io::Result<bool> {
        if offset >= self.len {
            return Ok(true);
        }
        // SAFETY: asks the system for a constant.
        let page_bytes = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
        let mut residency = 0;
        // SAFETY: one page of the mapping, of which the system writes one byte.
        let asked = unsafe {
            let page = self.start.as_ptr().add(offset / page_bytes * page_bytes);
            libc::mincore(page.cast(), 1, &raw mut residency)
        };
        match asked {
            0 => Ok(residency & 1 == 1),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether bytes were lost: loads have returned zeros.
    pub fn has_failed(&self) -> bool {
        self.guard.as_ref().is_some_and(BusErrorGuard::has_failed)
    }

    /// The bytes.
    ///
    /// # Safety
    /// Another process may change the bytes at any time. The caller loads each byte once, and accepts any value of it.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as the value lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Copies `out.len()` bytes from `offset` on, both of which lie inside the file. False: bytes were lost.
    ///
    /// # Panics
    /// If the range does not lie inside the file.
    #[must_use]
    pub fn copy(&self, offset: usize, out: &mut [u8]) -> bool {
        let end = offset.checked_add(out.len());
        assert!(end.is_some_and(|end| end <= self.len), "outside the mapped file");
        // SAFETY: inside the mapping, by the assertion; `out` is ours and no part of it. Another process may change the
        // bytes meanwhile. As with a read, it is then open which bytes are copied; this code does not look at them.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), out.as_mut_ptr(), out.len()) };
        !self.has_failed()
    }
}

/// The mapping of a whole file that takes stores. All readers of the file see them at once. A store takes no lock of
/// the file, unlike a positioned write.
///
/// A page without bytes may have no space on the disk. Stores to it are lost, and [`store`](Self::store) says so.
#[derive(Debug)]
pub struct WritableMapping {
    mapping: Mapping,
}

impl WritableMapping {
    /// Maps `len` bytes of a file that is open for writing; `len` is not 0.
    ///
    /// # Errors
    /// As [`Mapping::new`].
    pub fn new(file: &File, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        Mapping::with_protection(file, len, protection).map(|mapping| Self { mapping })
    }

    /// Copies bytes to `offset`; all of them lie inside the file. False: they may be lost, now and from now on.
    ///
    /// # Panics
    /// If the range does not lie inside the file.
    #[must_use]
    pub fn store(&self, offset: usize, bytes: &[u8]) -> bool {
        let end = offset.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.mapping.len),
            "outside the mapped file"
        );
        let to = self.mapping.start.as_ptr();
        // SAFETY: inside the mapping, by the assertion; `bytes` are ours and no part of it. Others may load or store
        // the same bytes meanwhile. As with a write, it is then open which of them are there afterwards.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(offset), bytes.len()) };
        !self.mapping.has_failed()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guard = None; // before other memory can take the addresses
        // SAFETY: mapped in `new`; nothing borrowed from it is left.
        if let Err(e) = unsafe { munmap(self.start.as_ptr().cast(), self.len) } {
            log::warn!("munmap: {e}");
        }
    }
}
