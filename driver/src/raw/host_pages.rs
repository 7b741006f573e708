//! `HostPages`: memory of this process whose pages exist from the beginning.

use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;
/// Bytes that one thread makes. The system zeroes them: 3 to 4 GB/s a thread were measured on a virtual machine.
const BYTES_PER_THREAD: usize = 32 << 20;
const MAX_THREADS: usize = 4;

/// Zeroed private memory. All its pages are there, in large pages as far as the system has some: a driver that pins it
/// has little left to do. A child process does not inherit it.
#[derive(Debug)]
pub struct HostPages {
    start: NonNull<u8>,
    len: usize,
    /// Address and length of the mapping around it.
    mapped: (usize, usize),
}

// SAFETY: memory of this value alone, of which it gives nothing but the address.
unsafe impl Send for HostPages {}
// SAFETY: as for `Send`.
unsafe impl Sync for HostPages {}

impl HostPages {
    /// Makes `len` bytes, rounded up to whole pages of 4,096.
    ///
    /// # Errors
    /// The operating system's: mostly, there is not so much memory.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1).next_multiple_of(4096);
        let is_large = len >= LARGE_PAGE;
        let map_len = if is_large { len + LARGE_PAGE } else { len };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let at = unsafe { mmap_anonymous(null_mut(), map_len, access, MapFlags::PRIVATE) }?;
        let start = match is_large {
            true => (at as usize).next_multiple_of(LARGE_PAGE),
            false => at as usize,
        };
        let pages = Self {
            start: NonNull::new(start as *mut u8).ok_or(io::ErrorKind::OutOfMemory)?,
            len,
            mapped: (at as usize, map_len),
        };
        pages.populate()?;
        Ok(pages)
    }

    /// Makes the pages, by several threads if there are many.
    fn populate(&self) -> io::Result<()> {
        let threads = self.len.div_ceil(BYTES_PER_THREAD).min(MAX_THREADS);
        let each = self.len.div_ceil(threads).next_multiple_of(LARGE_PAGE);
        let start = self.start.as_ptr() as usize;
        let part = |n: usize| make(start + n * each, self.len.saturating_sub(n * each).min(each));
        std::thread::scope(|scope| {
            let spawn = |n| std::thread::Builder::new().spawn_scoped(scope, move || part(n));
            let others: Vec<_> = (1..threads).map(|n| (n, spawn(n))).collect();
            let failed = |_| Err(io::ErrorKind::Other.into());
            let made = others.into_iter().map(|(n, other)| match other {
                Ok(other) => other.join().unwrap_or_else(failed),
                Err(_) => part(n), // no more threads
            });
            made.fold(part(0), Result::and)
        })
    }

    /// Length in bytes, whole pages.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for HostPages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; the owner has unpinned the memory.
        if let Err(e) = unsafe { munmap(self.mapped.0 as *mut _, self.mapped.1) } {
            log::warn!("munmap: {e}");
        }
    }
}

/// Makes the pages of fresh anonymous memory.
#[cfg(target_os = "linux")]
fn make(start: usize, len: usize) -> io::Result<()> {
    use rustix::mm::{Advice, madvise};
    let advise = |advice| {
        // SAFETY: fresh memory of this process, which these kinds of advice leave as it is.
        unsafe { madvise(start as *mut _, len, advice) }
    };
    // Both fail where the kernel was built without the feature.
    let _ = advise(Advice::LinuxHugepage);
    let _ = advise(Advice::LinuxDontFork);
    match advise(Advice::LinuxPopulateWrite) {
        Err(rustix::io::Errno::INVAL) => {
            touch(start, len); // before Linux 5.14
            Ok(())
        }
        made => Ok(made?),
    }
}

#[cfg(not(target_os = "linux"))]
fn make(start: usize, len: usize) -> io::Result<()> {
    touch(start, len);
    Ok(())
}

/// Writes a zero to each page.
fn touch(start: usize, len: usize) {
    for offset in (0..len).step_by(4096) {
        // SAFETY: inside fresh memory of zeros, whose owner is this thread.
        unsafe { ((start + offset) as *mut u8).write_volatile(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_any_length_are_zeros_that_can_be_written() {
        for len in [1, 4096, LARGE_PAGE - 1, LARGE_PAGE + 5, 3 * BYTES_PER_THREAD + 4096 * 3] {
            let pages = HostPages::new(len).unwrap();
            assert!(pages.len() >= len && pages.len().is_multiple_of(4096) && !pages.is_empty());
            let start = pages.start().as_ptr();
            assert!(len < LARGE_PAGE || (start as usize).is_multiple_of(LARGE_PAGE));
            // SAFETY: the memory is the test's alone.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start, pages.len()) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(7);
        }
    }

    #[test]
    fn too_many_pages_are_an_error() {
        assert!(HostPages::new(usize::MAX / 4).is_err());
    }
}
