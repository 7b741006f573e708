//! `QueryResources`: streams, pinned memory and scratch memory of one running query. `ResourcePool`: those of queries
//! that have ended, for the next ones.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use grampus_cuda::{CudaError, Device, Stream};
use grampus_driver::raw::HostPages;

use crate::runtime::decoding::decode_lane::DecodeLane;
use crate::runtime::file_io::file_source::DIRECT_GRAIN_BYTES;
use crate::runtime::io_stack::status_block::StatusBlock;
use crate::runtime::memory::group_table_size::GroupTableSize;
use crate::runtime::memory::pinned_ring::{MAX_COPY_BYTES, PinnedRing};
use crate::runtime::memory::query_scratch::QueryScratch;
use crate::runtime::memory::staging_buffer::{StagingBuffer, staging_bytes};
use crate::runtime::paging::fault_buffer::FaultBuffer;
use crate::runtime::paging::page_resources::{PageResources, SLOT_BYTES};
use crate::runtime::runtime_options::RuntimeOptions;
use crate::runtime::transfer::copy_job::MAX_COPY_ROWS;
use crate::runtime::warmup;
use crate::validity;

/// Pages that kernels may miss in one pass, at most: 32 MiB of pinned memory, and an eighth for queries beside the
/// first one. On host threads there are fewer, so that tests exceed the bound.
const MAX_FAULTS: usize = 8 << 20;
const MAX_FAULTS_BESIDE: usize = 1 << 20;
const MAX_FAULTS_ON_HOST_THREADS: usize = 4 << 10;
/// Slots of the rings of queries beside the first one.
const SLOTS_BESIDE: usize = 16;
const PAGE_SLOTS_BESIDE: usize = 8;
/// Bytes of a scratch buffer beside the first query's that is kept, at least. A group table's are kept too.
const MIN_IDLE_BYTES: usize = 64 << 20;
/// Resources that are kept while no query uses them.
const MAX_IDLE: usize = 4;

/// Share of the staging buffer's bytes in which pages wait.
const PAGE_STAGING_SHARE: usize = 4;
/// Share of the device's free memory in which nvCOMP works for one query, and the bytes at least and at most. A chunk
/// of 64 KiB in Zstandard takes 290 KB, and nvCOMP needs thousands of chunks at once to be fast.
const NVCOMP_SHARE: u64 = 32;
const MIN_NVCOMP_BYTES: u64 = 512 << 20;
const MAX_NVCOMP_BYTES: u64 = 4 << 30;

/// Device memory in which a query's bytes wait and are decoded, at most.
#[derive(Debug, Clone, Copy)]
struct DecodingBytes {
    staging: usize,
    /// nvCOMP's for columns. Pages have a lane's share of it beside.
    library: usize,
}

impl DecodingBytes {
    /// `free_bytes`: of device memory when it is opened.
    fn new(free_bytes: u64, options: &RuntimeOptions) -> Self {
        let staging = options.staging_bytes.unwrap_or_else(|| staging_bytes(free_bytes));
        let library = (free_bytes / NVCOMP_SHARE).clamp(MIN_NVCOMP_BYTES, MAX_NVCOMP_BYTES);
        Self {
            staging: staging as usize,
            library: options.nvcomp_bytes.unwrap_or(library) as usize,
        }
    }
}

/// What one query works with. No other query uses it, and no two threads of the query wait for one of its locks.
#[derive(Debug)]
pub(crate) struct QueryResources {
    /// The largest ones, for the query that runs alone.
    is_first: bool,
    pub(crate) compute: Stream,
    pub(crate) copy: Stream,
    pub(crate) ring: Arc<PinnedRing>,
    pub(crate) status: StatusBlock,
    pub(crate) scratch: Mutex<QueryScratch>,
    pub(crate) staging: Mutex<StagingBuffer>,
    pub(crate) decode_lanes: Vec<DecodeLane>,
    pub(crate) pages: PageResources,
}

/// How much pinned memory a query has.
struct PinnedSizes {
    slot_bytes: usize,
    slots: usize,
    page_slots: usize,
    faults: usize,
}

