//! `CopyTarget`: device memory that bytes are copied to.

use std::sync::Arc;

use grampus_cuda::DeviceBuffer;

use crate::runtime::memory::arena::DeviceRange;

/// A place in device memory.
#[derive(Debug, Clone)]
pub(crate) struct CopyTarget {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) offset: usize,
}

impl CopyTarget {
    /// So many bytes behind a range's first.
    pub(crate) fn within(range: &DeviceRange, offset: usize) -> Self {
        Self {
            buffer: range.buffer.clone(),
            offset: range.offset + offset,
        }
    }

    /// So many bytes behind this place.
    pub(crate) fn behind(&self, bytes: usize) -> Self {
        Self {
            buffer: self.buffer.clone(),
            offset: self.offset + bytes,
        }
    }

    /// Its address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }
}
