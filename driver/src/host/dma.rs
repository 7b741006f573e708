//! `DmaMemory`, `DmaPool` and `DmaBuffer`: memory that the host and a device share, with a bus address for each page.
//!
//! Pages that follow each other in a buffer need not follow each other on the bus: under an IOMMU, in another device's
//! BAR, or in a guest, each page has its own address. Only queues ask for contiguous pages.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::bus::{BusMemory, Uploader};
use crate::error::DriverError;
use crate::raw::{HostMemory, SharedMemory};
use crate::spec::PAGE_BYTES;

const PAGE: usize = PAGE_BYTES as usize;

/// Memory of whole 4 KiB pages that a device can reach.
pub trait DmaMemory: Send + Sync + fmt::Debug {
    /// Number of pages.
    fn pages(&self) -> usize;

    /// The address by which the device reaches a page, a multiple of 4,096.
    fn bus_address(&self, page: usize) -> u64;

    /// The memory as the host reaches it.
    fn memory(&self) -> &SharedMemory;
}

/// Host memory whose pages lie in order on the bus, or at an address of each page's own.
#[derive(Debug)]
pub struct MappedMemory {
    memory: SharedMemory,
    /// By page.
    bus: Vec<u64>,
    /// Pages by bus address.
    by_bus: HashMap<u64, usize>,
}

impl MappedMemory {
    /// Memory whose first byte has `bus_address`, and the others follow.
    ///
    /// # Panics
    /// If the address or the length is not a multiple of 4,096.
    pub fn linear(memory: SharedMemory, bus_address: u64) -> Self {
        let bus = (0..memory.len() / PAGE).map(|page| bus_address + (page * PAGE) as u64);
        Self::paged(bus.collect(), memory)
    }

    /// Memory with a bus address for each page.
    ///
    /// # Panics
    /// If the memory does not consist of as many pages, or an address is not a multiple of 4,096.
    pub fn paged(bus: Vec<u64>, memory: SharedMemory) -> Self {
        assert_eq!(bus.len() * PAGE, memory.len(), "an address for each page");
        assert!(bus.iter().all(|b| b.is_multiple_of(PAGE_BYTES)), "pages are aligned");
        let by_bus = bus.iter().enumerate().map(|(page, bus)| (*bus, page)).collect();
        Self { memory, bus, by_bus }
    }

    fn page_at(&self, bus_address: u64) -> Option<usize> {
        self.by_bus.get(&(bus_address / PAGE_BYTES * PAGE_BYTES)).copied()
    }
}

impl BusMemory for MappedMemory {
    fn host_memory(&self, bus_address: u64, length: u64) -> Option<HostMemory> {
        let length = usize::try_from(length).ok()?;
        let page = self.page_at(bus_address)?;
        let within = (bus_address % PAGE_BYTES) as usize;
        // Bytes that follow each other on the bus must do so for the host.
        let pages = within.checked_add(length)?.div_ceil(PAGE);
        for i in 0..pages {
            let wanted = (bus_address - within as u64).checked_add((i * PAGE) as u64)?;
            if self.bus.get(page + i) != Some(&wanted) {
                return None;
            }
        }
        self.memory.lend(page * PAGE + within, length)
    }

    fn prp_list(&self, bus_address: u64, entries: usize) -> Option<Vec<u64>> {
        let mut memory = self.host_memory(bus_address, entries as u64 * 8)?;
        let words = memory.bytes_mut().chunks_exact(8);
        Some(
            words
                .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
                .collect(),
        )
    }

    fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String> {
        Ok(None)
    }
}

impl DmaMemory for MappedMemory {
    fn pages(&self) -> usize {
        self.bus.len()
    }

    fn bus_address(&self, page: usize) -> u64 {
        self.bus[page]
    }

    fn memory(&self) -> &SharedMemory {
        &self.memory
    }
}

/// The pages of a memory, given out and taken back.
#[derive(Debug)]
pub struct DmaPool {
    memory: Arc<dyn DmaMemory>,
    /// By page: in use.
    used: Mutex<Vec<bool>>,
}

impl DmaPool {
    /// A pool of all pages of `memory`.
    pub fn new(memory: Arc<dyn DmaMemory>) -> Arc<Self> {
        let used = Mutex::new(vec![false; memory.pages()]);
        Arc::new(Self { memory, used })
    }

    /// The memory of the pool.
    pub fn memory(&self) -> &Arc<dyn DmaMemory> {
        &self.memory
    }

    /// A zeroed buffer of at least `length_bytes`, of any free pages.
    ///
    /// # Errors
    /// [`DriverError::OutOfDmaMemory`].
    pub fn allocate(self: &Arc<Self>, length_bytes: usize) -> Result<DmaBuffer, DriverError> {
        let count = length_bytes.div_ceil(PAGE).max(1);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // The highest pages first: low neighbours stay together for queues.
        let pages: Vec<usize> = (0..used.len()).rev().filter(|page| !used[*page]).take(count).collect();
        if pages.len() < count {
            return Err(DriverError::OutOfDmaMemory { length_bytes });
        }
        pages.iter().for_each(|page| used[*page] = true);
        drop(used);
        Ok(self.buffer(pages))
    }

