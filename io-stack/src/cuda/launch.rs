//! Streams, events, loaded modules, and launches whose arguments are checked against the kernel.

use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use cudarc::driver::sys;
use libloading::Library;

use super::host::{HostKernel, Work};
use super::{CudaError, Device, DeviceBuffer, PinnedBuffer, check, host_compile};
use crate::layout;

/// A value that kernels take by its bytes: any bit pattern is valid, and there are no references in it.
///
/// # Safety
/// The type is `repr(C)` or a primitive, and every bit pattern of it is valid.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($ty:ty),* $(,)?) => {
        $(
            // SAFETY: a primitive, or a `repr(C)` struct of integers from `layout`.
            unsafe impl Plain for $ty {}
        )*
    };
}
plain!(u8, u16, u32, u64, i32, i64, f64);
plain!(
    layout::IoStack,
    layout::ColumnDesc,
    layout::Extent,
    layout::SourceDesc,
    layout::QueueDesc,
    layout::QueueState,
    layout::Status,
    layout::Stats
);

/// A kernel's arguments, copied.
#[derive(Debug, Default)]
pub struct Args {
    /// 16-byte aligned storage of each argument, and its size in bytes.
    values: Vec<(Box<[u128]>, usize)>,
}

impl Args {
    /// No arguments yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one.
    #[must_use]
    pub fn with<T: Plain>(mut self, value: T) -> Self {
        let mut bytes = vec![0u128; size_of::<T>().div_ceil(16)].into_boxed_slice();
        // SAFETY: room for a `T`, and 16-byte aligned, which is enough or made good for by an unaligned write.
        unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
        self.values.push((bytes, size_of::<T>()));
        self
    }

    /// Appends a struct by its bytes, for those whose layout is known only when a kernel is generated. Its length is checked against
    /// the kernel's parameter.
    #[must_use]
    pub fn with_bytes(mut self, value: &[u8]) -> Self {
        let mut words = vec![0u128; value.len().div_ceil(16)].into_boxed_slice();
        // SAFETY: room for all the bytes; two allocations do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), words.as_mut_ptr().cast::<u8>(), value.len()) };
        self.values.push((words, value.len()));
        self
    }
}

/// A stream of its own, not synchronised with the default one.
#[derive(Debug)]
pub struct Stream {
    pub(super) device: Device,
    pub(super) raw: sys::CUstream,
    /// On host threads: the last launch. Copies are done at once, when it has ended.
    last: Mutex<Option<Arc<Work>>>,
}

