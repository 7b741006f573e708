// Ending a kernel in order: the status word is raised, and waits are bounded.
#pragma once
#include "io_stack.h"
#include "target.cuh"

namespace grampus {

// Raises a status unless one is up. Any lane may call; the details of the first one stay.
GRAMPUS_SLOW void raise(const IoStack& io, const Status& what) {
    Status* status = io.status;
    if (cas_relaxed_gpu(&status->code, (u32)STATUS_OK, what.code) != STATUS_OK) return;
    status->nvme_status = what.nvme_status;
    status->queue = what.queue;
    status->cid = what.cid;
    status->lba = what.lba;
    status->line = what.line;
    status->bytes = what.bytes;
    status->nsid = what.nsid;
    status->waited_ns = what.waited_ns;
}

// Whether some lane of the kernel has raised a status.
GRAMPUS_DEVICE bool raised(const IoStack& io) { return load_relaxed_gpu(&io.status->code) != STATUS_OK; }

GRAMPUS_DEVICE void count(u64* counter, u64 by) { add_relaxed_gpu(counter, by); }

// Thousands of warps may wait for the same queue. Pauses are short at first, for few waiters, and then long, so that
// polling does not take all the time.
constexpr u32 LONGEST_PAUSE_LOG2 = 12;  // ns

// One lane's bounded wait: pauses a little longer each time, and tells the lane when to stop.
struct Wait {
    u64 started_ns;
    u32 tries;

    GRAMPUS_DEVICE Wait() : started_ns(0), tries(0) {}

    // Whether the next go_on() may find the wait too long: then its reason matters.
    GRAMPUS_DEVICE bool due() const { return tries % 8 == 0; }

    // False: the kernel must end, because a status is up, the host has aborted, or the bound has passed. In the latter
    // two cases go_on() raises the status, with `code` and what the lane waited for.
    GRAMPUS_SLOW bool go_on(const IoStack& io, StatusCode code, u32 queue, u64 line) {
        GRAMPUS_STEP(wait);
        bool judges = due();
        tries++;
        pause_ns(16u << (tries < LONGEST_PAUSE_LOG2 - 4 ? tries : LONGEST_PAUSE_LOG2 - 4));
        GRAMPUS_STEP(paused);
        u64 now = now_ns();
        bool look = looks_at_host(now) && lane_id() == 0;
        if (!judges && !look) return true;
        if (started_ns == 0) started_ns = now;
        if (raised(io)) return false;
        bool late = judges && now - started_ns > io.timeout_ns;
        bool aborted = (look || late) && load_relaxed_sys(io.host_abort) != 0;
        if (!aborted && !late) return true;
        Status what = {};
        what.code = aborted ? STATUS_ABORTED : code;
        what.queue = queue;
        what.cid = ~0u;
        what.line = line;
        what.waited_ns = now - started_ns;
        raise(io, what);
        return false;
    }
};

}  // namespace grampus