impl PinnedSizes {
    /// `is_first`: for the query that runs alone. `is_host`: on host threads.
    fn new(threads: usize, is_first: bool, is_host: bool) -> Self {
        let (slots, page_slots, faults) = match (is_host, is_first) {
            (true, _) => (4, 2, MAX_FAULTS_ON_HOST_THREADS),
            (false, true) => ((2 * threads).clamp(16, 64), (2 * threads).clamp(8, 32), MAX_FAULTS),
            (false, false) => (SLOTS_BESIDE, PAGE_SLOTS_BESIDE, MAX_FAULTS_BESIDE),
        };
        Self {
            // A slot holds values, a bit of validity for each, and what alignment and whole grains add.
            slot_bytes: (MAX_COPY_BYTES + validity::bytes_of(MAX_COPY_ROWS)) as usize + 2 * DIRECT_GRAIN_BYTES,
            slots,
            page_slots,
            faults,
        }
    }
}

/// Begins to make the pages that the first query's resources pin on a GPU.
pub(crate) fn make_pages(threads: usize) -> Receiver<HostPages> {
    let sizes = PinnedSizes::new(threads, true, false);
    let pieces = PinnedRing::pieces(sizes.slot_bytes, sizes.slots)
        .chain(PinnedRing::pieces(SLOT_BYTES, sizes.page_slots))
        .chain([FaultBuffer::bytes_of(sizes.faults)]);
    warmup::make_pages(pieces.collect())
}

impl QueryResources {
    /// Streams and descriptions; most memory is pinned when it is needed. `is_first`: for the query that runs alone.
    fn new(device: &Device, threads: usize, bytes: DecodingBytes, is_first: bool) -> Result<Self, CudaError> {
        let sizes = PinnedSizes::new(threads, is_first, device.is_host());
        let decode_lanes = DecodeLane::all(device, bytes.library)?;
        let page_bytes = (bytes.staging / PAGE_STAGING_SHARE, bytes.library / decode_lanes.len());
        Ok(Self {
            is_first,
            compute: Stream::new(device)?,
            copy: Stream::new(device)?,
            ring: Arc::new(PinnedRing::new(device, sizes.slot_bytes, sizes.slots)),
            status: StatusBlock::new(device)?,
            scratch: Mutex::new(QueryScratch::new(device)?),
            staging: Mutex::new(StagingBuffer::new(bytes.staging)),
            decode_lanes,
            pages: PageResources::new(device, (sizes.page_slots, sizes.faults), page_bytes.0, page_bytes.1)?,
        })
    }

    /// All streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = &Stream> {
        let lanes = self.decode_lanes.iter().map(|lane| &lane.stream);
        [&self.copy, &self.pages.placing, &self.compute]
            .into_iter()
            .chain(lanes)
    }

    pub(crate) fn scratch(&self) -> MutexGuard<'_, QueryScratch> {
        // A panic ends the device's state.
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn staging(&self) -> MutexGuard<'_, StagingBuffer> {
        // A panic ends the device's state.
        self.staging.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A query begins: the machine may have more memory than it had.
    fn renew(&mut self) {
        self.ring.renew();
        self.pages.renew();
    }

    /// Frees the memory in which bytes wait and are decoded.
    fn free_decoding_memory(&mut self) {
        self.staging().free();
        self.decode_lanes.iter_mut().for_each(|lane| lane.library_memory.free());
        self.pages.free_decoding_memory();
    }

    /// Frees all device memory that is made again when it is needed.
    fn free_device_memory(&mut self) {
        self.scratch().trim(0);
        self.free_decoding_memory();
    }

    /// Frees the pinned memory of slots.
    fn release_slots(&self) {
        self.ring.release();
        self.pages.slots.release();
    }
}

/// The resources that no query uses.
#[derive(Debug)]
pub(crate) struct ResourcePool {
    device: Device,
    threads: usize,
    bytes: DecodingBytes,
    /// Bytes of a scratch buffer beside the first query's that is kept.
    max_idle_bytes: usize,
    /// The first query's come last.
    idle: Mutex<Vec<QueryResources>>,
}

