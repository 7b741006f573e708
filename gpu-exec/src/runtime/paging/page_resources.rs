//! `PageResources`: stream, pinned memory and staging memory of a query's pages. Columns that are loaded whole have
//! theirs beside.

use std::sync::Arc;

use grampus_cuda::{CudaError, Device, Stream};

use crate::abi::paging::{PAGE_BYTES, PageMove};
use crate::decompress::library_memory::LibraryMemory;
use crate::runtime::memory::page_staging::PageStaging;
use crate::runtime::memory::pinned_ring::PinnedRing;
use crate::runtime::paging::fault_buffer::FaultBuffer;

/// Raw pages of a batch, which one thread reads. The pass ends when its last batch has been read, and a page takes
/// about a microsecond.
pub(crate) const BATCH_PAGES: usize = 2 << 10;
/// Bytes of a slot.
pub(crate) const SLOT_BYTES: usize = BATCH_PAGES * (PAGE_BYTES as usize + size_of::<PageMove>());

/// What loads pages.
#[derive(Debug)]
pub(crate) struct PageResources {
    /// The stream in which pages are decoded, and put in their places.
    pub(crate) placing: Stream,
    /// Slots of [`SLOT_BYTES`].
    pub(crate) slots: Arc<PinnedRing>,
    pub(crate) faults: Arc<FaultBuffer>,
    pub(crate) staging: PageStaging,
    pub(crate) library_memory: LibraryMemory,
}

impl PageResources {
    /// With so many slots, entries of the fault buffer, and bytes of staging memory and of nvCOMP's, at most.
    pub(crate) fn new(
        device: &Device,
        (slots, faults): (usize, usize),
        staging_bytes: usize,
        library_bytes: usize,
    ) -> Result<Self, CudaError> {
        Ok(Self {
            placing: Stream::new(device)?,
            slots: Arc::new(PinnedRing::new(device, SLOT_BYTES, slots)),
            faults: Arc::new(FaultBuffer::new(device, faults)),
            staging: PageStaging::new(staging_bytes),
            library_memory: LibraryMemory::new(library_bytes),
        })
    }

    /// A query begins: the machine may have more memory than it had.
    pub(crate) fn renew(&mut self) {
        self.slots.renew();
        self.staging.renew();
    }

    /// Frees the memory in which bytes wait and are decoded.
    pub(crate) fn free_decoding_memory(&mut self) {
        self.staging.free();
        self.library_memory.free();
    }
}
