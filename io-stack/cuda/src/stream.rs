//! `Stream` and `Event`: work in order, points in it, and copies. On host threads, launches are [`HostWork`].

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cudarc::driver::sys;
use grampus_driver::raw::HostMemory;

use crate::call::check;
use crate::device::Device;
use crate::device_buffer::DeviceBuffer;
use crate::error::CudaError;
use crate::host_faults::HostOperation;
use crate::host_work::HostWork;
use crate::pinned_buffer::PinnedBuffer;

/// A wait for a launch on host threads, which wakes the waiting thread.
const HOST_MOMENT: Duration = Duration::from_millis(1);
/// A sleep between looks at a GPU.
const GPU_MOMENT: Duration = Duration::from_micros(20);

/// A stream, not synchronised with the default stream.
#[derive(Debug)]
pub struct Stream {
    pub(crate) device: Device,
    pub(crate) raw: sys::CUstream,
    /// On host threads: the last launch. Copies take place at once, after its end.
    pub(crate) last: Mutex<Option<Arc<HostWork>>>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: streams may be used from any thread: the driver locks.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes a stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        device.begins(HostOperation::Create)?;
        if let Some(machine) = device.as_host() {
            machine.faults().note(|all| all.streams += 1);
        } else {
            device.gate().call(|| {
                device.bind()?;
                let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
                // SAFETY: a context is current.
                check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, flags) })
            })?;
        }
        Ok(Self {
            device: device.clone(),
            raw,
            last: Mutex::new(None),
        })
    }

    /// The last launch in a stream of host threads.
    fn last(&self) -> Option<Arc<HostWork>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Starts a copy of host memory to an address of device memory. On host threads, kernels may read the target
    /// meanwhile.
    ///
    /// # Errors
    /// A failed call.
    ///
    /// # Safety
    /// `from` stays there, unchanged, until the stream has done the copy. `from.len()` bytes at `address` are live
    /// memory of this device; both addresses and the length are multiples of 8, and all concurrent access to the target
    /// is atomic.
    pub unsafe fn copy_to_address(&self, from: &HostMemory, address: u64) -> Result<(), CudaError> {
        if let Some(machine) = self.device.as_host() {
            let _call = machine.call();
            machine.faults().check(HostOperation::Copy)?;
            // SAFETY: as the caller promises.
            unsafe { copy_words(from.as_ptr(), address, from.len()) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: as the caller promises.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, from.as_ptr().cast(), from.len(), self.raw)
        })
    }

    pub(crate) fn wait_on_host(&self) {
        if let Some(work) = self.last() {
            work.wait();
        }
    }

    /// Waits for everything in the stream.
    ///
    /// # Errors
    /// A kernel's failure; most of these end the context.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        if self.device.is_host() {
            self.wait_on_host();
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our stream.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// Orders later work of the stream behind the event.
    ///
    /// # Errors
    /// A failed call.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        if self.device.is_host() {
            event.wait_on_host();
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our stream and a live event; an event that was never recorded counts as reached.
        check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(self.raw, event.raw, 0)
        })
    }

    /// Sets bytes of device memory, in the stream's order. The memory must live until the stream is synchronised.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call.
    pub fn fill(&self, to: &DeviceBuffer, offset: usize, len: usize, byte: u8) -> Result<(), CudaError> {
        if offset.checked_add(len).is_none_or(|end| end > to.len()) {
            return Err(outside(len, 0, offset));
        }
        let at = to.address() + offset as u64;
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            self.wait_on_host();
            // SAFETY: inside live memory, by the check.
            unsafe { (at as *mut u8).write_bytes(byte, len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: inside live memory, by the check.
        check("cuMemsetD8Async", unsafe {
            sys::cuMemsetD8Async(at, byte, len, self.raw)
        })
    }

    /// Copies from pinned memory to device memory, in the stream's order. Both must live until the stream is
    /// synchronised.
    ///
    /// # Errors
    /// A range outside a buffer, or a failed call.
    pub fn upload(
        &self,
        from: &PinnedBuffer,
        from_offset: usize,
        to: &DeviceBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), CudaError> {
        check_ranges(len, (from_offset, from.len()), (to_offset, to.len()))?;
        let source = (from.address() as usize + from_offset) as *const u8;
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            self.wait_on_host();
            // SAFETY: both ranges are inside live buffers, which do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(source, (to.address() as *mut u8).add(to_offset), len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: both ranges are inside live buffers.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(to.address() + to_offset as u64, source.cast(), len, self.raw)
        })
    }

    /// Copies from device memory to pinned memory, in the stream's order. Both must live until the stream is
    /// synchronised, and the bytes are there from then on.
    ///
    /// # Errors
    /// A range outside a buffer, or a failed call.
    pub fn download(
        &self,
        from: &DeviceBuffer,
        from_offset: usize,
        to: &PinnedBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), CudaError> {
        check_ranges(len, (from_offset, from.len()), (to_offset, to.len()))?;
        let target = (to.address() as usize + to_offset) as *mut u8;
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            self.wait_on_host();
            let source = (from.address() as *const u8).wrapping_add(from_offset);
            // SAFETY: both ranges are inside live buffers, which do not overlap.
            unsafe { std::ptr::copy_nonoverlapping(source, target, len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: both ranges are inside live buffers.
        check("cuMemcpyDtoHAsync", unsafe {
            sys::cuMemcpyDtoHAsync_v2(target.cast(), from.address() + from_offset as u64, len, self.raw)
        })
    }
}

/// Checks that `len` bytes lie inside both buffers. An offset and the length of the buffer, each.
fn check_ranges(len: usize, from: (usize, usize), to: (usize, usize)) -> Result<(), CudaError> {
    let is_inside = |(offset, all): (usize, usize)| offset.checked_add(len).is_some_and(|end| end <= all);
    match is_inside(from) && is_inside(to) {
        true => Ok(()),
        false => Err(outside(len, from.0, to.0)),
    }
}

fn outside(len: usize, from: usize, to: usize) -> CudaError {
    CudaError::Arguments {
        kernel: "copy".to_owned(),
        reason: format!("{len} bytes from {from} to {to} lie outside a buffer"),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Some(machine) = self.device.as_host() {
            machine.faults().note(|all| all.streams -= 1);
            return self.wait_on_host();
        }
        let (device, raw) = (self.device.clone(), self.raw as usize);
        self.device.gate().give_back(move || {
            if device.bind().is_ok() {
                // SAFETY: made in `new`; the driver finishes the stream's work.
                let _ = unsafe { sys::cuStreamDestroy_v2(raw as sys::CUstream) };
            }
        });
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

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: sys::CUevent,
    /// On host threads: the launch before the event in its stream, and the time of the recording.
    mark: Mutex<Option<(Option<Arc<HostWork>>, Instant)>>,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: events may be used from any thread: the driver locks.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event; `timed` events can be subtracted.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device, timed: bool) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        device.begins(HostOperation::Create)?;
        if let Some(machine) = device.as_host() {
            machine.faults().note(|all| all.events += 1);
        } else {
            device.bind()?;
            let flags = if timed {
                0
            } else {
                sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32
            };
            // SAFETY: a context is current.
            check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        }
        Ok(Self {
            device: device.clone(),
            raw,
            mark: Mutex::new(None),
        })
    }

    fn mark(&self) -> Option<(Option<Arc<HostWork>>, Instant)> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for the recorded work; returns the time of its end.
    fn wait_on_host(&self) -> Option<Instant> {
        let (work, recorded) = self.mark()?;
        Some(work.map_or(recorded, |w| w.wait().max(recorded)))
    }

    /// Records the event at the end of the stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        if self.device.is_host() {
            *self.mark.lock().unwrap_or_else(PoisonError::into_inner) = Some((stream.last(), Instant::now()));
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our event and a live stream.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.raw, stream.raw) })
    }

    /// Whether the stream has reached it. Never blocks.
    ///
    /// # Errors
    /// A failure before the event.
    pub fn reached(&self) -> Result<bool, CudaError> {
        if self.device.is_host() {
            let work = self.mark().and_then(|(work, _)| work);
            return Ok(work.is_none_or(|w| w.finished().is_some()));
        }
        self.device.bind()?;
        // SAFETY: our event.
        match unsafe { sys::cuEventQuery(self.raw) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            answer => check("cuEventQuery", answer).map(|()| true),
        }
    }

    /// Whether the stream has reached the event. If not, a moment goes by, in which the caller would wait.
    /// `keeps_processor`: the wait for a GPU spins, and does not sleep. A launch on host threads needs the processor
    /// itself.
    ///
    /// # Errors
    /// A failure before the event.
    pub fn reached_soon(&self, keeps_processor: bool) -> Result<bool, CudaError> {
        if self.device.is_host() {
            let work = self.mark().and_then(|(work, _)| work);
            return Ok(work.is_none_or(|w| w.ends_within(HOST_MOMENT)));
        }
        if self.reached()? {
            return Ok(true);
        }
        match keeps_processor {
            true => std::thread::yield_now(),
            false => std::thread::sleep(GPU_MOMENT),
        }
        Ok(false)
    }

    /// Waits until the stream has reached the event.
    ///
    /// # Errors
    /// A failure before the event.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        if self.device.is_host() {
            self.wait_on_host();
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our event.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.raw) })
    }

    /// Milliseconds from `earlier` to this one; waits for both.
    ///
    /// # Errors
    /// A failure before the events.
    pub fn ms_since(&self, earlier: &Self) -> Result<f64, CudaError> {
        if self.device.is_host() {
            let (from, to) = (earlier.wait_on_host(), self.wait_on_host());
            let between = from.zip(to).map(|(from, to)| to.saturating_duration_since(from));
            return Ok(between.unwrap_or_default().as_secs_f64() * 1e3);
        }
        self.device.bind()?;
        if self.device.version() < (12, 8) {
            return Err(CudaError::NoDriver(
                "timing kernels needs a driver for CUDA 12.8".to_owned(),
            ));
        }
        // SAFETY: our event.
        check("cuEventSynchronize", unsafe { sys::cuEventSynchronize(self.raw) })?;
        let mut ms = 0f32;
        // SAFETY: both are recorded with timing; otherwise the driver returns an error.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime_v2(&mut ms, earlier.raw, self.raw)
        })?;
        Ok(f64::from(ms))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(machine) = self.device.as_host() {
            machine.faults().note(|all| all.events -= 1);
        } else if self.device.bind().is_ok() {
            // SAFETY: made in `new`.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
