//! `CompletionEntry`: a completion queue entry, and its status field.

use std::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A completion queue entry (Base 2.0c §3.3.3.2, figure 90).
///
/// ```text
/// dword 0  command specific      dword 1  command specific (a sequence number in our software controller)
/// dword 2  sqhd (15:0) | sqid (31:16)
/// dword 3  cid (15:0) | phase (16) | status (31:17)
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(16))]
pub struct CompletionEntry {
    /// Command specific.
    pub dw0: u32,
    /// Command specific; reserved for NVM reads.
    pub dw1: u32,
    /// Submission queue head: a physical ring index.
    pub sqhd: u16,
    /// Submission queue id.
    pub sqid: u16,
    /// The command that completed.
    pub cid: u16,
    /// Phase tag in bit 0, status field in bits 15:1.
    pub status_phase: u16,
}

impl CompletionEntry {
    /// A completion of `cid` with this status and phase.
    pub fn new(cid: u16, sqid: u16, sqhd: u16, status: Status, phase: bool) -> Self {
        Self {
            cid,
            sqid,
            sqhd,
            status_phase: status.0 << 1 | u16::from(phase),
            ..Self::default()
        }
    }

    /// The phase tag.
    pub fn phase(&self) -> bool {
        self.status_phase & 1 == 1
    }

    /// The status field.
    pub fn status(&self) -> Status {
        Status(self.status_phase >> 1)
    }
}

/// The 15-bit status field: SC in bits 7:0, SCT in bits 10:8, CRD 12:11, M 13, DNR 14 (Base 2.0c §3.3.3.2.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Status(pub u16);

impl Status {
    /// Successful completion.
    pub const SUCCESS: Self = Self(0);
    const DO_NOT_RETRY: u16 = 1 << 14;

    /// A status of this code; `do_not_retry` tells the host that the same command would fail again.
    pub fn new(code: StatusCode, do_not_retry: bool) -> Self {
        Self(code as u16 | if do_not_retry { Self::DO_NOT_RETRY } else { 0 })
    }

    /// Status code.
    pub fn sc(self) -> u8 {
        self.0 as u8
    }

    /// Status code type: 0 generic, 1 command specific, 2 media and data integrity.
    pub fn sct(self) -> u8 {
        (self.0 >> 8) as u8 & 7
    }

    /// Do not retry.
    pub fn dnr(self) -> bool {
        self.0 & Self::DO_NOT_RETRY != 0
    }

    /// True for status code 0 of type 0.
    pub fn is_success(self) -> bool {
        self.sc() == 0 && self.sct() == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match StatusCode::from_parts(self.sct(), self.sc()) {
            Some(code) => code.name(),
            None => "unknown status",
        };
        write!(
            f,
            "{name} (SCT {:X}h, SC {:02X}h{})",
            self.sct(),
            self.sc(),
            if self.dnr() { ", do not retry" } else { "" }
        )
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

macro_rules! status_codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// Status codes that a controller here gives or understands; the value is SCT << 8 | SC.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        pub enum StatusCode { $($(#[$doc])* $name = $value,)* }

        impl StatusCode {
            /// The code with these parts, if it is a known one.
            pub fn from_parts(sct: u8, sc: u8) -> Option<Self> {
                match u16::from(sct) << 8 | u16::from(sc) {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The specification's name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

status_codes! {
    /// 0/00h.
    Success = 0x000, "Successful Completion";
    /// 0/01h: an opcode that the controller does not have.
    InvalidOpcode = 0x001, "Invalid Command Opcode";
    /// 0/02h: a reserved value, or PRPs where none fit.
    InvalidField = 0x002, "Invalid Field in Command";
    /// 0/03h: a command id that is outstanding.
    CommandIdConflict = 0x003, "Command ID Conflict";
    /// 0/04h: the data transfer failed.
    DataTransferError = 0x004, "Data Transfer Error";
    /// 0/06h: the controller failed.
    InternalError = 0x006, "Internal Error";
    /// 0/07h: aborted on request (shutdown).
    AbortRequested = 0x007, "Command Abort Requested";
    /// 0/08h: aborted because its submission queue was deleted.
    AbortedSqDeletion = 0x008, "Command Aborted due to SQ Deletion";
    /// 0/0Bh: no such namespace.
    InvalidNamespace = 0x00b, "Invalid Namespace or Format";
    /// 0/0Ch: a command out of order.
    CommandSequenceError = 0x00c, "Command Sequence Error";
    /// 0/0Dh: a segment of an SGL that is not allowed here.
    InvalidSglSegment = 0x00d, "Invalid SGL Segment Descriptor";
    /// 0/0Fh: the SGL's length does not fit the command.
    DataSglLengthInvalid = 0x00f, "Data SGL Length Invalid";
    /// 0/11h: a descriptor of an SGL that the controller does not take.
    SglDescriptorTypeInvalid = 0x011, "SGL Descriptor Type Invalid";
    /// 0/13h: a PRP entry with an offset that is not allowed.
    InvalidPrpOffset = 0x013, "PRP Offset Invalid";
    /// 0/80h: blocks beyond the namespace's size.
    LbaOutOfRange = 0x080, "LBA Out of Range";
    /// 0/82h: the namespace cannot answer now.
    NamespaceNotReady = 0x082, "Namespace Not Ready";
    /// 1/00h: the completion queue does not exist.
    CompletionQueueInvalid = 0x100, "Completion Queue Invalid";
    /// 1/01h: the queue id is taken, or not granted.
    InvalidQueueIdentifier = 0x101, "Invalid Queue Identifier";
    /// 1/02h: the number of entries is not allowed.
    InvalidQueueSize = 0x102, "Invalid Queue Size";
    /// 1/05h: more asynchronous event requests than the controller holds.
    AsyncEventLimitExceeded = 0x105, "Asynchronous Event Request Limit Exceeded";
    /// 1/09h: no such log page.
    InvalidLogPage = 0x109, "Invalid Log Page";
    /// 1/0Ch: a completion queue is deleted before its submission queues.
    InvalidQueueDeletion = 0x10c, "Invalid Queue Deletion";
    /// 1/82h: a write to a namespace that takes none.
    ReadOnlyRange = 0x182, "Attempted Write to Read Only Range";
    /// 2/80h: the medium could not be written.
    WriteFault = 0x280, "Write Fault";
    /// 2/81h: the medium could not be read.
    UnrecoveredReadError = 0x281, "Unrecovered Read Error";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_lies_where_the_specification_says() {
        let entry = CompletionEntry::new(0xbeef, 3, 17, Status::new(StatusCode::UnrecoveredReadError, true), true);
        let bytes = entry.as_bytes();
        assert_eq!(bytes[8..10], [17, 0]);
        assert_eq!(bytes[10..12], [3, 0]);
        assert_eq!(bytes[12..14], [0xef, 0xbe]);
        let dword3 = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
        assert_eq!(dword3 >> 16 & 1, 1, "phase is bit 16");
        assert_eq!(dword3 >> 17 & 0xff, 0x81, "SC is bits 24:17");
        assert_eq!(dword3 >> 25 & 7, 2, "SCT is bits 27:25");
        assert_eq!(dword3 >> 31, 1, "DNR is bit 31");
        assert_eq!(
            entry.status().to_string(),
            "Unrecovered Read Error (SCT 2h, SC 81h, do not retry)"
        );
        assert!(!entry.status().is_success());
    }
}
