//! Storages: what answers a read.
//!
//! | storage | bytes come from |
//! | --- | --- |
//! | `CachedFile` | a file through the page cache |
//! | `MappedFile` | a file through its mapping |
//! | `DirectFile` | a file past the page cache |
//! | `WritableFile` | a file through the page cache, which takes writes |
//! | `MemoryStorage` | memory |
//! | `NullStorage` | nowhere, for measuring |
//! | `Striped`, `Replicated` | several storages |
//! | `FaultyStorage` | another storage, with injected faults |
//!
//! A storage is a namespace: a number of logical blocks, rounded up to whole 4 KiB. Bytes between the end of a file and
//! the end of its last 4 KiB read as zeros. Each controller thread opens its own [`Channel`] and keeps many reads in
//! flight on it. `immediate_channel` is that of storages without asynchronous I/O.

mod cached_file;
#[cfg(target_os = "linux")]
mod direct_file;
mod faulty_storage;
mod immediate_channel;
mod mapped_file;
mod memory_storage;
mod null_storage;
mod replicated;
mod striped;
mod writable_file;

use std::fmt;
use std::sync::Arc;

pub use cached_file::CachedFile;
#[cfg(target_os = "linux")]
pub use direct_file::DirectFile;
pub use faulty_storage::{FaultAction, FaultRule, FaultyStorage};
pub(crate) use immediate_channel::ImmediateChannel;
pub use mapped_file::MappedFile;
pub use memory_storage::MemoryStorage;
pub use null_storage::NullStorage;
pub use replicated::Replicated;
pub use striped::Striped;
pub use writable_file::WritableFile;

use crate::error::StorageError;
use crate::raw::HostMemory;

/// Logical block size of a storage, in bytes, unless [it says otherwise](Storage::block_bytes).
pub const BLOCK_BYTES: u64 = 512;
/// A namespace is a multiple of this many bytes long.
pub const NAMESPACE_GRAIN_BYTES: u64 = 4096;

/// A namespace that can be read.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Name for errors: a path, "memory", …
    fn describe(&self) -> String;

    /// Length in bytes, a multiple of [`NAMESPACE_GRAIN_BYTES`].
    fn size_bytes(&self) -> u64;

    /// Bytes of a block, a power of two from [`BLOCK_BYTES`] to [`NAMESPACE_GRAIN_BYTES`]: reads begin and end at
    /// multiples of it.
    fn block_bytes(&self) -> u64 {
        BLOCK_BYTES
    }

    /// Opens a channel for one thread, for `depth` reads in flight.
    ///
    /// # Errors
    /// The file cannot be opened, or a ring cannot be made.
    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError>;

    /// Whether several short reads take the storage no longer than one long read of the same bytes.
    fn suits_short_reads(&self) -> bool {
        false
    }

    /// The way to write; `None`: the storage is read-only.
    fn writer(&self) -> Option<Arc<dyn BlockWriter>> {
        None
    }
}

/// Writes of a storage, which end before they return.
pub trait BlockWriter: Send + Sync + fmt::Debug {
    /// Stores bytes that lie inside the namespace.
    ///
    /// # Errors
    /// The storage's. Any of the bytes may be stored then.
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Makes all writes that have ended durable.
    ///
    /// # Errors
    /// The storage's.
    fn flush(&self) -> Result<(), StorageError>;
}

/// A read: `memory.len()` bytes at `offset_bytes`, both multiples of the storage's block, inside the namespace.
#[derive(Debug)]
pub struct ReadRequest {
    /// Returned with the result.
    pub token: u64,
    /// Position in the namespace.
    pub offset_bytes: u64,
    /// The memory that the bytes go to.
    pub memory: HostMemory,
}

/// A finished read; `memory` holds all the bytes if `result` is `Ok`.
#[derive(Debug)]
pub struct ReadDone {
    /// The request's token.
    pub token: u64,
    /// The request's memory.
    pub memory: HostMemory,
    /// Success, or the error.
    pub result: Result<(), StorageError>,
}

/// Reads in flight for one thread.
pub trait Channel: Send {
    /// Starts a read, or returns it if the channel is full: poll, then try again.
    ///
    /// # Errors
    /// The request itself, unchanged.
    fn start(&mut self, request: ReadRequest) -> Result<(), ReadRequest>;

    /// Appends the reads that have finished since the last call, in any order. Never blocks.
    fn poll(&mut self, done: &mut Vec<ReadDone>);

    /// Reads started and not yet returned by `poll`.
    fn in_flight(&self) -> usize;
}

/// `length` rounded up to a whole namespace.
pub(crate) fn namespace_bytes(length: u64) -> u64 {
    length.next_multiple_of(NAMESPACE_GRAIN_BYTES)
}

/// The block of several storages that are read as one.
fn largest_block(members: &[Box<dyn Storage>]) -> u64 {
    members
        .iter()
        .map(|member| member.block_bytes())
        .max()
        .unwrap_or(BLOCK_BYTES)
}