impl ResourcePool {
    /// With the resources of the first query, whose memory is pinned on a thread of its own, if there are pages for it.
    pub(crate) fn new(
        device: &Device,
        threads: usize,
        options: &RuntimeOptions,
        pages: Option<Receiver<HostPages>>,
    ) -> Result<Self, CudaError> {
        let free_bytes = device.facts()?.free_bytes;
        let bytes = DecodingBytes::new(free_bytes, options);
        let first = QueryResources::new(device, threads, bytes, true)?;
        if let Some(pages) = pages {
            warmup::pin([&first.ring, &first.pages.slots], &first.pages.faults, pages);
        }
        Ok(Self {
            device: device.clone(),
            threads,
            bytes,
            max_idle_bytes: MIN_IDLE_BYTES.max(GroupTableSize::max_bytes(free_bytes) as usize),
            idle: Mutex::new(vec![first]),
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<QueryResources>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resources for a query that begins.
    pub(crate) fn take(&self) -> Result<QueryResources, CudaError> {
        let idle = self.idle().pop();
        let mut resources = match idle {
            Some(idle) => idle,
            None => QueryResources::new(&self.device, self.threads, self.bytes, false)?,
        };
        resources.renew();
        Ok(resources)
    }

    /// Frees the device memory of resources that no query uses, for a query that is short of it; of pinned memory too,
    /// if that is short.
    pub(crate) fn free_idle(&self, pinned: bool) {
        let mut idle = std::mem::take(&mut *self.idle());
        for resources in &mut idle {
            resources.free_device_memory();
            if pinned {
                resources.release_slots();
            }
        }
        // Meanwhile others may have come back: the first query's still come last.
        let mut now = self.idle();
        idle.append(&mut now);
        idle.sort_by_key(|resources| resources.is_first);
        *now = idle;
    }

    /// Takes resources back of a query that has ended: nothing of it is in flight.
    pub(crate) fn give_back(&self, mut resources: QueryResources) {
        if !resources.is_first {
            resources.scratch().trim(self.max_idle_bytes);
            resources.free_decoding_memory();
        }
        let mut idle = self.idle();
        let at = if resources.is_first { idle.len() } else { 0 };
        idle.insert(at, resources);
        let gone = (idle.len() > MAX_IDLE).then(|| idle.remove(0));
        drop(idle);
        drop(gone); // freeing memory waits for kernels
    }
}

#[cfg(test)]
mod tests {
    use grampus_cuda::{HostFault, HostFaults, HostOperation};

    use super::*;
    use crate::runtime::memory::query_scratch::ScratchLayout;

    #[test]
    fn resources_are_one_query_s_and_a_few_are_kept() {
        let pool = ResourcePool::new(&Device::host(1, 1 << 24), 2, &RuntimeOptions::default(), None).unwrap();
        let all: Vec<QueryResources> = (0..MAX_IDLE + 2).map(|_| pool.take().unwrap()).collect();
        let status: std::collections::BTreeSet<u64> = all.iter().map(|one| one.status.io().status).collect();
        assert_eq!(status.len(), all.len());
        all.into_iter().for_each(|one| pool.give_back(one));
        assert_eq!(pool.idle().len(), MAX_IDLE);
    }

    #[test]
    fn a_query_finds_rings_of_full_size_and_idle_memory_is_freed_for_one_that_is_short() {
        let faults = Arc::new(HostFaults::default());
        let device = Device::faulty_host(1, 1 << 24, faults.clone());
        let pool = ResourcePool::new(&device, 2, &RuntimeOptions::default(), None).unwrap();
        let slots = |resources: &QueryResources| {
            let taken = std::iter::from_fn(|| resources.ring.try_take(usize::MAX).ok().flatten());
            let taken: Vec<_> = taken.collect();
            let count = taken.len();
            taken.into_iter().for_each(|slot| resources.ring.unused(slot));
            count
        };
        let first = pool.take().unwrap();
        faults.set(Some(HostFault::out_of_memory(HostOperation::Pin, 0)));
        assert_eq!(slots(&first), 1);
        pool.give_back(first);
        let first = pool.take().unwrap();
        assert_eq!(slots(&first), 4);
        let mut layout = ScratchLayout::default();
        layout.zeroed(1 << 20);
        let stream = Stream::new(&device).unwrap();
        first.scratch().give(&layout, &stream).unwrap();
        pool.give_back(first);
        let before = faults.in_use();
        pool.free_idle(false);
        assert_eq!(before.pinned_bytes, faults.in_use().pinned_bytes);
        assert!(faults.in_use().bytes + (1 << 20) < before.bytes);
        pool.free_idle(true);
        assert!(faults.in_use().pinned_bytes < before.pinned_bytes);
        assert!(
            pool.idle().iter().all(|idle| idle.is_first),
            "the first query's are kept"
        );
        assert_eq!(slots(&pool.take().unwrap()), 4);
    }
}
