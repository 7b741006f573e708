//! `QueueDesc` and the words of a queue pair: the mirror of `device/queue.h`.
#![allow(missing_docs)] // the header documents the fields

crate::shared_structs! {
    #[repr(align(64))]
    DoorbellGroup { word: [u32; 16] }
    #[repr(align(64))]
    QueueState {
        credits: i32, pad0: [u32; 15], pop_ticket: u32, pad1: [u32; 15], push_ticket: u32, pad2: [u32; 15],
        sq_ticket: u32, pad3: [u32; 15], sq_lock: u32, sq_tail: u32, pad4: [u32; 14],
        cq_lock: u32, cq_head: u32, cq_rung: u32, pad5: [u32; 13],
    }
    #[repr(align(16))]
    CommandRecord {
        state: u32, kind: u32, slot: u32, lines: u32, sectors: u32, bytes: u32, lba: u64, result: u32, nsid: u32,
        target: u64, entry: [u64; 8],
    }
    #[repr(align(16))]
    QueueDesc {
        sq: u64, cq: u64, sq_doorbell: u64, cq_doorbell: u64, state: u64, marks: u64, free_ring: u64, commands: u64,
        bounce: u64, bounce_bus: u64, data_bus: u64, bounce_bytes: u32, depth_log2: u32, qid: u32, flags: u32,
        ordering_read: u64,
    }
}

/// An empty entry of the free ring.
pub const FREE_RING_EMPTY: u32 = u32::MAX;
/// Queues whose doorbells share a 64-byte line.
pub const QUEUES_PER_GROUP: u64 = 16;
