//! CUDA's driver and runtime compiler as the rest of the crate needs them: the one module that opens `unsafe`, and the one
//! that mentions `cudarc`. It knows memory, streams and kernels; what lies in that memory is its neighbours' business.
//!
//! Libraries are asked for before they are used: `cudarc`'s loaders panic when a library is missing, and absence is a
//! normal answer here.

mod bus;
mod compile;
mod context;
mod host;
mod host_compile;
mod launch;
mod link;
mod mapping;
mod memory;
mod ring;
mod stream;

pub(crate) use bus::rings;
pub use bus::{CudaBus, StagingOptions};
pub use compile::{Compiled, KernelUse, compile, compile_for, compile_kernels, compile_slow_path, compiler_version};
pub use context::{Device, DeviceFacts, driver_version, library, probe};
pub use host_compile::{compile_host, host_compiler};
pub use launch::{Args, Kernel, Module, Plain};
pub use link::link;
pub use mapping::MappedFile;
pub use memory::{DeviceBuffer, PinnedBuffer};
pub use ring::{Part, Pushed, Slot, slots};
pub use stream::{Event, Stream};

use cudarc::driver::sys;

/// Why something that needs the GPU did not work.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CudaError {
    /// libcuda is not there, or there is no GPU behind it.
    #[error("no NVIDIA driver: {0}")]
    NoDriver(String),
    /// NVRTC is not there.
    #[error(
        "no NVRTC (libnvrtc.so): install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, and put its folder on LD_LIBRARY_PATH"
    )]
    NoCompiler,
    /// No C++ compiler for kernels on host threads.
    #[error("no C++ compiler for kernels on host threads: install g++ or clang++, or name one in CXX")]
    NoHostCompiler,
    /// The compiler refused a kernel: a bug of ours, or an architecture that it does not know.
    #[error("{compiler} {call} failed: {log}")]
    Compile {
        /// Which.
        compiler: &'static str,
        /// The function of NVRTC.
        call: &'static str,
        /// What the compiler said.
        log: String,
    },
    /// A call of the driver failed.
    #[error("{call}: {text}{detail}")]
    Call {
        /// The function of the driver.
        call: &'static str,
        /// CUDA's number for the error.
        code: u32,
        /// CUDA's words for it.
        text: String,
        /// What it was about: sizes, names; empty or starting with a separator.
        detail: String,
    },
    /// Kernel and arguments do not fit together.
    #[error("kernel {kernel}: {reason}")]
    Arguments {
        /// Its name.
        kernel: String,
        /// What does not fit.
        reason: String,
    },
    /// A file could not be mapped.
    #[error("{path}: {reason}")]
    File {
        /// Which.
        path: String,
        /// Why.
        reason: String,
    },
}

impl CudaError {
    /// Whether there was too little device or pinned memory, so that less may do.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Call { code, .. } if *code == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32)
    }

    /// Whether the context is dead after it, and everything made in it: a fault of a kernel, or of the device itself (CUDA Driver
    /// API, "CUresult": errors that "leave the process in an inconsistent state").
    pub fn is_sticky(&self) -> bool {
        let Self::Call { code, .. } = self else { return false };
        // 214, 220, 226: ECC and NVLink; 709: the context is gone; 700, 702, 710, 714 – 719: addresses, traps, assertions, time-outs of
        // kernels. Other codes of the 700s are mistakes of the caller that leave the context whole.
        matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719)
    }

    /// Says what the failed call was about.
    fn about(mut self, what: impl FnOnce() -> String) -> Self {
        if let Self::Call { detail, .. } = &mut self {
            *detail = format!(" ({})", what());
        }
        self
    }
}

/// Turns the driver's answer into a result.
fn check(call: &'static str, answer: sys::CUresult) -> Result<(), CudaError> {
    if answer == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let mut text = std::ptr::null();
    // SAFETY: the driver sets `text` to a static string, or leaves it null for a code that it does not know.
    let known = unsafe { sys::cuGetErrorString(answer, &mut text) } == sys::CUresult::CUDA_SUCCESS && !text.is_null();
    let text = if known {
        // SAFETY: a static, zero-terminated string, by the line above.
        unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned()
    } else {
        "unknown error".to_owned()
    };
    Err(CudaError::Call {
        call,
        code: answer as u32,
        text,
        detail: String::new(),
    })
}
