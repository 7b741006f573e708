//! The crate's errors: [`CudaError`], [`DeviceError`], [`StackError`] and [`BenchError`].
//!
//! Each of them may hold those before it.

use std::fmt;

use grampus_driver::error::ControllerError;

use crate::abi::Status;

/// `CUDA_ERROR_OUT_OF_MEMORY` of `CUresult` (CUDA Driver API).
pub(crate) const OUT_OF_MEMORY: u32 = 2;

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
        matches!(self, Self::Call { code, .. } if *code == OUT_OF_MEMORY)
    }

    /// Whether the context is dead after it, and everything made in it: a fault of a kernel, or of the device itself (CUDA Driver
    /// API, "CUresult": errors that "leave the process in an inconsistent state").
    pub fn is_sticky(&self) -> bool {
        let Self::Call { code, .. } = self else { return false };
        // 214, 220, 226: ECC and NVLink; 709: the context is gone; 700, 702, 710, 714 – 719: addresses, traps, assertions, time-outs of
        // kernels. Other codes of the 700s are mistakes of the caller that leave the context whole.
        matches!(code, 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719)
    }

    /// Adds to a failed call what it was about.
    pub(crate) fn about(mut self, what: impl FnOnce() -> String) -> Self {
        if let Self::Call { detail, .. } = &mut self {
            *detail = format!(" ({})", what());
        }
        self
    }
}

/// Why device code left early; the numbers are `StatusCode`'s of `device/status.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A command was submitted; its data did not come in time.
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
    /// A structure held what the protocol forbids.
    Protocol,
    /// A number that this version does not know.
    Unknown(u32),
}

impl Reason {
    /// `None`: all is well.
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
            other => Self::Unknown(other),
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCompletion => write!(f, "a read was sent, and no answer came in time"),
            Self::NoSubmission => write!(f, "no read could be sent in time: all queue entries stay in use"),
            Self::Nvme(status) => write!(
                f,
                "a read failed with NVMe status {:#x} (type {}, code {:#04x})",
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
            Self::Unknown(code) => write!(f, "device code gave up with unknown status {code}"),
        }
    }
}

/// A kernel that gave up.
#[derive(Debug, Clone, thiserror::Error)]
pub struct DeviceError {
    /// Why.
    pub reason: Reason,
    /// The file or storage concerned, if known.
    pub storage: Option<String>,
    /// Byte position in it.
    pub offset: Option<u64>,
    /// NVMe queue, if one was concerned.
    pub queue: Option<u32>,
    /// Command id.
    pub cid: Option<u32>,
    /// Length of the command in bytes.
    pub bytes: u32,
    /// How long was waited, in ns.
    pub waited_ns: u64,
    /// What the controller said of it.
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

/// Why a stack could not be built, or a query not be answered.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// CUDA said no.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The controller did not start or stop.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// A kernel gave up.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A column that its file does not hold.
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
    /// A launch whose warps could pin more lines than there are: they might wait for each other.
    #[error(
        "the GPU cache of {lines} lines is too small for {warps} warps that pin up to {pins} lines each: launch fewer warps, or give it more memory"
    )]
    CacheTooSmall {
        /// Lines of the cache.
        lines: u64,
        /// Warps of the launch.
        warps: u64,
        /// Lines that each may pin at once.
        pins: u64,
    },
    /// An earlier failure left commands out that may still write: the stack cannot be used again.
    #[error("the I/O stack is out of service: a storage stalled and still holds its buffers")]
    OutOfService,
}

/// Why a benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The stack said no.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// CUDA said no.
    #[error(transparent)]
    Cuda(#[from] CudaError),
    /// The data file.
    #[error("data file: {0}")]
    File(#[from] std::io::Error),
    /// Bytes were read that are not what their address says: a defect.
    #[error("{name}: {what}")]
    Wrong {
        /// The benchmark.
        name: String,
        /// What was found and expected.
        what: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_where_and_what() {
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
            "trips.orc: a read failed with NVMe status 0x281 (type 2, code 0x81) (512 bytes at byte 8192, queue 2, command 17)"
        );
    }
}