    /// A zeroed buffer of at least `length_bytes` whose pages follow each other for the host and on the bus.
    ///
    /// # Errors
    /// [`DriverError::OutOfDmaMemory`].
    pub fn allocate_contiguous(self: &Arc<Self>, length_bytes: usize) -> Result<DmaBuffer, DriverError> {
        let count = length_bytes.div_ceil(PAGE).max(1);
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = 0;
        for page in 0..used.len() {
            let follows = page == first
                || self.memory.bus_address(page).checked_sub(PAGE_BYTES) == Some(self.memory.bus_address(page - 1));
            if used[page] {
                first = page + 1;
            } else if !follows {
                first = page;
            }
            if page + 1 - first == count && !used[page] {
                used[first..=page].fill(true);
                drop(used);
                return Ok(self.buffer((first..=page).collect()));
            }
        }
        Err(DriverError::OutOfDmaMemory { length_bytes })
    }

    /// Number of pages that no buffer has.
    pub fn free_pages(&self) -> usize {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.iter().filter(|used| !**used).count()
    }

    fn buffer(self: &Arc<Self>, pages: Vec<usize>) -> DmaBuffer {
        let buffer = DmaBuffer(Arc::new(Pages {
            pool: self.clone(),
            pages,
        }));
        buffer.fill(0);
        buffer
    }
}

#[derive(Debug)]
struct Pages {
    pool: Arc<DmaPool>,
    pages: Vec<usize>,
}

impl Drop for Pages {
    fn drop(&mut self) {
        let mut used = self.pool.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.pages.iter().for_each(|page| used[*page] = false);
    }
}

/// Pages of a pool. Clones share the pages, which return to the pool with the last of them.
#[derive(Debug, Clone)]
pub struct DmaBuffer(Arc<Pages>);

impl DmaBuffer {
    /// Length in bytes, whole pages.
    pub fn len(&self) -> usize {
        self.0.pages.len() * PAGE
    }

    /// False: a buffer has a page at least.
    pub fn is_empty(&self) -> bool {
        self.0.pages.is_empty()
    }

    /// The bus address of the byte at an offset.
    ///
    /// # Panics
    /// If the offset lies outside the buffer.
    pub fn bus_address(&self, offset: usize) -> u64 {
        self.0.pool.memory.bus_address(self.0.pages[offset / PAGE]) + (offset % PAGE) as u64
    }

    /// The bus addresses of `length_bytes` bytes from `offset` on, as a command's data.
    ///
    /// # Errors
    /// [`DriverError::BufferRange`] if they do not lie inside the buffer.
    pub fn range(&self, offset: usize, length_bytes: usize) -> Result<BusRange, DriverError> {
        let end = offset.checked_add(length_bytes);
        if length_bytes == 0 || end.is_none_or(|end| end > self.len()) {
            return Err(DriverError::BufferRange {
                offset,
                length_bytes,
                buffer_bytes: self.len(),
            });
        }
        let pages = offset / PAGE..(offset + length_bytes).div_ceil(PAGE);
        Ok(BusRange {
            pages: pages.map(|page| self.bus_address(page * PAGE)).collect(),
            offset_bytes: offset % PAGE,
            length_bytes,
            owner: Some(self.clone()),
        })
    }

    /// Copies bytes out.
    ///
    /// # Panics
    /// If they do not lie inside the buffer.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let mut done = 0;
        while done < out.len() {
            let (at, run) = self.place(offset + done, out.len() - done);
            self.memory().read(at, &mut out[done..done + run]);
            done += run;
        }
    }

    /// The bytes at an offset, copied.
    ///
    /// # Panics
    /// If they do not lie inside the buffer.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        let mut out = vec![0; length];
        self.read(offset, &mut out);
        out
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If they do not lie inside the buffer.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let (at, run) = self.place(offset + done, bytes.len() - done);
            self.memory().write(at, &bytes[done..done + run]);
            done += run;
        }
    }

    /// Sets every byte.
    pub fn fill(&self, byte: u8) {
        for page in 0..self.0.pages.len() {
            self.write(page * PAGE, &[byte; PAGE]);
        }
    }

    /// The word at an offset, with acquire.
    ///
    /// # Panics
    /// If it is not aligned, or does not lie inside the buffer.
    pub fn load_acquire(&self, offset: usize) -> u32 {
        let (at, _) = self.place(offset, 4);
        self.memory().load_acquire(at)
    }

    /// The host's address of the first byte. The other bytes of a contiguous buffer follow.
    pub fn host_address(&self) -> *mut u8 {
        self.memory().address().wrapping_add(self.place(0, 1).0)
    }

    fn memory(&self) -> &SharedMemory {
        self.0.pool.memory.memory()
    }

    /// Offset in the memory of a byte of the buffer, and how many of `length` bytes follow it in its page.
    fn place(&self, offset: usize, length: usize) -> (usize, usize) {
        let run = (PAGE - offset % PAGE).min(length);
        (self.0.pages[offset / PAGE] * PAGE + offset % PAGE, run)
    }
}

