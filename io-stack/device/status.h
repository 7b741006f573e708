// The status word, by which device code ends early, and the counters, in device memory. The host copies both after the
// kernel, and turns a status into an error with file, offset, command and NVMe status.
#pragma once
#include "types.h"

namespace grampus {

enum StatusCode : u32 {
    STATUS_OK = 0,
    STATUS_TIMEOUT_COMPLETION = 1,  // a command was submitted, its data did not arrive in time
    STATUS_TIMEOUT_SUBMIT = 2,      // no credit, or an entry was not rung, in time
    STATUS_NVME = 3,                // a completion carried a status other than success
    STATUS_CACHE_FULL = 4,          // every way of a set stayed pinned: more pins than the cache holds
    STATUS_ABORTED = 5,             // the host's abort word was set
    STATUS_RANGE = 6,               // a row or block outside the column's extents
    STATUS_PROTOCOL = 7,            // a queue structure held what the protocol forbids
    STATUS_READ_ONLY = 8,           // a store to a column whose storage or cache takes none
};

// The first failure wins: `code` changes from STATUS_OK by compare-and-swap, and only the lane whose swap succeeded
// writes the other fields. The host reads them after the kernel has ended. `code` is also the device-wide stop flag:
// every bounded wait reads it.
struct alignas(64) Status {
    u32 code;         // StatusCode
    u32 nvme_status;  // STATUS_NVME: status field, bits 14:0 (SC 7:0, SCT 10:8, ..., DNR 14)
    u32 queue;        // index into IoStack::queues, or ~0
    u32 cid;          // command id on the wire, or ~0
    u64 lba;          // first block of the command, or the row for STATUS_RANGE
    u64 line;         // cache line key concerned, or ~0
    u32 bytes;        // length of the command
    u32 nsid;         // namespace of the command
    u64 waited_ns;    // time-outs: length of the wait
    u64 pad0;
    u64 pad1;
};

// Counters of slow paths: once per command, fill or eviction, never on a cache hit.
struct alignas(64) Stats {
    u64 commands;             // commands submitted
    u64 command_bytes;        // bytes they asked for
    u64 completions;          // completions reaped
    u64 stale_completions;    // completions whose cid or generation was not outstanding
    u64 mapped_fill_bytes;    // bytes copied from mapped files into lines
    u64 installs;             // lines installed (misses of whole lines)
    u64 evictions;            // of these, lines that replaced another
    u64 full_sets;            // install attempts that found every way pinned
    u64 doorbells;            // tail doorbell writes
    u64 failed_prefetches;    // prefetches that ended with an error status
    u64 writes;               // of the commands, writes of dirty sectors
    u64 flushes;              // of the commands, flushes
    u64 pad[4];
};

}  // namespace grampus
