//! `Arena`: a large range of device memory, and the ranges of it that are free. `DeviceRange`: a part that was given
//! out.

use std::collections::BTreeMap;
use std::sync::Arc;

use grampus_io_stack::cuda::DeviceBuffer;

/// Ranges begin at multiples of this: values of all types are aligned, and ranges given out one after the other touch.
pub(crate) const RANGE_GRAIN_BYTES: usize = 8;
/// Kernels load aligned words of 8 bytes around a value: no value ends closer to an arena's end.
pub(crate) const MARGIN_BYTES: usize = 64;
/// A part of an arena.
#[derive(Debug, Clone)]
pub(crate) struct DeviceRange {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) arena: usize,
}

impl DeviceRange {
    /// Address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }

    /// Whether another range begins at this one's end.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        (self.arena, self.offset + rounded(self.len)) == (next.arena, next.offset)
    }
}

/// Bytes that a range of `len` takes.
pub(crate) fn rounded(len: usize) -> usize {
    len.max(1).next_multiple_of(RANGE_GRAIN_BYTES)
}

/// A large range of device memory.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) buffer: Arc<DeviceBuffer>,
    /// Free ranges: offset to length. Neighbours are merged.
    free: BTreeMap<usize, usize>,
}

impl Arena {
    /// An arena that is free but for its margins.
    pub(crate) fn new(buffer: DeviceBuffer) -> Self {
        let free = BTreeMap::from([(MARGIN_BYTES, buffer.len() - 2 * MARGIN_BYTES)]);
        Self {
            buffer: Arc::new(buffer),
            free,
        }
    }

    /// Bytes of all free ranges.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.values().map(|len| *len as u64).sum()
    }

    /// Takes a free range of `len` bytes; returns its first byte.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let (&offset, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&offset);
        if room > len {
            self.free.insert(offset + len, room - len);
        }
        Some(offset)
    }

    /// Returns a range.
    pub(crate) fn give_back(&mut self, mut offset: usize, mut len: usize) {
        if let Some(next) = self.free.remove(&(offset + len)) {
            len += next;
        }
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            self.free.remove(&before);
            offset = before;
            len += room;
        }
        self.free.insert(offset, len);
    }
}
