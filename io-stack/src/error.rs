//! The crate's errors: [`CudaError`], [`DeviceError`], [`StackError`] and [`BenchError`].
//!
//! [`StackError`] holds the two before it, and [`BenchError`] holds [`StackError`] and [`CudaError`].

use std::fmt;

use grampus_driver::error::{ControllerError, DriverError};

use crate::abi::Status;

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
    pub(crate) fn about(mut self, what: impl FnOnce() -> String) -> Self {
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

/// The reason why device code ended early; the numbers are `StatusCode`'s of `device/status.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A command was submitted; its data did not arrive in time.
    NoCompletion,
    /// No credit, or an entry was not rung, in time.
    NoSubmission,
    /// A completion carried this status field (NVMe Base 2.0c §4.2.3: SC, SCT, …).
    Nvme(u16),
    /// Every way of a set stayed pinned.
    CacheFull,
    /// The host's abort word was set.
    Aborted,
    /// A row or block outside the column.
    Range,
    /// A queue structure held what the protocol forbids.
    Protocol,
    /// A store to a column whose storage or cache takes none.
    ReadOnly,
    /// The NVMe controller has failed, or another agent has disabled it. It is reset.
    Controller,
    /// A number that this version does not know.
    Unknown(u32),
}

impl Reason {
    /// The reason in a status word; `None`: no failure.
    pub fn of(status: &Status) -> Option<Self> {
        Some(match status.code {
            0 => return None,
            1 => Self::NoCompletion,
            2 => Self::NoSubmission,
            3 => Self::Nvme(status.nvme_status as u16),
            4 => Self::CacheFull,
            5 => Self::Aborted,
            6 => Self::Range,
            7 => Self::Protocol,
            8 => Self::ReadOnly,
            other => Self::Unknown(other),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCompletion => write!(f, "a command was sent, and no answer came in time"),
            Self::NoSubmission => write!(f, "no command could be sent in time: all queue entries stay in use"),
            Self::Nvme(status) => write!(
                f,
                "a command failed with NVMe status {:#x} (type {}, code {:#04x})",
                status,
                status >> 8 & 7,
                status & 0xff
            ),
            Self::CacheFull => write!(
                f,
                "the GPU cache is too small for what the query holds at once: give it more memory"
            ),
            Self::Aborted => write!(f, "the query was cancelled"),
            Self::Range => write!(f, "a row outside the column was asked for"),
            Self::Protocol => write!(f, "a queue held what the protocol forbids"),
            Self::ReadOnly => write!(
                f,
                "a store to a storage that takes no writes: open it for writing, and build the stack by Stack::writable"
            ),
            Self::Controller => write!(f, "the NVMe controller answers no more, and is reset"),
            Self::Unknown(code) => write!(f, "device code gave up with unknown status {code}"),
        }
    }
}

/// A kernel ended early.
#[derive(Debug, Clone, thiserror::Error)]
pub struct DeviceError {
    /// The reason.
    pub reason: Reason,
    /// The file or storage concerned, if known.
    pub storage: Option<String>,
    /// Byte position in the storage.
    pub offset: Option<u64>,
    /// NVMe queue, if one was concerned.
    pub queue: Option<u32>,
    /// Command id.
    pub cid: Option<u32>,
    /// Length of the command in bytes.
    pub bytes: u32,
    /// Length of the wait, in ns.
    pub waited_ns: u64,
    /// The controller's last error, in words.
    pub controller: Option<String>,
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(storage) = &self.storage {
            write!(f, "{storage}: ")?;
        }
        write!(f, "{}", self.reason)?;
        let mut details = Vec::new();
        if let Some(offset) = self.offset {
            details.push(match self.bytes {
                0 => format!("at byte {offset}"),
                bytes => format!("{bytes} bytes at byte {offset}"),
            });
        }
        if let Some(queue) = self.queue {
            details.push(format!("queue {queue}"));
        }
        if let Some(cid) = self.cid {
            details.push(format!("command {cid}"));
        }
        if self.waited_ns > 0 {
            details.push(format!("after {:.1} s", self.waited_ns as f64 / 1e9));
        }
        if !details.is_empty() {
            write!(f, " ({})", details.join(", "))?;
        }
        match &self.controller {
            Some(words) => write!(f, ": {words}"),
            None => Ok(()),
        }
    }
}

/// A stack could not be built, or could not answer a query.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A CUDA call failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The controller did not start or stop.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// An NVMe controller made, deleted or had no queue.
    #[error("queues of the NVMe controller: {0}")]
    Nvme(#[from] DriverError),
    /// Kernels drive the queues of one controller at a time.
    #[error("{0} is on another controller than the stack's queues")]
    OtherController(String),
    /// A kernel ended early.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A column lies outside its file.
    #[error("{storage}: {bytes} bytes at byte {offset} lie outside the file of {size}")]
    Outside {
        /// The storage.
        storage: String,
        /// First byte.
        offset: u64,
        /// Length.
        bytes: u64,
        /// The storage's length.
        size: u64,
    },
    /// The launch's warps could pin more lines than the cache has, and might then wait for each other.
    #[error(
        "the GPU cache of {lines} lines is too small for {warps} warps that pin up to {pins} lines each: \
         launch fewer warps, or give it more memory"
    )]
    CacheTooSmall {
        /// Lines of the cache.
        lines: u64,
        /// Warps of the launch.
        warps: u64,
        /// Lines that each warp may pin at once.
        pins: u64,
    },
    /// The cache holds stores that no flush has made durable.
    #[error("{lines} lines of the GPU cache have stores that are not on their storage: flush them first")]
    Unflushed {
        /// Lines with such stores.
        lines: u64,
    },
    /// Stores need bounce slots: each holds a block at least.
    #[error("a writable stack needs bounce slots: set bounce_bytes to 4096 or more")]
    NoBounce,
    /// An earlier failure left commands in flight, which may still write: the stack cannot be used again.
    #[error("the I/O stack is out of service: a storage stalled and still holds its buffers")]
    OutOfService,
}

/// A benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The stack failed.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A CUDA call failed.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The data file could not be written or read.
    #[error("data file: {0}")]
    File(#[from] std::io::Error),
    /// Bytes read differ from what their address says: a defect.
    #[error("{name}: {what}")]
    Wrong {
        /// The benchmark's name.
        name: String,
        /// The finding and the expectation.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_error_names_place_and_reason() {
        assert_eq!(Reason::of(&Status::default()), None);
        let status = Status {
            code: 3,
            nvme_status: 0x281,
            ..Status::default()
        };
        let error = DeviceError {
            reason: Reason::of(&status).unwrap(),
            storage: Some("trips.orc".to_owned()),
            offset: Some(8192),
            queue: Some(2),
            cid: Some(17),
            bytes: 512,
            waited_ns: 0,
            controller: None,
        };
        assert_eq!(
            error.to_string(),
            "trips.orc: a command failed with NVMe status 0x281 (type 2, code 0x81) \
             (512 bytes at byte 8192, queue 2, command 17)"
        );
    }
}
