//! The host's side of a queue pair on CPU threads, in place of a GPU, and memory that commands point at.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use grampus_driver::bus::{BusMemory, Uploader};
use grampus_driver::controller::QueueSetup;
use grampus_driver::raw::{HostMemory, QueueRings, RingAddresses};
use grampus_driver::spec::{CompletionEntry, Status, SubmissionEntry};

/// Page-aligned zeroed memory that outlives everything in the test.
///
/// **Invariant:** this module makes no reference to the bytes. Threads share them by volatile accesses or atomics, in
/// the order of the queue protocol.
pub(crate) struct Arena {
    /// Start of one allocation of `len` bytes, which only `Drop` frees.
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the allocation belongs to no thread, and `Drop` runs once, on whichever thread holds the last handle.
unsafe impl Send for Arena {}
// SAFETY: `&Arena` gives bytes by volatile copies only. A racing write yields a wrong byte, which the test would
// notice; the protocol's acquire and release order the accesses that matter.
unsafe impl Sync for Arena {}

impl Arena {
    pub(crate) fn new(len: usize) -> Self {
        assert!(len > 0, "an arena has bytes");
        // SAFETY: the layout's size is not zero (asserted above).
        let start = unsafe { alloc_zeroed(Layout::from_size_align(len, 4096).unwrap()) };
        let start = NonNull::new(start).unwrap();
        Self { start, len }
    }
    pub(crate) fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }
    pub(crate) fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len);
        let read = |i| {
            // SAFETY: `i < self.len` by the assertion, and the allocation lives as long as `self`.
            unsafe { self.start.as_ptr().add(i).read_volatile() }
        };
        (at..at + len).map(read).collect()
    }
    pub(crate) fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len);
        for (i, b) in bytes.iter().enumerate() {
            // SAFETY: `at + i < self.len` by the assertion, and the allocation lives as long as `self`.
            unsafe { self.start.as_ptr().add(at + i).write_volatile(*b) }
        }
    }
    fn at(&self, bus: u64, len: u64) -> Option<NonNull<u8>> {
        let offset = bus.checked_sub(self.address())?;
        let inside = offset.checked_add(len)? <= self.len as u64;
        // SAFETY: called only if offset and length lie inside the allocation, so the address does too.
        inside.then(|| unsafe { self.start.add(offset as usize) })
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this very layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), Layout::from_size_align(self.len, 4096).unwrap()) }
    }
}

/// One arena that the CPU may write, and one that only the "copy engine" reaches.
pub(crate) struct TestBus {
    pub(crate) host: Arc<Arena>,
    pub(crate) device: Arc<Arena>,
    pub(crate) staging_bytes: usize,
}

impl BusMemory for TestBus {
    fn host_memory(&self, bus: u64, len: u64) -> Option<HostMemory> {
        let start = self.host.at(bus, len)?;
        // SAFETY: `at` checked that `len` bytes lie in the arena, which the controller keeps alive through this bus.
        // The tests point no two commands in flight at the same bytes, and read them only after the completion.
        Some(unsafe { HostMemory::new(start, len as usize) })
    }
    fn prp_list(&self, bus: u64, entries: usize) -> Option<Vec<u64>> {
        let at = self.host.at(bus, entries as u64 * 8)?.as_ptr() as u64 - self.host.address();
        let bytes = self.host.bytes(at as usize, entries * 8);
        Some(
            bytes
                .chunks_exact(8)
                .map(|b| u64::from_le_bytes(b.try_into().unwrap()))
                .collect(),
        )
    }
    fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String> {
        let staging = Arc::new(Arena::new(self.staging_bytes * 2));
        let free = (0..2).map(|i| i * self.staging_bytes).collect();
        Ok(Some(Box::new(TestUploader {
            staging,
            unit: self.staging_bytes,
            free,
            device: self.device.clone(),
            in_flight: VecDeque::new(),
        })))
    }
}

struct TestUploader {
    staging: Arc<Arena>,
    unit: usize,
    free: Vec<usize>,
    device: Arc<Arena>,
    in_flight: VecDeque<(u64, HostMemory, u64)>,
}

impl Uploader for TestUploader {
    fn staging_bytes(&self) -> usize {
        self.unit
    }
    fn staging(&mut self, length: usize) -> Option<HostMemory> {
        let at = self.free.pop()?;
        let start = self.staging.at(self.staging.address() + at as u64, length as u64)?;
        // SAFETY: `at` checked the length. The piece was on the free list, so no other handle has it until `release`.
        // The arena lives as long as this uploader, and handles go back to it or are dropped with the controller that
        // owns it.
        Some(unsafe { HostMemory::new(start, length) })
    }
    fn release(&mut self, staged: HostMemory) {
        self.free
            .push((staged.as_ptr() as u64 - self.staging.address()) as usize);
    }
    fn upload(&mut self, token: u64, staged: HostMemory, bus: u64) {
        self.in_flight.push_back((token, staged, bus));
    }
    fn poll(&mut self, done: &mut Vec<(u64, Result<(), String>)>) {
        // One copy a poll: uploads overlap with everything else.
        if let Some((token, mut staged, bus)) = self.in_flight.pop_front() {
            let result = match self.device.at(bus, staged.len() as u64) {
                Some(to) => {
                    self.device.put(
                        (to.as_ptr() as u64 - self.device.address()) as usize,
                        staged.bytes_mut(),
                    );
                    Ok(())
                }
                None => Err("not device memory".to_owned()),
            };
            self.release(staged);
            done.push((token, result));
        }
    }
}

