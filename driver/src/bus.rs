//! The memory that commands point at. A controller on the CPU writes to pinned host memory itself and lets a copy engine
//! push what goes to device memory; whoever owns these memories implements the two traits here.

use crate::raw::HostMemory;

/// Bus addresses to memory. For the software controller a bus address is an address in the GPU's unified address space.
pub trait BusMemory: Send + Sync {
    /// The CPU's handle on `length` bytes at `bus_address`, or `None` if that is not host memory it may write.
    ///
    /// The caller holds it from taking the command until posting its completion; the protocol gives the memory to the
    /// command for that time.
    fn host_memory(&self, bus_address: u64, length: u64) -> Option<HostMemory>;

    /// `entries` addresses of a PRP list at `bus_address`, or `None` if they cannot be read.
    fn prp_list(&self, bus_address: u64, entries: usize) -> Option<Vec<u64>>;

    /// A way to device memory for one controller thread; `None` if there is none.
    ///
    /// # Errors
    /// In words for a person, when staging memory or a stream cannot be had.
    fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String>;
}

/// Staging buffers in pinned memory and the copy engine behind them, for one thread.
pub trait Uploader: Send {
    /// Largest transfer that [`staging`](Self::staging) can hold, in bytes.
    fn staging_bytes(&self) -> usize;

    /// A page-aligned staging buffer of `length` bytes, or `None` while all are in use.
    fn staging(&mut self, length: usize) -> Option<HostMemory>;

    /// Gives back a staging buffer that will not be pushed.
    fn release(&mut self, staged: HostMemory);

    /// Starts copying `staged` to device memory at `bus_address`, which is checked to be device memory of ours.
    fn upload(&mut self, token: u64, staged: HostMemory, bus_address: u64);

    /// Appends copies that have completed: token, and what went wrong if anything did. Never blocks.
    fn poll(&mut self, done: &mut Vec<(u64, Result<(), String>)>);
}
