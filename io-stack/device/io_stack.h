// Everything a kernel needs to fetch data: passed by value as a kernel parameter.
#pragma once
#include "cache.h"
#include "column.h"
#include "queue.h"
#include "status.h"

namespace grampus {

struct alignas(16) IoStack {
    Status* status;            // device memory
    Stats* stats;              // device memory
    const u32* host_abort;     // pinned host memory; writer: host, non-zero = leave
    const QueueDesc* queues;
    const SourceDesc* sources;
    u64 timeout_ns;            // longest wait for anything
    u32 queue_count;
    u32 servers;               // warps of the launch that serve(): ring and reap for the others; 0: everybody does
    u64 pad0;
    CacheDesc cache;
};

}  // namespace grampus
