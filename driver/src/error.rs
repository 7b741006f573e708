//! The crate's errors: [`PrpError`], [`StorageError`] and [`ControllerError`].

use std::time::Duration;

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

/// A failed read: the status for its completion, and the reason in words.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{storage}: reading {length} bytes at byte {offset}: {reason}")]
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
