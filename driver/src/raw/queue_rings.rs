//! `QueueRings`: one queue pair's rings as the controller sees them (docs/PROTOCOL.md, "What a controller must do",
//! rules 1 and 4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use zerocopy::IntoBytes;

use super::HostMemory;
use crate::spec::{
    COMPLETION_ENTRY_BYTES, CompletionEntry, MAX_QUEUE_ENTRIES, SUBMISSION_ENTRY_BYTES, SubmissionEntry,
};

/// Where a queue pair lies in host memory.
#[derive(Debug, Clone, Copy)]
pub struct RingAddresses {
    /// `[depth]` submission entries; written by the host side, read here.
    pub sq: *const SubmissionEntry,
    /// `[depth]` completion entries, zeroed at start; written here.
    pub cq: *mut CompletionEntry,
    /// SQ tail doorbell: physical index; written by the host side with release.
    pub sq_doorbell: *const AtomicU32,
    /// CQ head doorbell: physical index; written by the host side with release.
    pub cq_doorbell: *const AtomicU32,
}

/// Emulated doorbells of a queue pair: the submission queue's tail, the completion queue's head.
#[derive(Debug, Default)]
pub struct Doorbells {
    /// Physical indices.
    pub words: [AtomicU32; 2],
}

/// Access to one queue pair's rings; one thread at a time uses it.
#[derive(Debug)]
pub struct QueueRings {
    at: RingAddresses,
    depth: u32,
    /// What the addresses point into, if the value keeps it alive.
    _doorbells: Option<Arc<Doorbells>>,
}

// SAFETY: the rings are shared memory by design. All concurrent words are accessed through atomics, and entries only
// after the doorbell's acquire. One controller thread at a time owns a `QueueRings`.
unsafe impl Send for QueueRings {}

impl QueueRings {
    /// Takes the controller's side of a queue pair of `1 << depth_log2` entries.
    ///
    /// # Safety
    /// The addresses are aligned for their types and stay valid for the life of the value. No other agent writes
    /// completion entries, and the host side follows the protocol for everything else.
    ///
    /// # Panics
    /// If the depth is not 2 … 65,536.
    pub unsafe fn new(at: RingAddresses, depth_log2: u32) -> Self {
        assert!(
            (1..=MAX_QUEUE_ENTRIES.ilog2()).contains(&depth_log2),
            "a queue has 2 to 65,536 entries"
        );
        Self {
            at,
            depth: 1 << depth_log2,
            _doorbells: None,
        }
    }

    /// Takes the controller's side of a pair whose rings the controller may access, with emulated doorbells. `None`:
    /// the rings have different lengths, too few or too many entries, or a wrong alignment.
    pub fn in_memory(sq: HostMemory, cq: HostMemory, doorbells: Arc<Doorbells>) -> Option<Self> {
        let entries = sq.len() / SUBMISSION_ENTRY_BYTES;
        let fits = (2..=MAX_QUEUE_ENTRIES as usize).contains(&entries)
            && sq.len() == entries * SUBMISSION_ENTRY_BYTES
            && cq.len() == entries * COMPLETION_ENTRY_BYTES;
        let (sq, cq) = (
            sq.as_ptr().cast::<SubmissionEntry>(),
            cq.as_ptr().cast::<CompletionEntry>(),
        );
        if !fits || !sq.is_aligned() || !cq.is_aligned() {
            return None;
        }
        let at = RingAddresses {
            sq,
            cq,
            sq_doorbell: &doorbells.words[0],
            cq_doorbell: &doorbells.words[1],
        };
        // SAFETY: `HostMemory` is valid memory that the bus gave to the controller; length and alignment were checked.
        // The doorbells live as long as the value, which holds them.
        let mut rings = unsafe { Self::new(at, 1) };
        rings.depth = entries as u32;
        rings._doorbells = Some(doorbells);
        Some(rings)
    }

    /// Number of entries.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The submission tail doorbell. Acquire, so that the entries before it can be read; pairs with the release of the
    /// doorbell (`try_ring` in device/queue.cuh).
    pub fn sq_tail(&self) -> u32 {
        // SAFETY: valid by the contract of `new`; concurrent access is atomic.
        unsafe { &*self.at.sq_doorbell }.load(Ordering::Acquire)
    }

    /// The completion head doorbell. Acquire, so that a taken entry may be overwritten; pairs with the store of the
    /// doorbell behind the entry's loads (`reap` in device/completion.cuh).
    pub fn cq_head(&self) -> u32 {
        // SAFETY: as in `sq_tail`.
        unsafe { &*self.at.cq_doorbell }.load(Ordering::Acquire)
    }

    /// Copies the submission entry at a physical index that lies before the tail last seen.
    pub fn submission(&self, index: u32) -> SubmissionEntry {
        // SAFETY: reduced, so inside the ring. The writer finished the entry before the doorbell's release that
        // `sq_tail` acquired. The writer leaves the entry alone until a completion tells it that the entry was taken.
        // Volatile: the value is not ours.
        unsafe { self.at.sq.add((index % self.depth) as usize).read_volatile() }
    }

    /// Posts a completion at a physical index: dwords 0–2 first, dword 3 with the phase last, released. `reap`'s
    /// acquire of dword 3 (device/completion.cuh) pairs with the release.
    pub fn complete(&self, index: u32, entry: &CompletionEntry) {
        // SAFETY: reduced, so inside the ring; entries are 16-byte aligned, so each dword is aligned for an atomic.
        let words = unsafe { self.at.cq.add((index % self.depth) as usize) }.cast::<AtomicU32>();
        for (i, dword) in entry.as_bytes().chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes([dword[0], dword[1], dword[2], dword[3]]);
            // Relaxed for dwords 0–2; release for dword 3, which makes them and the data visible before the phase.
            let order = if i == 3 { Ordering::Release } else { Ordering::Relaxed };
            // SAFETY: `i < 4`: inside the entry.
            unsafe { &*words.add(i) }.store(value, order);
        }
    }
}