// SAFETY: streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above: the driver locks.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes one.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        if !device.is_host() {
            device.bind()?;
            let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
            // SAFETY: a context is current.
            check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, flags) })?;
        }
        Ok(Self {
            device: device.clone(),
            raw,
            last: Mutex::new(None),
        })
    }

    /// The launch that was last put into a stream of host threads.
    fn last(&self) -> Option<Arc<Work>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn wait_on_host(&self) {
        if let Some(work) = self.last() {
            work.wait();
        }
    }

    /// Waits for everything in it.
    ///
    /// # Errors
    /// What went wrong in a kernel; the context is dead after most of these.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        if self.device.is_host() {
            self.wait_on_host();
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our stream.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// What is put into the stream from now on happens after what `event` stands for.
    ///
    /// # Errors
    /// A failed call.
    pub fn wait(&self, event: &Event) -> Result<(), CudaError> {
        if self.device.is_host() {
            event.wait_on_host();
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: our stream and a live event; one that was never recorded counts as reached.
        check("cuStreamWaitEvent", unsafe {
            sys::cuStreamWaitEvent(self.raw, event.raw, 0)
        })
    }

    /// Sets bytes of device memory, in the stream's order; the memory must live until it is synchronised.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call.
    pub fn fill(&self, to: &DeviceBuffer, offset: usize, len: usize, byte: u8) -> Result<(), CudaError> {
        if offset.checked_add(len).is_none_or(|end| end > to.len()) {
            return Err(outside(len, 0, offset));
        }
        let at = to.address() + offset as u64;
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

    /// Copies from pinned memory to device memory, in the stream's order; both must live until it is synchronised.
    ///
    /// # Errors
    /// A range outside a buffer, or a failed call.
    pub fn push(
        &self,
        from: &PinnedBuffer,
        from_offset: usize,
        to: &DeviceBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), CudaError> {
        let inside = |offset: usize, all: usize| offset.checked_add(len).is_some_and(|end| end <= all);
        if !inside(from_offset, from.len()) || !inside(to_offset, to.len()) {
            return Err(outside(len, from_offset, to_offset));
        }
        let source = (from.address() as usize + from_offset) as *const u8;
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
}

fn outside(len: usize, from: usize, to: usize) -> CudaError {
    CudaError::Arguments {
        kernel: "copy".to_owned(),
        reason: format!("{len} bytes from {from} to {to} lie outside a buffer"),
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.is_host() {
            self.wait_on_host();
        } else if self.device.bind().is_ok() {
            // SAFETY: made in `new`; the driver finishes what is in it.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// A point in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    raw: sys::CUevent,
    /// On host threads: the launch before it in its stream, and when it was recorded.
    mark: Mutex<Option<(Option<Arc<Work>>, Instant)>>,
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above: the driver locks.
unsafe impl Sync for Event {}

impl Event {
    /// Makes one; `timed` ones can be subtracted.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device, timed: bool) -> Result<Self, CudaError> {
        let mut raw = std::ptr::null_mut();
        if !device.is_host() {
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

    fn mark(&self) -> Option<(Option<Arc<Work>>, Instant)> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// When what was recorded was done; waits for it.
    fn wait_on_host(&self) -> Option<Instant> {
        let (work, recorded) = self.mark()?;
        Some(work.map_or(recorded, |w| w.wait().max(recorded)))
    }

    /// Puts it at the end of the stream.
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
    /// What went wrong before it.
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

    /// Waits for it.
    ///
    /// # Errors
    /// What went wrong before it.
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
    /// What went wrong before them.
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
        // SAFETY: both recorded, both with timing, or the driver says that they are not.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime_v2(&mut ms, earlier.raw, self.raw)
        })?;
        Ok(f64::from(ms))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.device.is_host() && self.device.bind().is_ok() {
            // SAFETY: made in `new`.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

#[derive(Debug)]
enum Code {
    Gpu(sys::CUmodule),
    Host(Arc<Library>),
}

/// Loaded machine code.
#[derive(Debug)]
pub struct Module {
    device: Device,
    code: Code,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads what [`compile_for`](super::compile_for) made for this device.
    ///
    /// # Errors
    /// Mostly: code for another device.
    pub fn load(device: &Device, cubin: &[u8]) -> Result<Self, CudaError> {
        if device.is_host() {
            return Ok(Self {
                device: device.clone(),
                code: Code::Host(host_compile::load(cubin)?),
            });
        }
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: an ELF image carries its own length; it is copied by the driver.
        check("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&mut raw, cubin.as_ptr().cast())
        })?;
        Ok(Self {
            device: device.clone(),
            code: Code::Gpu(raw),
        })
    }

    /// A kernel by its `extern "C"` name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, CudaError> {
        let entry = match &self.code {
            Code::Gpu(module) => {
                self.device.bind()?;
                let c_name = CString::new(name).unwrap_or_default();
                let mut raw = std::ptr::null_mut();
                // SAFETY: our module, a zero-terminated name.
                check("cuModuleGetFunction", unsafe {
                    sys::cuModuleGetFunction(&mut raw, *module, c_name.as_ptr())
                })
                .map_err(|e| e.about(|| name.to_owned()))?;
                Entry::Gpu(raw)
            }
            Code::Host(library) => {
                Entry::Host(HostKernel::find(library, name).ok_or_else(|| CudaError::Arguments {
                    kernel: name.to_owned(),
                    reason: "the library has no such kernel".to_owned(),
                })?)
            }
        };
        Ok(Kernel {
            module: self,
            name: name.to_owned(),
            entry,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if let Code::Gpu(raw) = self.code
            && self.device.bind().is_ok()
        {
            // SAFETY: loaded in `load`; kernels borrow the module.
            let _ = unsafe { sys::cuModuleUnload(raw) };
        }
    }
}

/// Parameters of a kernel take no more (CUDA C++ Programming Guide, "Kernel parameters": 32,764 bytes).
const MOST_PARAMETER_BYTES: usize = 32768;

#[derive(Debug)]
enum Entry {
    Gpu(sys::CUfunction),
    Host(HostKernel),
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Kernel<'a> {
    module: &'a Module,
    name: String,
    entry: Entry,
}

impl Kernel<'_> {
    /// Starts the kernel. Sizes and number of the arguments are checked where the driver can tell them (CUDA 12.4); that
    /// addresses among them are what the kernel takes them for is the caller's to see to: the GPU checks its own page
    /// tables, and a wrong one ends the context.
    ///
    /// # Errors
    /// Arguments that do not fit, a grid that cannot be launched, or an earlier kernel's failure.
    pub fn launch(&self, stream: &Stream, blocks: u32, threads: u32, args: &mut Args) -> Result<(), CudaError> {
        let raw = match &self.entry {
            Entry::Gpu(raw) => *raw,
            Entry::Host(kernel) => return self.launch_on_host(kernel, stream, blocks * (threads / 32).max(1), args),
        };
        self.module.device.bind()?;
        self.check_arguments(raw, args)?;
        let mut pointers: Vec<*mut c_void> = args.values.iter_mut().map(|(v, _)| v.as_mut_ptr().cast()).collect();
        // A kernel with more parameters than arguments gets zeros: how many it has, the driver tells only by an error.
        let mut zeros = vec![0u128; MOST_PARAMETER_BYTES / 16];
        pointers.resize(pointers.len() + 16, zeros.as_mut_ptr().cast());
        // SAFETY: each argument has its parameter's bytes, by the check, and those left out have zeros; the driver copies them
        // before it returns.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                raw,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                0,
                stream.raw,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
        .map_err(|e| e.about(|| format!("{} with {blocks} blocks of {threads}", self.name)))
    }

    /// On host threads a kernel takes one parameter, and each warp is one lane.
    fn launch_on_host(&self, kernel: &HostKernel, stream: &Stream, warps: u32, args: &Args) -> Result<(), CudaError> {
        let Some(machine) = self.module.device.as_host() else {
            return Err(self.refuse("was compiled for host threads".to_owned()));
        };
        match args.values.as_slice() {
            [(_, bytes)] if *bytes as u64 == kernel.parameter_bytes => {}
            [(_, bytes)] => {
                let takes = kernel.parameter_bytes;
                return Err(self.refuse(format!("parameter 0 has {takes} bytes, not {bytes}")));
            }
            other => return Err(self.refuse(format!("takes one argument on host threads, not {}", other.len()))),
        }
        stream.wait_on_host();
        let arguments = args.values.iter().map(|(words, _)| words.clone()).collect();
        let work = machine.launch(kernel.clone(), warps, arguments)?;
        *stream.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(work);
        Ok(())
    }

    fn refuse(&self, reason: String) -> CudaError {
        CudaError::Arguments {
            kernel: self.name.clone(),
            reason,
        }
    }

    /// Blocks of so many threads that fit a multiprocessor at once.
    ///
    /// # Errors
    /// A failed call.
    pub fn blocks_that_fit(&self, threads: u32) -> Result<u32, CudaError> {
        let Entry::Gpu(raw) = self.entry else { return Ok(1) };
        self.module.device.bind()?;
        let mut blocks = 0;
        // SAFETY: our kernel; `blocks` is writable.
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, raw, threads as i32, 0)
        })?;
        Ok(blocks.max(1) as u32)
    }

    fn check_arguments(&self, raw: sys::CUfunction, args: &Args) -> Result<(), CudaError> {
        if self.module.device.version() < (12, 4) {
            return Ok(());
        }
        for (i, (_, bytes)) in args.values.iter().enumerate() {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: our kernel; an index past the last parameter gives an error.
            let answer = unsafe { sys::cuFuncGetParamInfo(raw, i, &mut offset, &mut size) };
            check("cuFuncGetParamInfo", answer)
                .map_err(|_| self.refuse(format!("takes no more than {i} arguments")))?;
            if size != *bytes {
                return Err(self.refuse(format!("parameter {i} has {size} bytes, not {bytes}")));
            }
        }
        Ok(())
    }
}
