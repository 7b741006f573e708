// Completion of commands: one warp reaps for all warps, and finishes what it took.
//
// The cache says what the end of a fill or a write means, through `Finish`. docs/PROTOCOL.md has the argument.
#pragma once
#include "queue.cuh"

namespace grampus {

// ---- completion (R) ----------------------------------------------------------------------------------

// Checks the completion against the command that it names. True: this lane now owns the command's end. The record is
// visible: mark release, mark acquire, fence and doorbell, completion, and reap's acquire of the completion.
GRAMPUS_DEVICE bool claim(const IoStack& io, const QueueDesc& q, u32 cid) {
    GRAMPUS_STEP(claim);
    u32 slot = cid & (depth_of(q) - 1), generation = cid >> depth_log2_of(q);
    u32 submitted = generation << 8 | CMD_SUBMITTED, reaped = generation << 8 | CMD_REAPED;
    if (cas_acquire_gpu(&commands_of(q)[slot].state, submitted, reaped) == submitted) return true;
    count(&io.stats->stale_completions, 1);
    return false;
}

GRAMPUS_SLOW void raise_nvme(const IoStack& io, u32 queue, u32 cid, const CommandRecord& record, u32 nvme_status) {
    Status what = {};
    what.code = STATUS_NVME;
    what.nvme_status = nvme_status;
    what.queue = queue;
    what.cid = cid;
    what.lba = record.lba;
    what.line = ~0ull;
    what.bytes = record.bytes;
    what.nsid = record.nsid;
    raise(io, what);
}

// For controllers whose completion may be seen before the data that they wrote to device memory: one read through the
// device for each queue of the lanes with `direct`. The device's answer pushes its earlier writes ahead of it (PCIe).
// Collective. What the lanes do next comes after the data.
GRAMPUS_SLOW void read_behind_data(const QueueDesc& q, bool direct, u32 queue) {
    u32 peers = match(direct ? queue : ~0u);
    GRAMPUS_STEP(ordering_read);
    if (direct && lane_id() == lowest_bit(peers) && GRAMPUS_MUTANT != MUTANT_NO_ORDERING_READ)
        load_mmio(load_constant(&q.ordering_read));
    fence_acq_rel_sys();
    sync_warp();
}

// The phase tag of a completion at a virtual index: 1 in the first pass over the ring, then alternating.
GRAMPUS_DEVICE u32 phase_at(const QueueDesc& q, u32 index) {
    return GRAMPUS_MUTANT == MUTANT_NO_PHASE_FLIP ? 1 : (index >> depth_log2_of(q) & 1) ^ 1;
}

// Takes and finishes the completions of the open lanes' queues, up to a warp's width together. The lanes' queues
// differ. Collective; returns the number of completions taken, which is 0 if other warps hold the locks. `finish` has
// destination(record), take_back(io, record, failed) and publish(record, ok, active). With WRITES it also has
// copy_out(io, active, queue, slot, command) and written(io, record, ok, active).
template <class Finish>
GRAMPUS_SLOW u32 reap(const IoStack& io, bool open, u32 asked, const Finish& finish) {
    u32 locked = 0, first = 0;
    // Loaded here, together, and handed to the lanes that take part: each load by itself would be a trip to L2.
    const QueueDesc& own = queue_at(io, asked);
    QueueState* state = state_of(own);
    CqEntry* ring = load_constant(&own.cq);
    u32 depth_log2 = depth_log2_of(own);
    if (open) {
        GRAMPUS_STEP(cq_lock);
        locked = load_relaxed_gpu(&state->cq_lock) == 0 && cas_acquire_gpu(&state->cq_lock, 0u, 1u) == 0;
        if (locked) {
            first = load_relaxed_gpu(&state->cq_head);
            // One load across PCIe for each queue; the whole warp looks only at queues with a completion.
            u32 dw3 = load_relaxed_sys(&ring[first & ((1u << depth_log2) - 1)].cid_psf);
            if ((dw3 >> 16 & 1) != phase_at(own, first)) {
                store_relaxed_gpu(&state->cq_lock, 0u);  // nothing was changed under the lock
                locked = 0;
            }
        }
    }
    u32 ready = ballot(locked != 0);
    if (ready == 0) return 0;

    // Divides the warp: `width` lanes for each of these queues.
    u32 queues = count_bits(ready), width = WARP;
    while (width * queues > WARP) width /= 2;
    u32 group = lane_id() / width, place = lane_id() % width, rest = ready;
    for (u32 i = 0; i < group; i++) rest &= rest - 1;
    u32 owner = lowest_bit(group < queues ? rest : ready);
    u32 queue = shuffle(asked, owner), head = shuffle(first, owner);
    const QueueDesc& q = queue_at(io, queue);
    CommandRecord* commands = commands_of(q);
    const u8* bounce = load_constant(&q.bounce);
    u32 bounce_bytes = load_constant(&q.bounce_bytes);
    const CqEntry* entries = (const CqEntry*)shuffle((u64)ring, owner);
    u32 mask = (1u << shuffle(depth_log2, owner)) - 1;

    GRAMPUS_STEP(read_completion);
    u32 dw3 = load_acquire_sys(&entries[(head + place) & mask].cid_psf);
    bool here = group < queues && place <= mask && (dw3 >> 16 & 1) == phase_at(q, head + place);
    u32 votes = ballot(here), run = lowest_bit(~(votes >> (group * width)));
    bool took = here && place < run;
    if (locked != 0) {
        u32 taken = lowest_bit(~(votes >> (count_bits(ready & lanes_below()) * width)));
        if (taken > width) taken = width;
        if (taken > 0) {
            u32 next = first + taken, depth = 1u << depth_log2;
            store_relaxed_gpu(&state->cq_head, next);
            // The loads of the entries have returned, so the controller may overwrite them. The doorbell may be late:
            // the controller can always post half a ring more, and then a warp reaps again.
            if (next - load_relaxed_gpu(&state->cq_rung) >= depth / 2) {
                store_relaxed_gpu(&state->cq_rung, next);
                if (own.flags & QUEUE_MMIO)
                    store_mmio(own.cq_doorbell, next & (depth - 1));
                else
                    store_after_loads_sys(own.cq_doorbell, next & (depth - 1));
            }
        }
    }
    // One fence for two releases: of the lock, and of the bytes that all lanes copy below. The completions' acquires
    // have seen that the bytes' lines were replaced; an optimistic reader that sees the bytes sees that, too.
    sync_warp();
    fence_acq_rel_gpu();
    if (locked != 0) {
        GRAMPUS_STEP(cq_unlock);
        store_after_fence_gpu(&state->cq_lock, 0u);
    }
    u32 taken = count_bits(ballot(took));
    if (taken == 0) return 0;

    u32 cid = dw3 & 0xFFFF, slot = cid & mask, nvme_status = dw3 >> NVME_CQE_STATUS_SHIFT;
    bool mine = took && claim(io, q, cid);
    CommandRecord record = {};
    if (mine) {  // all fields but `state`, which a stale completion of the slot may read meanwhile
        const CommandRecord& r = commands[slot];
        record.kind = r.kind;
        record.slot = r.slot;
        record.lines = r.lines;
        record.sectors = r.sectors;
        record.bytes = r.bytes;
        record.lba = r.lba;
        record.nsid = r.nsid;
        record.target = r.target;
    }
    bool ok = mine && nvme_status == 0;
    // A failed command's data, too: it must not come when its lines have other keys.
    bool direct = mine && record.bytes > bounce_bytes && (load_constant(&q.flags) & QUEUE_LATE_DATA) != 0;
    if (any(direct)) read_behind_data(q, direct, queue);
    // No warp has asked for a prefetch's bytes: its error ends no query. A reader that needs them sends a fill.
    bool failed_prefetch = mine && !ok && record.kind == CMD_PREFETCH;
    if (mine && !ok && !failed_prefetch) raise_nvme(io, queue, cid, record, nvme_status);
    bool write = Finish::WRITES && record.kind == CMD_WRITE;
    bool fill = record.kind != CMD_RAW && !write && !(Finish::WRITES && record.kind == CMD_FLUSH);
    bool filled = mine && fill, release = mine && (fill || write);

    if (GRAMPUS_MUTANT == MUTANT_FREE_BEFORE_REAP && release) {
        store_relaxed_gpu(&commands[slot].state, (cid >> depth_log2_of(q)) << 8 | CMD_FREE);
        push_slot(io, queue, slot);
        return_credits(q, 1);
    }
    if (GRAMPUS_MUTANT == MUTANT_PUBLISH_BEFORE_WRITE) if (any(filled)) finish.publish(record, ok, filled);
    bool take_back = any(failed_prefetch);
    if (take_back && GRAMPUS_MUTANT != MUTANT_TAKE_BACK_LATE) finish.take_back(io, record, failed_prefetch);
    GRAMPUS_STEP(copy_bounce);
    u8* to = !ok ? (u8*)0 : fill ? finish.destination(record) : (u8*)record.target;
    bool bounced = ok && to != 0 && record.bytes <= bounce_bytes;
    u32 units = bounced ? record.bytes / 16 : 0;
    if (any(units > 0)) {
        sync_warp();  // every lane's acquire above is before any lane's loads below
        copy_pieces<FromBounce>(bounce + (u64)slot * bounce_bytes, to, units);
    }
    sync_warp();
    if (GRAMPUS_MUTANT != MUTANT_PUBLISH_BEFORE_WRITE) if (any(filled)) finish.publish(record, ok, filled);
    if constexpr (Finish::WRITES) {
        if (any(mine && write)) finish.written(io, record, ok, mine && write);
    }
    if (take_back && GRAMPUS_MUTANT == MUTANT_TAKE_BACK_LATE) finish.take_back(io, record, failed_prefetch);

    if (mine && !fill && !write) {
        commands[slot].result = nvme_status;
        // Release, after sync_warp(): covers the bytes that other lanes copied. is_done's acquire pairs with it.
        store_release_gpu(&commands[slot].state, (cid >> depth_log2_of(q)) << 8 | CMD_DONE);
    }
    bool pushed = false;
    if (GRAMPUS_MUTANT != MUTANT_FREE_BEFORE_REAP && release) {
        store_relaxed_gpu(&commands[slot].state, (cid >> depth_log2_of(q)) << 8 | CMD_FREE);
        pushed = push_slot(io, queue, slot);
    }
    // Credits return together: one lane returns those of its queue.
    u32 peers = match(pushed ? queue : ~0u);
    if (pushed && lane_id() == lowest_bit(peers)) return_credits(q, count_bits(peers));
    if (lane_id() == 0) count(&io.stats->completions, taken);
    return taken;
}

// ---- raw commands: the submitter waits for its own ---------------------------------------------------

// Whether the raw command `cid` has ended. The acquire pairs with reap's release of CMD_DONE.
GRAMPUS_DEVICE bool is_done(const QueueDesc& q, u32 cid) {
    return (load_acquire_gpu(&commands_of(q)[cid & (depth_of(q) - 1)].state) & 0xFF) == CMD_DONE;
}

// Waits for the lanes' raw commands and frees their slots. Collective. False: a status is up.
template <class Finish>
GRAMPUS_SLOW bool wait_raw(const IoStack& io, bool wanted, u32 queue, u32 cid, const Finish& finish) {
    Wait wait;
    const QueueDesc& q = queue_at(io, queue);
    for (;;) {
        GRAMPUS_STEP(wait_raw);
        bool open = wanted && !is_done(q, cid);
        if (!any(open)) break;
        u32 done = advance(io, open, queue, finish);
        if (!all(done > 0 || wait.go_on(io, STATUS_TIMEOUT_COMPLETION, queue, ~0ull))) return false;
    }
    bool good = true, pushed = false;
    if (wanted) {
        u32 slot = cid & (depth_of(q) - 1);
        good = commands_of(q)[slot].result == 0;
        store_relaxed_gpu(&commands_of(q)[slot].state, (cid >> depth_log2_of(q)) << 8 | CMD_FREE);
        pushed = push_slot(io, queue, slot);
    }
    // Credits return together: one lane returns those of its queue.
    u32 peers = match(pushed ? queue : ~0u);
    if (pushed && lane_id() == lowest_bit(peers)) return_credits(q, count_bits(peers));
    return all(good);
}

// Runs the lanes' raw commands, with any number of free slots. Collective. False: a status is up.
template <class Finish>
GRAMPUS_DEVICE bool run_raw(const IoStack& io, bool wanted, u32 queue, const Command& command, const Finish& finish) {
    while (any(wanted)) {
        Submitted sent = submit_some(io, wanted, queue, command, finish);
        if (!sent.ok || !wait_raw(io, sent.rung, queue, sent.cid, finish)) return false;
        if (sent.rung) wanted = false;
    }
    return true;
}

// Reaps a queue until no command is outstanding. Collective. For the end of a query that has prefetched.
template <class Finish>
GRAMPUS_SLOW bool drain(const IoStack& io, u32 queue, const Finish& finish) {
    const QueueDesc& q = queue_at(io, queue);
    Wait wait;
    for (;;) {
        u32 credits = load_acquire_gpu((u32*)&state_of(q)->credits);
        if (all(credits == depth_of(q) - 1)) return true;
        u32 done = advance(io, lane_id() == 0, queue, finish);
        if (!all(done > 0 || wait.go_on(io, STATUS_TIMEOUT_COMPLETION, queue, ~0ull))) return false;
    }
}

}  // namespace grampus
