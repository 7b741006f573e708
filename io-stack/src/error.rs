//! The crate's errors: [`DeviceError`], and [`StackError`], which holds it and [`CudaError`].

use std::fmt;

use grampus_cuda::CudaError;
use grampus_driver::error::{ControllerError, DriverError};

use crate::abi::Status;

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
