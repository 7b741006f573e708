//! `BusMemory` and `Uploader`: the memory that commands point at. A controller on the CPU writes to pinned host memory
//! itself, and has a copy engine write device memory. The owner of these memories implements both traits.

use crate::raw::HostMemory;

/// Bus addresses to memory. For the software controller, a bus address is an address in the GPU's unified address
/// space.
pub trait BusMemory: Send + Sync {
    /// The CPU's handle on `length` bytes at `bus_address`; `None`: not host memory that it may write.
    ///
    /// The caller holds the handle from taking the command until posting its completion. The protocol gives the memory
    /// to the command for that time.
    fn host_memory(&self, bus_address: u64, length: u64) -> Option<HostMemory>;

    /// `entries` addresses of a PRP list at `bus_address`; `None`: they cannot be read.
    fn prp_list(&self, bus_address: u64, entries: usize) -> Option<Vec<u64>>;

    /// One controller thread's access to device memory; `None`: there is no device memory.
    ///
    /// # Errors
    /// Staging memory or a stream cannot be allocated; the text says why.
    fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String>;
}

/// Staging buffers in pinned memory and the copy engine behind them, for one thread.
pub trait Uploader: Send {
    /// Largest transfer that [`staging`](Self::staging) can hold, in bytes.
    fn staging_bytes(&self) -> usize;

    /// A page-aligned staging buffer of `length` bytes, or `None` while all are in use.
    fn staging(&mut self, length: usize) -> Option<HostMemory>;

    /// Gives back a staging buffer that will not be uploaded.
    fn release(&mut self, staged: HostMemory);

    /// Starts copying `staged` to device memory at `bus_address`. The uploader checks that the address is its device
    /// memory.
    fn upload(&mut self, token: u64, staged: HostMemory, bus_address: u64);

    /// Appends the copies that have completed: token, and the error if the copy failed. Never blocks.
    fn poll(&mut self, done: &mut Vec<(u64, Result<(), String>)>);
}
