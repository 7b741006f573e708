//! `Arena`: a large range of device memory, and the ranges of it that are free. `DeviceRange`: a part that was given
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use grampus_cuda::DeviceBuffer;

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
    free: FreeRanges,
}

impl Arena {
    /// An arena that is free but for its margins.
    pub(crate) fn new(buffer: DeviceBuffer) -> Self {
        let mut free = FreeRanges::default();
        free.add(MARGIN_BYTES, buffer.len() - 2 * MARGIN_BYTES);
        Self {
            buffer: Arc::new(buffer),
            free,
        }
    }

    /// Bytes of all free ranges.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.free.bytes
    }

    /// Takes a free range of `len` bytes; returns its first byte.
    pub(crate) fn take(&mut self, len: usize) -> Option<usize> {
        let offset = self.free.first_fit(len)?;
        let room = self.free.remove(offset)?;
        if room > len {
            self.free.add(offset + len, room - len);
        }
        Some(offset)
    }

    /// Returns a range.
    pub(crate) fn give_back(&mut self, mut offset: usize, mut len: usize) {
        if let Some(next) = self.free.remove(offset + len) {
            len += next;
        }
        if let Some((before, room)) = self.free.before(offset)
            && before + room == offset
        {
            self.free.remove(before);
            offset = before;
            len += room;
        }
        self.free.add(offset, len);
    }
}

/// Free ranges. Neighbours are merged.
#[derive(Debug)]
struct FreeRanges {
    /// Offset to length.
    all: BTreeMap<usize, usize>,
    /// By log2 of the length: offsets. A range is found without a look at those that are much too short.
    by_class: [BTreeSet<usize>; usize::BITS as usize],
    bytes: u64,
}

impl Default for FreeRanges {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            by_class: std::array::from_fn(|_| BTreeSet::new()),
            bytes: 0,
        }
    }
}

/// log2 of a length that is not 0.
fn class_of(len: usize) -> usize {
    len.max(1).ilog2() as usize
}

impl FreeRanges {
    /// The first range of at least `len` bytes.
    fn first_fit(&self, len: usize) -> Option<usize> {
        let class = class_of(len);
        let longer = self.by_class[class + 1..].iter().filter_map(|offsets| offsets.first());
        let longer = longer.min().copied();
        let before = self.by_class[class].range(..longer.unwrap_or(usize::MAX));
        let mut before = before.filter(|offset| self.all.get(offset).is_some_and(|room| *room >= len));
        before.next().copied().or(longer)
    }

    fn before(&self, offset: usize) -> Option<(usize, usize)> {
        self.all.range(..offset).next_back().map(|(at, len)| (*at, *len))
    }

    fn add(&mut self, offset: usize, len: usize) {
        self.all.insert(offset, len);
        self.by_class[class_of(len)].insert(offset);
        self.bytes += len as u64;
    }

    fn remove(&mut self, offset: usize) -> Option<usize> {
        let len = self.all.remove(&offset)?;
        self.by_class[class_of(len)].remove(&offset);
        self.bytes -= len as u64;
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_range_that_is_long_enough_is_found() {
        let mut free = FreeRanges::default();
        let ranges = [(0, 8), (100, 9), (200, 15), (300, 64), (400, 8), (500, 31)];
        ranges.into_iter().for_each(|(offset, len)| free.add(offset, len));
        for len in 1..70 {
            let expected = ranges.iter().find(|(_, room)| *room >= len).map(|(offset, _)| *offset);
            assert_eq!(free.first_fit(len), expected, "{len}");
        }
        assert_eq!(
            (free.remove(300), free.first_fit(16), free.bytes),
            (Some(64), Some(500), 71)
        );
        assert_eq!((free.before(500), free.before(0)), (Some((400, 8)), None));
    }
}
