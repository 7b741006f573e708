// Servers: warps that only ring and reap. A fill then costs its submitter the entry alone, and its reader a look at the
// line.
//
// **Invariant:** no warp depends on a server: a warp that has waited long enough rings and reaps for itself
// (`advance`).
#pragma once
#include "completion.cuh"

namespace grampus {

// One round of server `server` of `io.servers`, for queues server, server + servers, and so on. The warp rings the
// entries that are ready and finishes the commands that have completed. Each lane looks at one queue, all across PCIe
// at once; no other server looks at these queues. Collective; returns the number of completions taken.
template <class Finish>
GRAMPUS_SLOW u32 serve_once(const IoStack& io, u32 server, const Finish& finish) {
    u32 done = 0;
    for (u32 first = server; first < io.queue_count; first += io.servers * WARP) {
        u32 queue = first + lane_id() * io.servers;
        bool mine = queue < io.queue_count;
        if (!mine) queue = first;
        const QueueDesc& q = queue_at(io, queue);
        GRAMPUS_STEP(serve);
        bool left = mine && unrung(q);
        if (any(left)) try_ring(io, left, queue);
        u32 head = load_relaxed_gpu(&state_of(q)->cq_head);
        u32 dw3 = mine ? load_relaxed_sys(&q.cq[head & (depth_of(q) - 1)].cid_psf) : 0;
        bool came = mine && (dw3 >> 16 & 1) == phase_at(q, head);  // a hint if other warps reap too
        if (any(came)) done += reap(io, came, queue, finish);
    }
    return done;
}

// Serves until `all` warps have added themselves to `ended`, or a status is up. Collective.
template <class Finish>
GRAMPUS_SLOW void serve(const IoStack& io, u32 server, const u32* ended, u32 all, const Finish& finish) {
    for (;;) {
        u32 over = load_relaxed_gpu(ended) == all || raised(io) ? 1 : 0;
        if (shuffle(over, 0) != 0) return;
        if (serve_once(io, server, finish) == 0) pause_ns(100);
    }
}

}  // namespace grampus
