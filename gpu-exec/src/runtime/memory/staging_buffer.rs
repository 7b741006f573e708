//! `StagingBuffer`: device memory in which encoded bytes wait until they are decoded. It has two halves, filled in
//! turns. A half may be filled again when its bytes have been decoded.

use std::sync::Arc;

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

use crate::runtime::memory::copy_target::CopyTarget;

/// Bytes of both halves, by default, at least and at most. A decompression kernel takes some hundred megabytes at once
/// to fill an H200 (docs/experiments/0026-short-elements-together.md).
const MIN_STAGING_BYTES: u64 = 256 << 20;
const MAX_STAGING_BYTES: u64 = 1 << 30;
/// Share of the device's free memory. Each query that runs has a buffer.
const STAGING_SHARE: u64 = 128;
/// Slots begin at multiples of this.
const STAGING_GRAIN_BYTES: usize = 256;
/// Halves: so many may be filled before anything is decoded.
pub(crate) const HALVES: usize = 2;

/// Bytes of both halves, by default, of a device with so much free memory when it is opened.
pub(crate) fn staging_bytes(free_bytes: u64) -> u64 {
    (free_bytes / STAGING_SHARE).clamp(MIN_STAGING_BYTES, MAX_STAGING_BYTES)
}

/// A place in the staging buffer.
#[derive(Debug)]
pub(crate) struct StagingSlot {
    /// Halves are numbered in the order in which they are filled.
    pub(crate) half: usize,
    pub(crate) to: CopyTarget,
}

/// The memory, kept from query to query.
#[derive(Debug, Default)]
pub(crate) struct StagingBuffer {
    buffer: Option<Arc<DeviceBuffer>>,
}

impl StagingBuffer {
    /// Gives each of the lengths, in their order, a slot; none to a length of 0. `max_bytes`: of both halves, though a
    /// half always holds the largest length.
    pub(crate) fn assign(
        &mut self,
        device: &Device,
        lengths: &[usize],
        max_bytes: u64,
    ) -> Result<Vec<Option<StagingSlot>>, CudaError> {
        let padded: Vec<usize> = lengths
            .iter()
            .map(|len| len.next_multiple_of(STAGING_GRAIN_BYTES))
            .collect();
        let all: usize = padded.iter().sum();
        let Some(largest) = padded.iter().max().filter(|_| all > 0) else {
            return Ok(lengths.iter().map(|_| None).collect());
        };
        let largest_half = (max_bytes as usize / HALVES).max(*largest);
        // If everything has space at once, nothing waits.
        let (half_bytes, need) = match all <= HALVES * largest_half {
            true => (all, all),
            false => (largest_half, HALVES * largest_half),
        };
        let buffer = self.buffer(device, need)?;
        let (mut half, mut used) = (0, 0);
        let mut slot = |len: usize| {
            if used + len > half_bytes {
                (half, used) = (half + 1, 0);
            }
            let to = CopyTarget {
                buffer: buffer.clone(),
                offset: half % HALVES * half_bytes + used,
            };
            used += len;
            (len > 0).then_some(StagingSlot { half, to })
        };
        Ok(padded.into_iter().map(&mut slot).collect())
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
