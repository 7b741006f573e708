//! `Args`: a kernel's arguments, copied.

use crate::plain::Plain;

/// A kernel's arguments, copied.
#[derive(Debug, Default)]
pub struct Args {
    /// 16-byte aligned storage of each argument, and its size in bytes.
    pub(crate) values: Vec<(Box<[u128]>, usize)>,
}

impl Args {
    /// No arguments yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends an argument.
    #[must_use]
    pub fn with<T: Plain>(mut self, value: T) -> Self {
        let mut bytes = vec![0u128; size_of::<T>().div_ceil(16)].into_boxed_slice();
        // SAFETY: `bytes` has space for a `T`. Its alignment of 16 bytes is enough, or the unaligned write makes up for
        // it.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
        self.values.push((bytes, size_of::<T>()));
        self
    }

    /// Appends a struct by its bytes, for structs whose layout is known only when a kernel is generated. The launch
    /// checks its length against the kernel's parameter.
    #[must_use]
    pub fn with_bytes(mut self, value: &[u8]) -> Self {
        let mut words = vec![0u128; value.len().div_ceil(16)].into_boxed_slice();
        // SAFETY: `words` has space for all bytes; two allocations do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), words.as_mut_ptr().cast::<u8>(), value.len()) };
        self.values.push((words, value.len()));
        self
    }
}
