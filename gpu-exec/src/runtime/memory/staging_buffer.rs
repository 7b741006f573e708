//! Device memory that stored bytes wait in until they are decoded: two halves, filled by turns. Jobs that share a half at one time are a
//! *stage*; a stage may be brought when what was in its half two stages before has been decoded (arrivals.rs).

use std::sync::Arc;

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

use crate::runtime::transfer::copy_job::{CopyJob, CopySource, CopyTarget, StagingSlot};

/// Both halves, as long as nothing else is said.
pub(crate) const STAGING_BYTES: u64 = 256 << 20;
/// Pieces begin at multiples of this.
const STAGING_GRAIN_BYTES: usize = 256;
/// Stages that may be brought at first.
pub(crate) const HALVES: usize = 2;

/// The memory, kept from query to query.
#[derive(Debug, Default)]
pub(crate) struct StagingBuffer {
    buffer: Option<Arc<DeviceBuffer>>,
}

impl StagingBuffer {
    /// Gives every job that brings stored bytes its place and stage, in their order. `most_bytes`: of both halves, though a half holds any
    /// one piece.
    pub(crate) fn assign(&mut self, device: &Device, jobs: &mut [CopyJob], most_bytes: u64) -> Result<(), CudaError> {
        let length = |job: &CopyJob| match &job.what {
            CopySource::Encoded(stored) => stored.batch.bytes.next_multiple_of(STAGING_GRAIN_BYTES),
            CopySource::FileRanges { .. } | CopySource::CpuDecode { .. } => 0,
        };
        let lengths: Vec<usize> = jobs.iter().map(length).collect();
        let all: usize = lengths.iter().sum();
        let Some(largest) = lengths.iter().max().filter(|_| all > 0) else {
            return Ok(());
        };
        let half = (most_bytes as usize / HALVES).max(*largest);
        // Nobody waits where everything has room at once.
        let (stage_bytes, need) = match all <= HALVES * half {
            true => (all, all),
            false => (half, HALVES * half),
        };
        let buffer = self.buffer(device, need)?;
        let (mut stage, mut used) = (0, 0);
        for (job, len) in jobs.iter_mut().zip(lengths) {
            if used + len > stage_bytes {
                (stage, used) = (stage + 1, 0);
            }
            if let CopySource::Encoded(stored) = &mut job.what {
                stored.staged = Some(StagingSlot {
                    stage,
                    to: CopyTarget {
                        buffer: buffer.clone(),
                        offset: stage % HALVES * stage_bytes + used,
                    },
                });
                used += len;
            }
        }
        Ok(())
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
