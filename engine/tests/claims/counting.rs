//! An allocator that counts, and that has no memory for a request that only a false claim makes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than any one request of the tests' queries, and less than what a claim of 2^32 asks for.
pub(crate) const MAX_REQUEST_BYTES: usize = 1 << 30;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Counts the bytes of the process's allocations.
pub(crate) struct Counting;

// SAFETY: every call that is answered with memory is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > MAX_REQUEST_BYTES {
            return std::ptr::null_mut();
        }
        let now = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Forgets the peak so far. Returns the bytes that are allocated now.
pub(crate) fn begin() -> usize {
    let now = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(now, Ordering::Relaxed);
    now
}

/// The most bytes that were allocated at once since `begin`.
pub(crate) fn peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}
