//! The status word of a kernel that gave up, as an error that names file, offset, command and NVMe status.

use std::fmt;

use crate::layout::Status;

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
