// Common parts of both targets: offsetof, known protocol mistakes for tests, 16-byte words.
#pragma once
#include "types.h"

// offsetof for the layout asserts. NVRTC has neither the macro nor the builtin; its front end has this operator.
#ifdef __CUDACC_RTC__
#define GRAMPUS_OFFSETOF(type, field) __INTADDR__(&((type*)0)->field)
#else
#define GRAMPUS_OFFSETOF(type, field) __builtin_offsetof(type, field)
#endif

namespace grampus {

// A mutant is a known protocol mistake. A test switches it on through GRAMPUS_MUTANT and must catch it.
enum Mutant {
    MUTANT_NONE = 0,
    MUTANT_PUBLISH_BEFORE_WRITE = 1,  // sectors valid before their bytes are copied
    MUTANT_RING_BEFORE_FENCE = 2,     // doorbell without release
    MUTANT_FREE_BEFORE_REAP = 3,      // command slot given back before its bounce slot was read
    MUTANT_NO_PHASE_FLIP = 4,         // every pass over the ring expects phase 1
    MUTANT_MARK_BEFORE_ENTRY = 5,     // entry declared ready before it is written
    MUTANT_NO_TAG_CHECK = 6,          // tag not read again after pinning
    MUTANT_NO_VERSION_CHECK = 7,      // optimistic reads not validated
    MUTANT_NO_COMMAND_PIN = 8,        // outstanding commands do not pin their line
    MUTANT_WAITERS_DO_NOT_RING = 9,   // a waiter does not ring an entry that was left to a server
    MUTANT_REF_BY_ADDITION = 10,      // install adds REF, which a late reader may have set
    MUTANT_VALIDATE_EARLY = 11,       // optimistic reads validated before they read
    MUTANT_NO_SYNC_WARP = 12,         // lanes read a pinned line without order after the leader's acquire
    MUTANT_KEEP_REQUEST = 13,         // a failed prefetch leaves its sectors requested
    MUTANT_TAKE_BACK_LATE = 14,       // a failed prefetch takes its request back after its pin is dropped
    MUTANT_REUSE_BEFORE_WRITE = 15,   // a line's pin is dropped when its write is sent
    MUTANT_CLEAN_AFTER_COPY = 16,     // sectors count as clean some time after they were copied out
    MUTANT_WRITE_TWICE = 17,          // a sector is written again while a write of it is in flight
    MUTANT_FORGET_FAILED_WRITE = 18,  // sectors stay clean although their write failed
    MUTANT_STORE_UNLOCKED = 19,       // stores do not wait for the line's lock
    MUTANT_FLUSH_BEFORE_DATA = 20,    // a flush does not wait for the writes before it
    MUTANT_CLAIM_PART_OF_BLOCK = 21,  // a tile that covers a sector does not fetch the rest of its block
    MUTANT_NO_ORDERING_READ = 22,     // data is published without the read that it precedes
};

// Sixteen bytes, moved as one.
struct alignas(16) u64x2 {
    u64 x, y;
};

}  // namespace grampus
