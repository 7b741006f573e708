//! `HostMemory`: memory that a read fills, with exclusive access by one handle.

use std::ptr::NonNull;

/// Exclusive access to `len` bytes of memory that outlives the handle: pinned memory, a bounce slot, a test's buffer.
#[derive(Debug)]
pub struct HostMemory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the handle is the only way to the memory for its lifetime (contract of `new`), so it may move between
// threads.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Takes the memory over.
    ///
    /// # Safety
    /// `start` points to `len` writable bytes that stay valid until the handle and everything split off it are gone.
    /// Until then no Rust reference and no other `HostMemory` touches them. A device may read them meanwhile.
    pub unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self { start, len }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: valid and exclusive by the contract of `new`; `&mut self` keeps this handle from lending them twice.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Splits into the first `at` bytes and the rest.
    ///
    /// # Panics
    /// If `at` is beyond the end.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        assert!(at <= self.len, "split beyond the end of the memory");
        // SAFETY: `at <= len`, so the address is inside or one past the same memory; the halves do not overlap.
        let rest = unsafe { self.start.add(at) };
        (
            Self {
                start: self.start,
                len: at,
            },
            Self {
                start: rest,
                len: self.len - at,
            },
        )
    }

    /// Joins two pieces that [`split_at`](Self::split_at) made of one.
    ///
    /// # Panics
    /// If `next` does not start where this one ends.
    pub fn join(self, next: Self) -> Self {
        // SAFETY: one past the end of our own memory.
        assert_eq!(unsafe { self.start.add(self.len) }, next.start, "only neighbours join");
        Self {
            start: self.start,
            len: self.len + next.len,
        }
    }
}
