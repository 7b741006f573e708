//! What a software controller sees of CUDA's memory: bounce slots it writes itself, and device memory that it reaches through a
//! pinned ring and the copy engine. Which ranges those are is said once, when the stack is built.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cudarc::driver::sys;
use grampus_driver::bus::{BusMemory, Pusher};
use grampus_driver::raw::{HostMemory, QueueRings, RingAddresses};

use super::{CudaError, Device, Event, PinnedBuffer, Stream, check};
use crate::layout::{CqEntry, QueueDesc, SqEntry};

/// Pinned staging memory of one controller thread.
#[derive(Debug, Clone, Copy)]
pub struct StagingOptions {
    /// Bytes of one buffer: the longest piece that is pushed at once.
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

/// The memory that commands may point at.
#[derive(Debug)]
pub struct CudaBus {
    device: Device,
    bounce: Option<Arc<PinnedBuffer>>,
    device_ranges: Vec<Range<u64>>,
    staging: StagingOptions,
    /// One for all threads: between the streams of several the copy engine changes channels, which costs it time.
    stream: OnceLock<Arc<Stream>>,
}

impl CudaBus {
    /// `bounce` may be written by the controller, `device_ranges` by the copy engine, nothing else by anybody.
    pub fn new(
        device: &Device,
        bounce: Option<Arc<PinnedBuffer>>,
        device_ranges: Vec<Range<u64>>,
        staging: StagingOptions,
    ) -> Self {
        Self {
            device: device.clone(),
            bounce,
            device_ranges,
            staging,
            stream: OnceLock::new(),
        }
    }

    fn stream(&self) -> Result<Arc<Stream>, CudaError> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream.clone());
        }
        let made = Arc::new(Stream::new(&self.device)?);
        Ok(self.stream.get_or_init(|| made).clone())
    }
}

impl BusMemory for CudaBus {
    fn host_memory(&self, bus_address: u64, length: u64) -> Option<HostMemory> {
        let bounce = self.bounce.as_ref()?;
        let offset = bus_address.checked_sub(bounce.address())?;
        bounce.host_memory(usize::try_from(offset).ok()?, usize::try_from(length).ok()?)
    }

    fn prp_list(&self, _: u64, _: usize) -> Option<Vec<u64>> {
        None // QUEUE_SGL: transfers of more than two pages carry an SGL data block
    }

    fn pusher(&self) -> Result<Option<Box<dyn Pusher>>, String> {
        if self.device_ranges.is_empty() {
            return Ok(None);
        }
        CopyEngine::new(self)
            .map(|p| Some(Box::new(p) as Box<dyn Pusher>))
            .map_err(|e| e.to_string())
    }
}

/// One thread's ring of staging buffers.
struct CopyEngine {
    stream: Arc<Stream>,
    buffer: Arc<PinnedBuffer>,
    staging: StagingOptions,
    device_ranges: Vec<Range<u64>>,
    free: Vec<usize>,
    events: Vec<Event>,
    /// Copies in the stream's order: token, buffer, how the start went.
    under_way: VecDeque<(u64, usize, Result<(), CudaError>)>,
}

impl CopyEngine {
    fn new(bus: &CudaBus) -> Result<Self, CudaError> {
        let staging = bus.staging;
        let events = (0..staging.count).map(|_| Event::new(&bus.device, false));
        Ok(Self {
            stream: bus.stream()?,
            buffer: Arc::new(PinnedBuffer::new(&bus.device, staging.bytes * staging.count)?),
            staging,
            device_ranges: bus.device_ranges.clone(),
            free: (0..staging.count).collect(),
            events: events.collect::<Result<_, _>>()?,
            under_way: VecDeque::new(),
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
        if self.stream.device.is_host() {
            // SAFETY: the source is a staging buffer of ours, the target was checked; both are multiples of a sector.
            unsafe { copy_words(staged.as_ptr(), bus_address, staged.len()) };
            return self.events[buffer].record(&self.stream);
        }
        self.stream.device.bind()?;
        // SAFETY: the source is a staging buffer that stays ours until its event is reached; the target was checked.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(bus_address, staged.as_ptr().cast(), staged.len(), self.stream.raw)
        })?;
        self.events[buffer].record(&self.stream)
    }
}

/// Copies words one by one as atomics: kernels on host threads may be reading the line optimistically.
///
/// # Safety
/// Both are live for `len` bytes and 8-byte aligned, and `len` is a multiple of 8.
unsafe fn copy_words(from: *const u8, to: u64, len: usize) {
    for at in (0..len).step_by(8) {
        // SAFETY: inside both, by the caller's promise; all concurrent access to the target is atomic.
        unsafe {
            let word = from.add(at).cast::<u64>().read();
            AtomicU64::from_ptr((to as *mut u8).add(at).cast::<u64>()).store(word, Ordering::Relaxed);
        }
    }
}

impl Pusher for CopyEngine {
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

    fn push(&mut self, token: u64, staged: HostMemory, bus_address: u64) {
        let index = self.index_of(&staged);
        let started = self.start(&staged, bus_address, index);
        self.under_way.push_back((token, index, started));
    }

    fn poll(&mut self, done: &mut Vec<(u64, Result<(), String>)>) {
        while let Some((token, index, started)) = self.under_way.front() {
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
            self.under_way.pop_front();
        }
    }
}

impl Drop for CopyEngine {
    fn drop(&mut self) {
        let _ = self.stream.synchronize(); // before the staging memory goes
    }
}

/// The controller's side of a queue pair whose rings lie in pinned memory; `None` if `desc` does not lie inside `memory`.
/// The memory must outlive the rings: the stack drops its controller first.
pub(crate) fn rings(desc: &QueueDesc, memory: &PinnedBuffer) -> Option<QueueRings> {
    let depth = 1u64 << desc.depth_log2;
    let inside = |at: u64, bytes: u64| at >= memory.address() && at + bytes <= memory.address() + memory.len() as u64;
    let all = inside(desc.sq, depth * size_of::<SqEntry>() as u64)
        && inside(desc.cq, depth * size_of::<CqEntry>() as u64)
        && inside(desc.sq_doorbell, 4)
        && inside(desc.cq_doorbell, 4);
    let aligned = [
        (desc.sq, 64),
        (desc.cq, 16),
        (desc.sq_doorbell, 4),
        (desc.cq_doorbell, 4),
    ];
    let aligned = aligned.iter().all(|(at, to)| at.is_multiple_of(*to));
    if !all || !aligned {
        return None;
    }
    let at = RingAddresses {
        sq: desc.sq as *const _,
        cq: desc.cq as *mut _,
        sq_doorbell: desc.sq_doorbell as *const _,
        cq_doorbell: desc.cq_doorbell as *const _,
    };
    // SAFETY: inside live pinned memory and aligned, by the checks; the host writes completions only while the controller
    // rests.
    Some(unsafe { QueueRings::new(at, desc.depth_log2) })
}
