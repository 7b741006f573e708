//! Streams, events, loaded modules, and launches whose arguments are checked against the kernel.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;

use super::{CudaError, Device, check};
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
}

/// A stream of its own, not synchronised with the default one.
#[derive(Debug)]
pub struct Stream {
    pub(super) device: Device,
    pub(super) raw: sys::CUstream,
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
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, flags) })?;
        Ok(Self {
            device: device.clone(),
            raw,
        })
    }

    /// Waits for everything in it.
    ///
    /// # Errors
    /// What went wrong in a kernel; the context is dead after most of these.
    pub fn synchronize(&self) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY: our stream.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) })
    }

    /// Copies from pinned memory to device memory, in the stream's order; both must live until it is synchronised.
    ///
    /// # Errors
    /// A range outside a buffer, or a failed call.
    pub fn push(
        &self,
        from: &super::PinnedBuffer,
        from_offset: usize,
        to: &super::DeviceBuffer,
        to_offset: usize,
        len: usize,
    ) -> Result<(), CudaError> {
        if from_offset + len > from.len() || to_offset + len > to.len() {
            return Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{len} bytes from {from_offset} to {to_offset}"),
            });
        }
        self.device.bind()?;
        // SAFETY: both ranges are inside live buffers.
        check("cuMemcpyHtoDAsync", unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                to.address() + to_offset as u64,
                (from.address() as usize + from_offset) as *const c_void,
                len,
                self.raw,
            )
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
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
}

// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}

impl Event {
    /// Makes one; `timed` ones can be subtracted.
    ///
    /// # Errors
    /// A failed call.
    pub fn new(device: &Device, timed: bool) -> Result<Self, CudaError> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        let flags = if timed {
            0
        } else {
            sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING as u32
        };
        // SAFETY: a context is current.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags) })?;
        Ok(Self {
            device: device.clone(),
            raw,
        })
    }

    /// Puts it at the end of the stream.
    ///
    /// # Errors
    /// A failed call.
    pub fn record(&self, stream: &Stream) -> Result<(), CudaError> {
        self.device.bind()?;
        // SAFETY: our event and a live stream.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.raw, stream.raw) })
    }

    /// Whether the stream has reached it. Never blocks.
    ///
    /// # Errors
    /// What went wrong before it.
    pub fn reached(&self) -> Result<bool, CudaError> {
        self.device.bind()?;
        // SAFETY: our event.
        match unsafe { sys::cuEventQuery(self.raw) } {
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            answer => check("cuEventQuery", answer).map(|()| true),
        }
    }

    /// Milliseconds from `earlier` to this one; waits for both.
    ///
    /// # Errors
    /// What went wrong before them.
    pub fn ms_since(&self, earlier: &Self) -> Result<f64, CudaError> {
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
        if self.device.bind().is_ok() {
            // SAFETY: made in `new`.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

/// A loaded cubin.
#[derive(Debug)]
pub struct Module {
    device: Device,
    raw: sys::CUmodule,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}

impl Module {
    /// Loads machine code for this device.
    ///
    /// # Errors
    /// Mostly: code for another device.
    pub fn load(device: &Device, cubin: &[u8]) -> Result<Self, CudaError> {
        device.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: an ELF image carries its own length; it is copied by the driver.
        check("cuModuleLoadData", unsafe {
            sys::cuModuleLoadData(&mut raw, cubin.as_ptr().cast())
        })?;
        Ok(Self {
            device: device.clone(),
            raw,
        })
    }

    /// A kernel by its `extern "C"` name.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, CudaError> {
        self.device.bind()?;
        let c_name = CString::new(name).unwrap_or_default();
        let mut raw = std::ptr::null_mut();
        // SAFETY: our module, a zero-terminated name.
        check("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&mut raw, self.raw, c_name.as_ptr())
        })
        .map_err(|e| e.about(|| name.to_owned()))?;
        Ok(Kernel {
            module: self,
            name: name.to_owned(),
            raw,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.bind().is_ok() {
            // SAFETY: loaded in `load`; kernels borrow the module.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

/// Parameters of a kernel take no more (CUDA C++ Programming Guide, "Kernel parameters": 32,764 bytes).
const MOST_PARAMETER_BYTES: usize = 32768;

/// A kernel of a module.
#[derive(Debug)]
pub struct Kernel<'a> {
    module: &'a Module,
    name: String,
    raw: sys::CUfunction,
}

impl Kernel<'_> {
    /// Starts the kernel. Sizes and number of the arguments are checked where the driver can tell them (CUDA 12.4); that
    /// addresses among them are what the kernel takes them for is the caller's to see to: the GPU checks its own page
    /// tables, and a wrong one ends the context.
    ///
    /// # Errors
    /// Arguments that do not fit, a grid that cannot be launched, or an earlier kernel's failure.
    pub fn launch(&self, stream: &Stream, blocks: u32, threads: u32, args: &mut Args) -> Result<(), CudaError> {
        self.module.device.bind()?;
        self.check_arguments(args)?;
        let mut pointers: Vec<*mut c_void> = args.values.iter_mut().map(|(v, _)| v.as_mut_ptr().cast()).collect();
        // A kernel with more parameters than arguments gets zeros: how many it has, the driver tells only by an error.
        let mut zeros = vec![0u128; MOST_PARAMETER_BYTES / 16];
        pointers.resize(pointers.len() + 16, zeros.as_mut_ptr().cast());
        // SAFETY: each argument has its parameter's bytes, by the check, and those left out have zeros; the driver copies them
        // before it returns.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                self.raw,
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

    fn check_arguments(&self, args: &Args) -> Result<(), CudaError> {
        if self.module.device.version() < (12, 4) {
            return Ok(());
        }
        let refuse = |reason| CudaError::Arguments {
            kernel: self.name.clone(),
            reason,
        };
        for (i, (_, bytes)) in args.values.iter().enumerate() {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: our kernel; an index past the last parameter gives an error.
            let answer = unsafe { sys::cuFuncGetParamInfo(self.raw, i, &mut offset, &mut size) };
            check("cuFuncGetParamInfo", answer).map_err(|_| refuse(format!("takes no more than {i} arguments")))?;
            if size != *bytes {
                return Err(refuse(format!("parameter {i} has {size} bytes, not {bytes}")));
            }
        }
        Ok(())
    }
}
