//! `CopyEngine`: one controller thread's staging buffers, and copies from them to device memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;
use grampus_driver::bus::Uploader;
use grampus_driver::raw::HostMemory;

use super::call::check;
use super::device::Device;
use super::host_faults::HostOperation;
use super::pinned_buffer::PinnedBuffer;
use super::stream::{Event, Stream};
use crate::error::CudaError;

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
        if let Some(machine) = self.stream.device.as_host() {
            let _call = machine.call();
            machine.faults().check(HostOperation::Copy)?;
            // SAFETY: the source is one of our staging buffers, and the target was checked; both are multiples of a
            // sector.
            unsafe { copy_words(staged.as_ptr(), bus_address, staged.len()) };
            return self.events[buffer].record(&self.stream);
        }
        self.stream.device.bind()?;
        // SAFETY: the source is one of our staging buffers, and stays ours until its event is reached; the target was
        // checked.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(bus_address, staged.as_ptr().cast(), staged.len(), self.stream.raw)
        })?;
        self.events[buffer].record(&self.stream)
    }
}

/// Copies words one by one as atomics: kernels on host threads may read the line optimistically meanwhile.
///
/// # Safety
/// Both are live for `len` bytes and 8-byte aligned, and `len` is a multiple of 8.
unsafe fn copy_words(from: *const u8, to: u64, len: usize) {
    for at in (0..len).step_by(8) {
        // SAFETY: inside both, as the caller promises; all concurrent access to the target is atomic.
        unsafe {
            let word = from.add(at).cast::<u64>().read();
            AtomicU64::from_ptr((to as *mut u8).add(at).cast::<u64>()).store(word, Ordering::Relaxed);
        }
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
        let memory = self.buffer.host_memory(index * self.staging.bytes, length);
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
