//! The crate's errors: [`PrpError`], [`StorageError`], [`ControllerError`] and [`DriverError`].

use std::fmt;
use std::time::Duration;

use crate::spec::AdminOpcode;
use crate::spec::Opcode;
use crate::spec::Status;
use crate::spec::StatusCode;

/// PRPs that name no memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PrpError {
    /// PRP1 must be dword aligned.
    #[error("PRP1 {0:#x} is not dword aligned")]
    Unaligned(u64),
    /// All entries after the first must be page aligned.
    #[error("PRP entry {0:#x} is not page aligned")]
    Offset(u64),
    /// The list could not be read.
    #[error("PRP list at {0:#x} cannot be read")]
    List(u64),
}

/// A failed read, write or flush: the status for its completion, and the reason in words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{storage}: {length} bytes at byte {offset}: {reason}")]
pub struct StorageError {
    /// The storage, as [`Storage::describe`](crate::storage::Storage::describe) names it.
    pub storage: String,
    /// First byte asked for.
    pub offset: u64,
    /// Bytes asked for.
    pub length: u64,
    /// The reason.
    pub reason: String,
    /// The NVMe status for the completion.
    pub code: StatusCode,
}

/// A controller that did not start or rest.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A storage, a staging buffer or a thread could not be opened or allocated.
    #[error("cannot start the storage controller: {0}")]
    Start(String),
    /// Reads were still in flight after the time allowed: their memory must not be reused.
    #[error("the storage controller did not come to rest within {0:?}: a storage stalls; its buffers stay reserved")]
    Stalled(Duration),
}

/// A command, as errors name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandName {
    /// Opcode; of the admin command set in queue 0.
    pub opcode: u8,
    /// Queue id.
    pub qid: u16,
    /// Command id on the wire.
    pub cid: u16,
    /// Namespace id.
    pub nsid: u32,
    /// Starting LBA of an I/O command.
    pub slba: u64,
    /// Number of logical blocks of an I/O command.
    pub blocks: u32,
}

impl fmt::Display for CommandName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let admin = AdminOpcode::from_u8(self.opcode).filter(|_| self.qid == 0);
        let io = Opcode::from_u8(self.opcode).filter(|_| self.qid != 0);
        match (admin, io) {
            (Some(opcode), _) => write!(f, "{}", opcode.name())?,
            (_, Some(Opcode::Flush)) => write!(f, "flush of namespace {}", self.nsid)?,
            (_, Some(opcode)) => write!(
                f,
                "{} of {} blocks at LBA {} of namespace {}",
                opcode.name(),
                self.blocks,
                self.slba,
                self.nsid
            )?,
            (None, None) => write!(f, "command with opcode {:02X}h at LBA {}", self.opcode, self.slba)?,
        }
        write!(f, " (queue {}, command id {:#x})", self.qid, self.cid)
    }
}

/// A failure of the driver or of the controller that it drives.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The pool has too few free pages, or too few that follow each other.
    #[error("no {length_bytes} bytes of DMA memory are free: use smaller queues or a larger pool")]
    OutOfDmaMemory {
        /// Bytes asked for.
        length_bytes: usize,
    },
    /// A range outside its buffer.
    #[error("{length_bytes} bytes at {offset} do not lie inside a buffer of {buffer_bytes} bytes")]
    BufferRange {
        /// First byte.
        offset: usize,
        /// Bytes.
        length_bytes: usize,
        /// Bytes of the buffer.
        buffer_bytes: usize,
    },
    /// Data that no data pointer can name.
    #[error(
        "data of {length_bytes} bytes from offset {offset_bytes} does not fit {pages} pages: offsets are multiples of \
         4 below 4,096, and pages multiples of 4,096"
    )]
    BusRange {
        /// Offset in the first page.
        offset_bytes: usize,
        /// Bytes.
        length_bytes: usize,
        /// Number of pages.
        pages: usize,
    },
    /// Registers read as all ones.
    #[error("the controller has gone: its registers read as all ones")]
    Removed,
    /// CSTS.CFS.
    #[error("the controller reports a fatal error (CSTS {csts:#x}) {during}: reset it")]
    Fatal {
        /// The status register.
        csts: u32,
        /// What the driver did.
        during: String,
    },
    /// CSTS did not follow CC within CAP.TO.
    #[error("the controller did not become {wanted} within {waited:?} (CSTS {csts:#x})")]
    Stuck {
        /// The state that was waited for.
        wanted: &'static str,
        /// CAP.TO, or the time of a shutdown.
        waited: Duration,
        /// The status register.
        csts: u32,
    },
    /// The controller or a namespace lacks what the driver needs.
    #[error("the controller cannot be driven: {0}")]
    Unsupported(String),
    /// A command ended with an error status.
    #[error("{command}: {status}")]
    Command {
        /// The command.
        command: CommandName,
        /// Its status.
        status: Status,
    },
    /// A command did not end in time. Its memory stays reserved until the controller is reset.
    #[error("{command} did not end within {waited:?}: reset the controller")]
    Timeout {
        /// The oldest command without a completion.
        command: CommandName,
        /// The bound.
        waited: Duration,
    },
    /// No command slot is free.
    #[error("queue {qid} is full: all its {slots} commands are outstanding")]
    QueueFull {
        /// Queue id.
        qid: u16,
        /// Entries less one.
        slots: u32,
    },
    /// The controller was reset, shut down or closed, and the queue with it.
    #[error("queue {qid} is gone: the controller was reset")]
    QueueGone {
        /// Queue id.
        qid: u16,
    },
    /// No command is outstanding, so none can be waited for.
    #[error("queue {qid} has no outstanding command to wait for")]
    NothingOutstanding {
        /// Queue id.
        qid: u16,
    },
    /// More queues than the controller granted.
    #[error("the controller granted {granted} I/O queues, and all are in use")]
    NoQueue {
        /// Number of queue pairs granted.
        granted: u16,
    },
    /// A depth that the controller does not take.
    #[error("a queue of {entries} entries: the controller takes 2 to {max}")]
    QueueSize {
        /// Entries asked for.
        entries: u32,
        /// CAP.MQES + 1.
        max: u32,
    },
    /// Blocks outside the namespace.
    #[error("{blocks} blocks at LBA {slba} do not lie inside namespace {nsid} of {size} blocks")]
    BlockRange {
        /// Namespace id.
        nsid: u32,
        /// First block.
        slba: u64,
        /// Number of blocks.
        blocks: u32,
        /// Blocks of the namespace.
        size: u64,
    },
    /// Data whose length is not that of the blocks, or over MDTS.
    #[error("{length_bytes} bytes of data for {blocks} blocks of {block_bytes} bytes (at most {max_bytes} a command)")]
    DataLength {
        /// Bytes of data.
        length_bytes: usize,
        /// Number of blocks.
        blocks: u32,
        /// Bytes of a block.
        block_bytes: u64,
        /// MDTS in bytes.
        max_bytes: u64,
    },
    /// A memory, a device file or an ioctl.
    #[error("{what}: {source}")]
    System {
        /// What failed.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl DriverError {
    /// Whether a command ended with this status.
    pub(crate) fn is_status(&self, code: StatusCode) -> bool {
        matches!(self, Self::Command { status, .. } if StatusCode::from_parts(status.sct(), status.sc()) == Some(code))
    }
}
