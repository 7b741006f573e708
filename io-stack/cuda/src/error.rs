//! [`CudaError`]: failures of CUDA's driver and compiler, of nvCOMP, and of their stand-ins on host threads.

/// `CUDA_ERROR_OUT_OF_MEMORY` of `CUresult` (CUDA Driver API).
pub(crate) const OUT_OF_MEMORY: u32 = 2;

/// A failure of something that needs the GPU.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CudaError {
    /// libcuda is missing, or sees no GPU.
    #[error("no NVIDIA driver: {0}")]
    NoDriver(String),
    /// There is no GPU of this number or UUID.
    #[error("there is no GPU {asked}; {present}; set grampus.gpu to one of them")]
    NoGpu {
        /// The number, or the UUID.
        asked: String,
        /// The GPUs that there are.
        present: String,
    },
    /// NVRTC is missing.
    #[error(
        "no NVRTC (libnvrtc.so): install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, \
         and put its folder on LD_LIBRARY_PATH"
    )]
    NoCompiler,
    /// No C++ compiler for kernels on host threads.
    #[error("no C++ compiler for kernels on host threads: install g++ or clang++, or name one in CXX")]
    NoHostCompiler,
    /// nvCOMP is missing, or cannot be used.
    #[error(
        "no nvCOMP ({0}): `pip install nvidia-libnvcomp-cu13==5.3.*`, \
         and name its file libnvcomp.so.5 in GRAMPUS_NVCOMP"
    )]
    NoNvcomp(String),
    /// A call of nvCOMP failed.
    #[error("{call}: nvcompStatus_t {status}")]
    Nvcomp {
        /// The function of nvCOMP.
        call: &'static str,
        /// nvCOMP's number for the error.
        status: i32,
    },
    /// The compiler rejected a kernel: a defect of ours, or an architecture that the compiler does not know.
    #[error("{compiler} {call} failed: {log}")]
    Compile {
        /// The compiler.
        compiler: &'static str,
        /// The function of NVRTC.
        call: &'static str,
        /// The compiler's output.
        log: String,
    },
    /// A call of the driver failed.
    #[error("{call}: {text}{detail}{}", advice(*code))]
    Call {
        /// The function of the driver.
        call: &'static str,
        /// CUDA's number for the error.
        code: u32,
        /// CUDA's text for the error.
        text: String,
        /// The object of the call: sizes, names; empty or starting with a separator.
        detail: String,
    },
    /// Kernel and arguments do not fit together.
    #[error("kernel {kernel}: {reason}")]
    Arguments {
        /// The kernel's name.
        kernel: String,
        /// The mismatch.
        reason: String,
    },
    /// A file could not be mapped.
    #[error("{path}: {reason}")]
    File {
        /// The file's path.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl CudaError {
    /// Whether device or pinned memory ran out, so that a smaller amount may succeed.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Call { code, .. } if *code == OUT_OF_MEMORY)
    }

    /// Whether host memory could not be pinned, or made in order to be pinned.
    pub fn is_about_pinning(&self) -> bool {
        let calls = ["cuMemHostRegister", "cuMemHostAlloc", "mmap"];
        matches!(self, Self::Call { call, .. } if calls.contains(call))
    }

    /// Whether the failure killed the context and everything made in it: a fault of a kernel or of the device. These
    /// are the errors that "leave the process in an inconsistent state" (CUDA Driver API, "CUresult").
    pub fn is_sticky(&self) -> bool {
        matches!(self, Self::Call { code, .. } if is_sticky(*code))
    }

    /// Adds to a failed call what the call was about.
    pub fn about(mut self, what: impl FnOnce() -> String) -> Self {
        if let Self::Call { detail, .. } = &mut self {
            *detail = format!(" ({})", what());
        }
        self
    }
}

/// Whether a code of CUDA is one of [`CudaError::is_sticky`].
fn is_sticky(code: u32) -> bool {
    // 214, 220, 226: ECC and NVLink. 709: the context is gone. 700, 702, 710, 714 – 719: addresses, traps, assertions,
    // time-outs of kernels. Other codes of the 700s are mistakes of the caller that leave the context whole.
    matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719)
}

/// The way out of an error that the driver remembers: no call succeeds after it, and no new context is given
/// (docs/experiments/0041).
fn advice(code: u32) -> &'static str {
    if is_sticky(code) {
        "; restart this process to use the GPU again"
    } else {
        ""
    }
}
