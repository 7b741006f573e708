//! Large stretches of device memory, of which pieces are given out.

use std::collections::BTreeMap;
use std::sync::Arc;

use grampus_io_stack::cuda::DeviceBuffer;

/// Pieces begin at multiples of this, so that values of all types are aligned and pieces given out one after the other touch.
pub(crate) const RANGE_GRAIN_BYTES: usize = 8;
/// Kernels load aligned words of 8 bytes around a value: no value ends closer to an arena's end.
pub(crate) const MARGIN_BYTES: usize = 64;
/// A piece of an arena.
#[derive(Debug, Clone)]
pub(crate) struct DeviceRange {
    pub(crate) buffer: Arc<DeviceBuffer>,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) arena: usize,
}

impl DeviceRange {
    /// Its address on the device.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.offset as u64
    }

    /// Whether another begins where it ends.
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        (self.arena, self.offset + rounded(self.len)) == (next.arena, next.offset)
    }
}

/// Bytes that a piece of so many takes.
pub(crate) fn rounded(len: usize) -> usize {
    len.max(1).next_multiple_of(RANGE_GRAIN_BYTES)
}

/// A stretch of device memory, and what of it is free.
#[derive(Debug)]
pub(crate) struct Arena {
    pub(crate) buffer: Arc<DeviceBuffer>,
    /// Free pieces: offset to length. Neighbours are merged.
    free: BTreeMap<usize, usize>,
}

impl Arena {
    /// All of it is free but its margins.
    pub(crate) fn new(buffer: DeviceBuffer) -> Self {
        let free = BTreeMap::from([(MARGIN_BYTES, buffer.len() - 2 * MARGIN_BYTES)]);
        Self {
            buffer: Arc::new(buffer),
            free,
        }
    }

    /// Bytes of all free pieces.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.values().map(|len| *len as u64).sum()
    }

    /// First byte of a free piece of so many.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let (&offset, &room) = self.free.iter().find(|(_, room)| **room >= len)?;
        self.free.remove(&offset);
        if room > len {
            self.free.insert(offset + len, room - len);
        }
        Some(offset)
    }

    /// A piece is free again.
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
