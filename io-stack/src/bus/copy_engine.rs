//! `CopyEngine`: one controller thread's staging buffers, and copies from them to device memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use grampus_cuda::{CudaError, Device, Event, PinnedBuffer, Stream};
use grampus_driver::bus::Uploader;
use grampus_driver::raw::HostMemory;

/// Pinned staging memory of one controller thread.
#[derive(Debug, Clone, Copy)]
pub struct StagingOptions {
    /// Bytes of one buffer: the longest piece that is uploaded at once.
    pub bytes: usize,
    /// Buffers per thread.
    pub count: usize,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self {
            bytes: 4 << 20,
            count: 4,
        }
    }
}

/// One thread's ring of staging buffers.
pub(super) struct CopyEngine {
    stream: Arc<Stream>,
    buffer: Arc<PinnedBuffer>,
    staging: StagingOptions,
    device_ranges: Vec<Range<u64>>,
    free: Vec<usize>,
    events: Vec<Event>,
    /// Copies in the stream's order: token, buffer, result of the start.
    in_flight: VecDeque<(u64, usize, Result<(), CudaError>)>,
}

impl CopyEngine {
    pub(super) fn new(
        device: &Device,
        stream: Arc<Stream>,
        staging: StagingOptions,
        device_ranges: Vec<Range<u64>>,
    ) -> Result<Self, CudaError> {
        let events = (0..staging.count).map(|_| Event::new(device, false));
        Ok(Self {
            stream,
            buffer: Arc::new(PinnedBuffer::new(device, staging.bytes * staging.count)?),
            staging,
            device_ranges,
            free: (0..staging.count).collect(),
            events: events.collect::<Result<_, _>>()?,
            in_flight: VecDeque::new(),
        })
    }

    fn index_of(&self, staged: &HostMemory) -> usize {
        (staged.as_ptr() as usize - self.buffer.address() as usize) / self.staging.bytes
    }

    fn start(&self, staged: &HostMemory, bus_address: u64, buffer: usize) -> Result<(), CudaError> {
        let end = bus_address.saturating_add(staged.len() as u64);
        if !self
            .device_ranges
            .iter()
            .any(|r| r.start <= bus_address && end <= r.end)
        {
            return Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{bus_address:#x} is no device memory of ours"),
            });
        }
        // SAFETY: the source is one of our staging buffers, and stays ours until its event is reached; the target was
        // checked. Commands transfer whole sectors, and kernels read lines by atomics (PROTOCOL.md).
        unsafe { self.stream.copy_to_address(staged, bus_address) }?;
        self.events[buffer].record(&self.stream)
    }
}

impl Uploader for CopyEngine {
    fn staging_bytes(&self) -> usize {
        self.staging.bytes
    }

    fn staging(&mut self, length: usize) -> Option<HostMemory> {
        if length > self.staging.bytes {
            return None;
        }
        let index = self.free.pop()?;
        // SAFETY: `drop` waits for copies and then frees the buffer. `free` gives each part to one holder.
        let memory = unsafe { self.buffer.lend(index * self.staging.bytes, length) };
        if memory.is_none() {
            self.free.push(index);
        }
        memory
    }

    fn release(&mut self, staged: HostMemory) {
        self.free.push(self.index_of(&staged));
    }

    fn upload(&mut self, token: u64, staged: HostMemory, bus_address: u64) {
        let index = self.index_of(&staged);
        let started = self.start(&staged, bus_address, index);
        self.in_flight.push_back((token, index, started));
    }

    fn poll(&mut self, done: &mut Vec<(u64, Result<(), String>)>) {
        while let Some((token, index, started)) = self.in_flight.front() {
            let result = match started {
                Err(e) => Err(e.to_string()),
                Ok(()) => match self.events[*index].reached() {
                    Ok(false) => return,
                    Ok(true) => Ok(()),
                    Err(e) => Err(e.to_string()),
                },
            };
            done.push((*token, result));
            self.free.push(*index);
            self.in_flight.pop_front();
        }
    }
}

impl Drop for CopyEngine {
    fn drop(&mut self) {
        let _ = self.stream.synchronize(); // before the staging memory is freed
    }
}