/// The host's side of a queue pair.
pub(crate) struct HostQueue {
    memory: Arena,
    depth: u32,
    sq_tail: u32,
    cq_head: u32,
}

impl HostQueue {
    pub(crate) fn new(depth_log2: u32) -> Self {
        Self {
            memory: Arena::new(((64 + 16) << depth_log2) + 4096),
            depth: 1 << depth_log2,
            sq_tail: 0,
            cq_head: 0,
        }
    }
    fn sq(&self) -> *mut SubmissionEntry {
        self.memory.start.as_ptr().cast()
    }
    fn cq(&self) -> *mut CompletionEntry {
        // SAFETY: `new` made room for `depth` submission entries, as many completions and the doorbells behind them.
        unsafe { self.sq().add(self.depth as usize).cast() }
    }
    fn doorbell(&self, i: usize) -> *const AtomicU32 {
        // SAFETY: the completion entries end inside the allocation (see `cq`), and 4,096 bytes follow them. `i` is 0 or
        // 1.
        unsafe { self.cq().add(self.depth as usize).cast::<AtomicU32>().add(i * 16) }
    }
    pub(crate) fn setup(&self, qid: u16) -> QueueSetup {
        let at = RingAddresses {
            sq: self.sq(),
            cq: self.cq(),
            sq_doorbell: self.doorbell(0),
            cq_doorbell: self.doorbell(1),
        };
        // SAFETY: the arena is page-aligned and entries are 64 and 16 bytes, so all addresses are aligned. The tests
        // stop the controller before they drop the queue. Only `reset` writes completions, while the controller is
        // paused.
        let rings = unsafe { QueueRings::new(at, self.depth.trailing_zeros()) };
        QueueSetup { rings, qid }
    }
    /// Writes entries and rings once; the caller keeps at most depth - 1 outstanding.
    pub(crate) fn submit(&mut self, entries: &[SubmissionEntry]) {
        for entry in entries {
            let slot = (self.sq_tail % self.depth) as usize;
            // SAFETY: `slot < depth`. The controller reads the entry only after the doorbell's release below. It has
            // read the entry that stood there before: the caller keeps one slot free.
            unsafe { self.sq().add(slot).write_volatile(*entry) };
            self.sq_tail = self.sq_tail.wrapping_add(1);
        }
        self.ring(self.sq_tail % self.depth);
    }
    pub(crate) fn ring(&self, tail: u32) {
        // SAFETY: inside the arena and aligned (see `doorbell`); shared as an atomic only.
        unsafe { &*self.doorbell(0) }.store(tail, Ordering::Release);
    }
    /// The next completion, phase first.
    pub(crate) fn reap(&mut self) -> Option<(u16, Status)> {
        let slot = (self.cq_head % self.depth) as usize;
        // SAFETY: `slot < depth`, and an entry is four words; the controller writes the last one as an atomic too.
        let dword3 = unsafe { &*self.cq().add(slot).cast::<AtomicU32>().add(3) }.load(Ordering::Acquire);
        let expected = (self.cq_head / self.depth) & 1 ^ 1;
        if dword3 >> 16 & 1 != expected {
            return None;
        }
        self.cq_head = self.cq_head.wrapping_add(1);
        // SAFETY: inside the arena and aligned (see `doorbell`); shared as an atomic only.
        unsafe { &*self.doorbell(1) }.store(self.cq_head % self.depth, Ordering::Release);
        Some((dword3 as u16, Status((dword3 >> 17) as u16)))
    }
    pub(crate) fn reap_within(&mut self, limit: Duration) -> Option<(u16, Status)> {
        let end = Instant::now() + limit;
        loop {
            if let Some(done) = self.reap() {
                return Some(done);
            }
            if Instant::now() > end {
                return None;
            }
            std::thread::yield_now();
        }
    }
    pub(crate) fn reset(&mut self) {
        self.memory.put(0, &vec![0; self.memory.len]);
        (self.sq_tail, self.cq_head) = (0, 0);
    }
}

/// The byte at each offset of a test storage: every byte read can be compared with its address.
pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn pattern(offset: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| byte_at(offset + i)).collect()
}