/// Memory of a command's data: bytes from `offset_bytes` of the first page on, page after page.
#[derive(Debug, Clone)]
pub struct BusRange {
    /// Bus address of each page, multiples of 4,096.
    pub pages: Vec<u64>,
    /// Offset of the first byte in the first page, below 4,096.
    pub offset_bytes: usize,
    /// Number of bytes.
    pub length_bytes: usize,
    /// Keeps the pages from their pool while a command names them; `None`: they belong to another device.
    pub(super) owner: Option<DmaBuffer>,
}

impl BusRange {
    /// Pages of another device, or of the caller, that outlive the commands.
    pub fn paged(pages: Vec<u64>, offset_bytes: usize, length_bytes: usize) -> Self {
        Self {
            pages,
            offset_bytes,
            length_bytes,
            owner: None,
        }
    }

    /// Bytes that follow each other on the bus, as in another device's BAR.
    pub fn contiguous(bus_address: u64, length_bytes: usize) -> Self {
        let (first, offset_bytes) = (
            bus_address / PAGE_BYTES * PAGE_BYTES,
            (bus_address % PAGE_BYTES) as usize,
        );
        let count = (offset_bytes + length_bytes).div_ceil(PAGE) as u64;
        let pages = (0..count).map(|i| first + i * PAGE_BYTES).collect();
        Self::paged(pages, offset_bytes, length_bytes)
    }

    /// A part of the bytes.
    ///
    /// # Panics
    /// If it does not lie inside the range.
    pub fn slice(&self, offset: usize, length_bytes: usize) -> Self {
        let end = offset.checked_add(length_bytes);
        let inside = length_bytes > 0 && end.is_some_and(|end| end <= self.length_bytes);
        assert!(
            inside,
            "{length_bytes} bytes at {offset} of {} bytes",
            self.length_bytes
        );
        let (first, last) = (self.offset_bytes + offset, self.offset_bytes + offset + length_bytes);
        Self {
            pages: self.pages[first / PAGE..last.div_ceil(PAGE)].to_vec(),
            offset_bytes: first % PAGE,
            length_bytes,
            owner: self.owner.clone(),
        }
    }

    /// Bus address of the first byte.
    ///
    /// # Panics
    /// If there are no pages.
    pub fn start(&self) -> u64 {
        self.pages[0] + self.offset_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(bus: &[u64]) -> Arc<DmaPool> {
        let memory = SharedMemory::anonymous(bus.len() * PAGE).unwrap();
        DmaPool::new(Arc::new(MappedMemory::paged(bus.to_vec(), memory)))
    }

    #[test]
    fn contiguous_buffer_skips_gaps_on_the_bus_and_used_pages() {
        let pool = pool(&[0x1000, 0x2000, 0x9000, 0xa000, 0xb000, 0xc000]);
        let first = pool.allocate_contiguous(2 * PAGE).unwrap();
        assert_eq!(first.bus_address(0), 0x1000);
        let second = pool.allocate_contiguous(3 * PAGE).unwrap();
        assert_eq!(second.bus_address(2 * PAGE + 5), 0xb005);
        assert!(pool.allocate_contiguous(2 * PAGE).is_err());
        drop(first);
        assert_eq!(pool.free_pages(), 3);
        assert_eq!(pool.allocate_contiguous(2 * PAGE).unwrap().bus_address(0), 0x1000);
        drop(second);
        assert!(
            pool.allocate_contiguous(5 * PAGE).is_err(),
            "only four follow each other"
        );
    }

    #[test]
    fn copies_cross_pages_that_do_not_follow_each_other() {
        let pool = pool(&[0x1000, 0x2000, 0x3000]);
        let buffer = pool.allocate(3 * PAGE).unwrap();
        let bytes: Vec<u8> = (0..6000).map(|i| (i % 251) as u8).collect();
        buffer.write(3000, &bytes);
        assert_eq!(buffer.bytes(3000, 6000), bytes);
        let range = buffer.range(3000, 6000).unwrap();
        assert_eq!(
            (range.pages.as_slice(), range.offset_bytes),
            ([0x3000, 0x2000, 0x1000].as_slice(), 3000)
        );
        assert!(buffer.range(4096, 2 * PAGE + 1).is_err());
        assert!(buffer.range(usize::MAX, 2).is_err());
    }
}
