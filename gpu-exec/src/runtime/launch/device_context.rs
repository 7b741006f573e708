//! `DeviceContext`: device, streams, and memory that all launches of a query use.

use grampus_cuda::{Device, Stream};

use crate::decompress::library_memory::LibraryMemory;
use crate::kernel_cache::KernelCache;
use crate::runtime::decoding::decode_lane::DecodeLane;
use crate::runtime::memory::page_staging::PageStaging;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::memory::residency::Residency;
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
    /// Streams in which columns are decoded.
    pub(crate) decode_lanes: &'a [DecodeLane],
    /// Bytes in which nvCOMP works for columns, at most. Pages have a lane's share of it beside.
    pub(crate) library_bytes: usize,
    /// Memory in which the stored bytes of pages wait until they are decoded, and its bytes at most.
    pub(crate) page_staging: (&'a PageStaging, usize),
    /// Memory in which nvCOMP works for pages.
    pub(crate) page_library_memory: &'a LibraryMemory,
    pub(crate) residency: &'a Residency,
    /// Threads that read files and copy.
    pub(crate) threads: usize,
    /// Bytes that are copied between two launches.
    pub(crate) launch_bytes: u64,
    /// Rows of a launch, at most; `None`: by how columns are read.
    pub(crate) launch_rows: Option<u64>,
    /// Bytes of device memory that nothing had taken when the device was opened.
    pub(crate) free_bytes: u64,
}
