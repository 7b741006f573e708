//! `StagingBuffer`: device memory in which encoded bytes wait until they are decoded. It has several parts, filled in
//! turns. A part may be filled again when its bytes have been decoded. Meanwhile others are filled and decoded.

use std::sync::Arc;

use grampus_cuda::{CudaError, Device, DeviceBuffer};

use crate::runtime::memory::copy_target::CopyTarget;

/// Bytes of all parts, by default, at least and at most.
const MIN_STAGING_BYTES: u64 = 256 << 20;
const MAX_STAGING_BYTES: u64 = 2 << 30;
/// Share of the device's free memory. Each query that runs has a buffer.
const STAGING_SHARE: u64 = 64;
/// Slots begin at multiples of this.
const STAGING_GRAIN_BYTES: usize = 256;
/// Parts: so many may be filled before anything is decoded.
pub(crate) const STAGING_PARTS: usize = 8;

/// Bytes of all parts, by default, of a device with so much free memory when it is opened.
pub(crate) fn staging_bytes(free_bytes: u64) -> u64 {
    (free_bytes / STAGING_SHARE).clamp(MIN_STAGING_BYTES, MAX_STAGING_BYTES)
}

/// A place in the staging buffer.
#[derive(Debug)]
pub(crate) struct StagingSlot {
    /// Fillings of parts are numbered in their order.
    pub(crate) filling: usize,
    pub(crate) to: CopyTarget,
}

/// The memory, kept from query to query.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    /// Of all parts, though a part always holds the largest length.
    max_bytes: usize,
    buffer: Option<Arc<DeviceBuffer>>,
}

impl StagingBuffer {
    /// Memory of at most so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            buffer: None,
        }
    }

    /// Frees the memory.
    pub(crate) fn free(&mut self) {
        self.buffer = None;
    }

    /// Gives each of the lengths, in their order, a slot; none to a length of 0.
    pub(crate) fn assign(&mut self, device: &Device, lengths: &[usize]) -> Result<Vec<Option<StagingSlot>>, CudaError> {
        let padded: Vec<usize> = lengths
            .iter()
            .map(|len| len.next_multiple_of(STAGING_GRAIN_BYTES))
            .collect();
        let all: usize = padded.iter().sum();
        let Some(largest) = padded.iter().max().filter(|_| all > 0) else {
            return Ok(lengths.iter().map(|_| None).collect());
        };
        let part_bytes = (self.max_bytes / STAGING_PARTS).min(all).max(*largest);
        let (mut filling, mut used) = (0, 0);
        let mut place = |len: usize| {
            if used + len > part_bytes {
                (filling, used) = (filling + 1, 0);
            }
            used += len;
            (len > 0).then_some((filling, used - len))
        };
        let places: Vec<Option<(usize, usize)>> = padded.into_iter().map(&mut place).collect();
        let parts = (filling + 1).min(STAGING_PARTS);
        let buffer = self.buffer(device, parts * part_bytes)?;
        let slot = |(filling, offset): (usize, usize)| StagingSlot {
            filling,
            to: CopyTarget {
                buffer: buffer.clone(),
                offset: filling % STAGING_PARTS * part_bytes + offset,
            },
        };
        Ok(places.into_iter().map(|place| place.map(slot)).collect())
    }

    fn buffer(&mut self, device: &Device, len: usize) -> Result<Arc<DeviceBuffer>, CudaError> {
        if let Some(buffer) = self.buffer.as_ref().filter(|b| b.len() >= len) {
            return Ok(buffer.clone());
        }
        self.buffer = None; // its memory first
        let buffer = Arc::new(DeviceBuffer::new(device, len.next_multiple_of(1 << 20))?);
        self.buffer = Some(buffer.clone());
        Ok(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Filling and offset of each slot, and the buffer's bytes.
    fn assigned(lengths: &[usize], max_bytes: usize) -> (Vec<Option<(usize, usize)>>, usize) {
        let mut staging = StagingBuffer::new(max_bytes);
        let slots = staging.assign(&Device::host(1, 1 << 24), lengths).unwrap();
        let place = |slot: StagingSlot| (slot.filling, slot.to.offset);
        let places = slots.into_iter().map(|slot| slot.map(place)).collect();
        (places, staging.buffer.map_or(0, |buffer| buffer.len()))
    }

    #[test]
    fn parts_are_filled_in_turns_and_hold_the_largest_length() {
        assert_eq!(assigned(&[0, 0], 1 << 20), (vec![None, None], 0));
        assert_eq!(
            assigned(&[300, 0, 10], 1 << 20),
            (vec![Some((0, 0)), None, Some((0, 512))], 1 << 20)
        );
        let (places, bytes) = assigned(&[4000; 12], 8 * 4096);
        let expected: Vec<_> = (0..12).map(|at| Some((at, at % STAGING_PARTS * 4096))).collect();
        assert_eq!((places, bytes), (expected, 1 << 20));
        let (places, _) = assigned(&[100, 9000, 200], 8);
        assert_eq!(places, [Some((0, 0)), Some((1, 9216)), Some((2, 2 * 9216))]);
    }
}
