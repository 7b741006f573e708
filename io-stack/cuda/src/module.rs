//! `Module`, loaded machine code, and `Kernel`, whose launches check the arguments.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;
use libloading::Library;

use crate::args::Args;
use crate::call::check;
use crate::device::Device;
use crate::error::CudaError;
use crate::gate::HasEnded;
use crate::host_compiler;
use crate::host_faults::HostOperation;
use crate::host_kernel::HostKernel;
use crate::stream::{Event, Stream};

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
    /// By name: the kernels that were looked up.
    entries: Mutex<BTreeMap<String, Entry>>,
}

// SAFETY: modules may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: modules may be used from any thread.
unsafe impl Sync for Module {}

impl Module {
    /// Loads machine code that [`compile_for`](crate::compile_for) made for this device.
    ///
    /// # Errors
    /// Mostly: code for another device.
    pub fn load(device: &Device, cubin: &[u8]) -> Result<Self, CudaError> {
        let code = match device.as_host() {
            Some(machine) => device.gate().call(|| {
                drop(machine.call_alone());
                machine.faults().check(HostOperation::Load)?;
                host_compiler::load(cubin).map(Code::Host)
            })?,
            None => device.gate().call(|| {
                device.bind()?;
                let mut raw = std::ptr::null_mut();
                // SAFETY: an ELF image carries its own length; the driver copies it.
                check("cuModuleLoadData", unsafe {
                    sys::cuModuleLoadData(&mut raw, cubin.as_ptr().cast())
                })
                .map(|()| Code::Gpu(raw))
            })?,
        };
        Ok(Self {
            device: device.clone(),
            code,
            entries: Mutex::default(),
        })
    }

    /// Finds a kernel by its `extern "C"` name.
    ///
    /// # Errors
    /// The module has no kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<Kernel<'_>, CudaError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = match entries.get(name) {
            Some(entry) => entry.clone(),
            None => {
                // The first look-up may load the kernel's code.
                let entry = self.device.gate().call(|| self.entry(name))?;
                entries.insert(name.to_owned(), entry.clone());
                entry
            }
        };
        drop(entries);
        Ok(Kernel {
            module: self,
            name: name.to_owned(),
            entry,
        })
    }

    fn entry(&self, name: &str) -> Result<Entry, CudaError> {
        let code = match &self.code {
            Code::Gpu(module) => {
                self.device.bind()?;
                let c_name = CString::new(name).unwrap_or_default();
                let mut raw = std::ptr::null_mut();
                // SAFETY: our module, a zero-terminated name.
                check("cuModuleGetFunction", unsafe {
                    sys::cuModuleGetFunction(&mut raw, *module, c_name.as_ptr())
                })
                .map_err(|e| e.about(|| name.to_owned()))?;
                EntryCode::Gpu(raw)
            }
            Code::Host(library) => {
                EntryCode::Host(HostKernel::find(library, name).ok_or_else(|| CudaError::Arguments {
                    kernel: name.to_owned(),
                    reason: "the library has no such kernel".to_owned(),
                })?)
            }
        };
        Ok(Entry {
            code,
            is_launched: Arc::default(),
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        let Code::Gpu(raw) = self.code else { return };
        let (device, raw) = (self.device.clone(), raw as usize);
        self.device.gate().give_back(move || {
            if device.bind().is_ok() {
                // SAFETY: loaded in `load`; kernels borrow the module.
                let _ = unsafe { sys::cuModuleUnload(raw as sys::CUmodule) };
            }
        });
    }
}

/// The most that a kernel's parameters may take (CUDA C++ Programming Guide, "Kernel parameters": 32,764 bytes).
const MAX_PARAMETER_BYTES: usize = 32768;

/// A kernel's code, and whether it was launched: the first launch may load code and take memory for local variables.
#[derive(Debug, Clone)]
struct Entry {
    code: EntryCode,
    is_launched: Arc<AtomicBool>,
}

#[derive(Debug, Clone)]
enum EntryCode {
    Gpu(sys::CUfunction),
    Host(HostKernel),
}

/// Dimensions of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Blocks of the launch.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, beside those that the kernel declares itself.
    pub shared_bytes: u32,
}

/// A kernel of a module.
#[derive(Debug)]
pub struct Kernel<'a> {
    module: &'a Module,
    name: String,
    entry: Entry,
}

