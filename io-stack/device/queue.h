// A queue pair as device code sees it. The rings and doorbells lie in pinned host memory, or in a device's registers;
// everything else lies in device memory. States and hand-overs: docs/PROTOCOL.md.
#pragma once
#include "nvme.h"
#include "types.h"

namespace grampus {

// QueueDesc::flags
constexpr u32 QUEUE_MMIO = 2;       // doorbells are device registers
constexpr u32 QUEUE_LATE_DATA = 4;  // a completion may be seen before data in device memory

constexpr u32 FREE_RING_EMPTY = ~0u;
constexpr u32 MARK_SLOT_BITS = 12;  // a mark: low bits command slot, above them (ticket >> depth_log2) + 1, truncated

// SQ tail doorbells of 16 queues share one 64-byte line, so that a controller thread watches 16 queues with one load.
// Queue i has word i % 16 of group i / 16. CQ head doorbells likewise.
struct alignas(64) DoorbellGroup {
    u32 word[16];  // physical ring index; written by the device, read by the controller
};

// Words that warps contend for, one 64-byte block each, in device memory. The host zeroes them except where said. All
// indices are virtual (monotonic, wrapping at 2^32); the ring index is `& (depth - 1)`.
struct alignas(64) QueueState {
    i32 credits;      // commands that may still be submitted; starts at depth - 1
    u32 pad0[15];
    u32 pop_ticket;   // next entry of free_ring to take
    u32 pad1[15];
    u32 push_ticket;  // next entry of free_ring to fill; starts at depth - 1
    u32 pad2[15];
    u32 sq_ticket;    // next SQ entry to write
    u32 pad3[15];
    u32 sq_lock;      // 1 while one lane moves the tail
    u32 sq_tail;      // entries before this index are rung; written under sq_lock
    u32 pad4[14];
    u32 cq_lock;      // 1 while one warp reaps
    u32 cq_head;      // completions before this index are taken; written under cq_lock
    u32 cq_rung;      // the value of the head doorbell, as a virtual index; written under cq_lock; starts as cq_head
    u32 pad5[13];
};

// CommandRecord::state, low byte; the generation stands above it
constexpr u32 CMD_FREE = 0;
constexpr u32 CMD_SUBMITTED = 1;  // owned by the protocol until its completion is reaped
constexpr u32 CMD_REAPED = 2;     // owned by the warp that reaped it
constexpr u32 CMD_DONE = 3;       // CMD_RAW, CMD_FLUSH: the submitter may read `result` and release the slot

// CommandRecord::kind
constexpr u32 CMD_RAW = 0;   // data goes to the submitter's address; the submitter polls `state`
constexpr u32 CMD_FILL = 1;  // data goes into cache lines; the reaper publishes the sectors
constexpr u32 CMD_PREFETCH = 2;  // a fill that no warp waits for: an error status takes its request back
constexpr u32 CMD_WRITE = 3;  // data comes from dirty sectors, through the bounce slot
constexpr u32 CMD_FLUSH = 4;  // without data; ends like CMD_RAW

// An outstanding command, indexed by command slot. The submitter writes the record before its entry is rung; the lane
// that reaps the completion reads it.
struct alignas(16) CommandRecord {
    u32 state;    // generation << 8 | CMD_*
    u32 kind;     // CMD_RAW .. CMD_FLUSH
    u32 slot;     // fills and writes: data slot of the first line
    u32 lines;    // fills: lines, contiguous in data slots (and in sets); writes: 1
    u32 sectors;  // fills and writes of one line: mask of the sectors concerned
    u32 bytes;    // transfer length
    u64 lba;      // first block
    u32 result;   // CMD_RAW, CMD_FLUSH: status field of the completion, 0 = success
    u32 nsid;
    u64 target;   // CMD_RAW: to where a bounced transfer is copied, 0 = nowhere
    u64 entry[8]; // the SqEntry; the lane that rings copies it into the ring
};

// Read-only for kernels; an array of these lies in device memory.
struct alignas(16) QueueDesc {
    SqEntry* sq;              // [depth], pinned host memory
    CqEntry* cq;              // [depth], pinned host memory; zeroed before use (phase 0)
    u32* sq_doorbell;         // tail, pinned host memory or BAR
    u32* cq_doorbell;         // head, pinned host memory or BAR
    QueueState* state;        // device memory
    u32* marks;               // [depth] device memory: turn and command slot of a ready entry (MARK_*)
    u32* free_ring;           // [depth] device memory: free command slots; starts 0 .. depth-2, EMPTY
    CommandRecord* commands;  // [depth] device memory
    u8* bounce;               // [depth] slots of bounce_bytes, pinned host memory, page-aligned; or null
    u64 bounce_bus;           // the controller's address of `bounce`
    u64 data_bus;             // the controller's address minus the device's, for device memory (0: equal)
    u32 bounce_bytes;         // transfers up to this length go through the bounce slot; 0: none do
    u32 depth_log2;           // log2 of the ring entries, 1 .. 12: 4 bits of a cid remain for the generation
    u32 qid;                  // NVMe queue id
    u32 flags;                // QUEUE_*
    const u32* ordering_read; // QUEUE_LATE_DATA: a word of the device; its value comes behind all data sent before
};

}  // namespace grampus
