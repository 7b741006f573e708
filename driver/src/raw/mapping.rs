//! `Mapping`: a file mapped read-only: bytes of the page cache, copied without a system call.

use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// The mapping of a whole file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is read-only and belongs to this value alone.
unsafe impl Send for Mapping {}
// SAFETY: the mapping is read-only; reads from several threads do not touch each other.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of the file; `len` is not 0.
    pub(crate) fn new(file: &File, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// Copies `out.len()` bytes from `offset` on, both of which lie inside the file.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn copy(&self, offset: usize, out: &mut [u8]) {
        let end = offset.checked_add(out.len());
        assert!(end.is_some_and(|end| end <= self.len), "outside the mapped file");
        // SAFETY: inside the mapping, by the assertion; `out` is ours and no part of it. Another process may change the
        // bytes meanwhile. As with a read, it is then open which bytes are copied; this code does not look at them.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(offset), out.as_mut_ptr(), out.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; nothing borrowed from it is left.
        if let Err(e) = unsafe { munmap(self.start.as_ptr().cast(), self.len) } {
            log::warn!("munmap: {e}");
        }
    }
}