impl Kernel<'_> {
    /// Starts the kernel. The sizes and the number of the arguments are checked if the driver reports the kernel's
    /// (CUDA 12.4). The caller ensures that addresses among them are valid: the GPU checks its own page tables, and a
    /// wrong address ends the context.
    ///
    /// # Errors
    /// Arguments that do not fit, an impossible grid, or an earlier kernel's failure.
    pub fn launch(&self, stream: &Stream, blocks: u32, threads: u32, args: &mut Args) -> Result<(), CudaError> {
        let grid = Grid {
            blocks,
            threads,
            shared_bytes: 0,
        };
        self.launch_grid(stream, grid, args)
    }

    /// As [`launch`](Self::launch), with shared memory whose size the launch decides.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_grid(&self, stream: &Stream, grid: Grid, args: &mut Args) -> Result<(), CudaError> {
        if self.was_launched() {
            return self.start(stream, grid, args);
        }
        let gate = self.module.device.gate();
        gate.call(|| self.start(stream, grid, args))?;
        self.entry.is_launched.store(true, Ordering::Release);
        Ok(())
    }

    /// As [`launch_grid`](Self::launch_grid), for a kernel that waits for threads of the host. Until it has ended, no
    /// call of the driver is made that waits for kernels: such a call would keep those threads from copying.
    ///
    /// # Errors
    /// As [`launch`](Self::launch).
    pub fn launch_waiting(&self, stream: &Stream, grid: Grid, args: &mut Args) -> Result<(), CudaError> {
        let device = &self.module.device;
        let event = Event::new(device, false)?;
        device.gate().launch(!self.was_launched(), || {
            self.start(stream, grid, args)?;
            event.record(stream)?;
            // A failure has ended the launch, too.
            Ok::<HasEnded, CudaError>(Box::new(move || event.reached().unwrap_or(true)))
        })?;
        self.entry.is_launched.store(true, Ordering::Release);
        Ok(())
    }

    fn was_launched(&self) -> bool {
        self.entry.is_launched.load(Ordering::Acquire)
    }

    fn start(&self, stream: &Stream, grid: Grid, args: &mut Args) -> Result<(), CudaError> {
        let Grid {
            blocks,
            threads,
            shared_bytes,
        } = grid;
        let raw = match &self.entry.code {
            EntryCode::Gpu(raw) => *raw,
            EntryCode::Host(kernel) => {
                return self.launch_on_host(kernel, stream, blocks * (threads / 32).max(1), args);
            }
        };
        self.module.device.bind()?;
        self.check_arguments(raw, args)?;
        allow_shared(raw, shared_bytes)?;
        let mut pointers: Vec<*mut c_void> = args.values.iter_mut().map(|(v, _)| v.as_mut_ptr().cast()).collect();
        // A kernel with more parameters than arguments gets zeros: the driver reports the number of parameters only by
        // an error.
        let mut zeros = vec![0u128; MAX_PARAMETER_BYTES / 16];
        pointers.resize(pointers.len() + 16, zeros.as_mut_ptr().cast());
        // SAFETY: the check ensures that each argument has its parameter's bytes. Missing arguments are zeros. The
        // driver copies all of them before it returns.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                raw,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
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
        let arguments = args.values.iter().map(|(words, _)| words.clone()).collect();
        if !self.was_launched() {
            drop(machine.call_alone());
        }
        // The lock is held throughout: launches of several threads follow one another, as in any stream.
        let mut last = stream.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = last.take() {
            work.wait();
        }
        *last = Some(machine.launch(kernel.clone(), warps, arguments)?);
        Ok(())
    }

    fn refuse(&self, reason: String) -> CudaError {
        CudaError::Arguments {
            kernel: self.name.clone(),
            reason,
        }
    }

    /// Number of blocks of so many threads, and so many bytes of shared memory beside what the kernel declares, that
    /// fit on a multiprocessor at once.
    ///
    /// # Errors
    /// A failed call.
    pub fn blocks_that_fit(&self, threads: u32, shared_bytes: u32) -> Result<u32, CudaError> {
        let EntryCode::Gpu(raw) = self.entry.code else {
            return Ok(1);
        };
        self.module.device.bind()?;
        allow_shared(raw, shared_bytes)?;
        let mut blocks = 0;
        // SAFETY: our kernel; `blocks` is writable.
        check("cuOccupancyMaxActiveBlocksPerMultiprocessor", unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, raw, threads as i32, shared_bytes as usize)
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

/// Lets launches of a kernel have so many bytes of shared memory, and gives shared memory all that L1 does not need.
fn allow_shared(raw: sys::CUfunction, shared_bytes: u32) -> Result<(), CudaError> {
    use sys::CUfunction_attribute as Attribute;
    if shared_bytes == 0 {
        return Ok(());
    }
    let attributes = [
        (
            Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
            shared_bytes as i32,
        ),
        (Attribute::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
    ];
    for (attribute, value) in attributes {
        // SAFETY: a kernel of a loaded module.
        let answer = unsafe { sys::cuFuncSetAttribute(raw, attribute, value) };
        check("cuFuncSetAttribute", answer)
            .map_err(|e| e.about(|| format!("{shared_bytes} bytes of shared memory")))?;
    }
    Ok(())
}
