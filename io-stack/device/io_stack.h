// `IoStack`: what a kernel needs to fetch data, passed by value as a kernel parameter.
#pragma once
#include "cache.h"
#include "column.h"
#include "queue.h"
#include "status.h"

namespace grampus {

struct alignas(16) IoStack {
    Status* status;            // device memory
    Stats* stats;              // device memory
    const u32* host_abort;     // pinned host memory; written by the host, non-zero: the kernel must end
    const QueueDesc* queues;
    const SourceDesc* sources;
    u64 timeout_ns;            // longest wait of any kind
    u32 queue_count;
    // warps of the launch that call serve(): they ring and reap for the others; 0: every warp does
    u32 servers;
    u32 source_count;
    u32 pad0;
    CacheDesc cache;
};

}  // namespace grampus
