//! `DeviceContext`: device, streams, and memory that all launches of a query use.

use grampus_io_stack::cuda::{Device, Stream};

use crate::codegen::{BLOCK_THREADS, GPU_LANES};
use crate::decompress::library_memory::LibraryMemory;
use crate::kernel_cache::KernelCache;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::paging::fault_buffer::FaultBuffer;

/// The part of the device state that launches borrow.
pub(crate) struct DeviceContext<'a> {
    pub(crate) device: &'a Device,
    pub(crate) compute: &'a Stream,
    pub(crate) copy: &'a Stream,
    pub(crate) ring: &'a PinnedRing,
    /// Slots for pages.
    pub(crate) page_slots: &'a PinnedRing,
    /// The stream in which pages are put in their places.
    pub(crate) placing: &'a Stream,
    pub(crate) faults: &'a FaultBuffer,
    pub(crate) kernels: &'a KernelCache,
    /// Memory in which nvCOMP works, and its bytes at most.
    pub(crate) library_memory: (&'a LibraryMemory, usize),
    /// Threads that read files and copy.
    pub(crate) threads: usize,
    /// Bytes that are copied between two launches.
    pub(crate) launch_bytes: u64,
    /// Rows of a launch, at most; `None`: by how columns are read.
    pub(crate) launch_rows: Option<u64>,
}

/// Blocks on a multiprocessor: the registers of kernels whose warps take tasks are bounded for so many.
const BLOCKS_EACH: u32 = 4;

impl DeviceContext<'_> {
    /// Blocks of a launch of which each warp takes one of so many tasks after the other.
    pub(crate) fn blocks_of_warps(&self, tasks: u32) -> u32 {
        let most = self.device.multiprocessors().max(1) * BLOCKS_EACH;
        tasks.div_ceil(BLOCK_THREADS / GPU_LANES).clamp(1, most)
    }
}
