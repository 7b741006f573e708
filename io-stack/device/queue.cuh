// Submission of commands: lanes hand in commands, and one lane rings for many. docs/PROTOCOL.md has the argument.
#pragma once
#include "copy.cuh"
#include "status.cuh"

namespace grampus {

// One command, as its submitter describes it.
struct Command {
    u64 lba;      // first block
    u64 bus;      // the controller's address for data that is not bounced
    u64 target;   // CMD_RAW, bounced: device address to which the reaper copies; 0: stays in the bounce slot
    u32 blocks;   // 1 .. 65536
    u32 bytes;    // blocks in bytes
    u32 nsid;
    u32 kind;     // CMD_RAW .. CMD_FLUSH
    u32 slot;     // fills and writes: data slot of the first line
    u32 lines;    // fills and writes
    u32 sectors;  // fills and writes of one line
};

GRAMPUS_DEVICE const QueueDesc& queue_at(const IoStack& io, u32 queue) { return io.queues[queue]; }
// Fields of the descriptor, which no kernel writes: the compiler loads each once, also across atomic operations.
GRAMPUS_DEVICE u32 depth_log2_of(const QueueDesc& q) { return load_constant(&q.depth_log2); }
GRAMPUS_DEVICE u32 depth_of(const QueueDesc& q) { return 1u << depth_log2_of(q); }
GRAMPUS_DEVICE QueueState* state_of(const QueueDesc& q) { return load_constant(&q.state); }
GRAMPUS_DEVICE CommandRecord* commands_of(const QueueDesc& q) { return load_constant(&q.commands); }

// ---- command slots (C and F in PROTOCOL.md) ----------------------------------------------------------

// Takes up to `n` credits, but none if fewer than `least` are free; returns how many. The acquire pairs with the
// releases that return credits.
GRAMPUS_DEVICE u32 take_credits(const QueueDesc& q, u32 n, u32 least) {
    GRAMPUS_STEP(take_credits);
    // a look costs less than an addition
    if ((i32)load_relaxed_gpu((u32*)&state_of(q)->credits) < (i32)least) return 0;
    i32 old = (i32)fetch_add_acquire_gpu((u32*)&state_of(q)->credits, 0u - n);
    u32 got = old <= 0 ? 0 : (u32)old < n ? (u32)old : n;
    if (got < n) fetch_add_release_gpu((u32*)&state_of(q)->credits, n - got);
    return got;
}

GRAMPUS_DEVICE void return_credits(const QueueDesc& q, u32 n) {
    GRAMPUS_STEP(return_credits);
    fetch_add_release_gpu((u32*)&state_of(q)->credits, n);
}

// Takes the slot that the free ring holds, or will hold, for `ticket`. FREE_RING_EMPTY: a status is up. The acquire
// pairs with push_slot's release.
GRAMPUS_SLOW u32 pop_slot(const IoStack& io, u32 queue, u32 ticket) {
    const QueueDesc& q = queue_at(io, queue);
    u32* entry = &q.free_ring[ticket & (depth_of(q) - 1)];
    Wait wait;
    for (;;) {
        GRAMPUS_STEP(pop_slot);
        u32 slot = exchange_acquire_gpu(entry, FREE_RING_EMPTY);
        if (slot != FREE_RING_EMPTY) return slot;
        if (!wait.go_on(io, STATUS_TIMEOUT_SUBMIT, queue, ~0ull)) return FREE_RING_EMPTY;
    }
}

// Puts a slot back into the free ring; the release pairs with pop_slot's acquire. The caller returns the credit
// afterwards.
GRAMPUS_SLOW bool push_slot(const IoStack& io, u32 queue, u32 slot) {
    const QueueDesc& q = queue_at(io, queue);
    u32 ticket = fetch_add_relaxed_gpu(&state_of(q)->push_ticket, 1u);
    u32* entry = &q.free_ring[ticket & (depth_of(q) - 1)];
    Wait wait;
    for (;;) {
        GRAMPUS_STEP(push_slot);
        if (cas_release_gpu(entry, FREE_RING_EMPTY, slot) == FREE_RING_EMPTY) return true;
        if (!wait.go_on(io, STATUS_TIMEOUT_SUBMIT, queue, ~0ull)) return false;
    }
}

// ---- submission (T, E, D) ----------------------------------------------------------------------------

GRAMPUS_DEVICE u32 generation_mask(const QueueDesc& q) { return 0xFFFFu >> depth_log2_of(q); }

// The opcode of a kind of command. Kernels that only read contain no other than a read's.
template <class Finish>
GRAMPUS_DEVICE u32 opcode_of(u32 kind) {
    if constexpr (Finish::WRITES)
        return kind == CMD_WRITE ? NVME_OPC_WRITE : kind == CMD_FLUSH ? NVME_OPC_FLUSH : NVME_OPC_READ;
    else
        return NVME_OPC_READ;
}

// Writes the record for `slot`, including the entry. Returns the cid.
template <class Finish>
GRAMPUS_DEVICE u32 write_entry(const QueueDesc& q, const Command& c, u32 slot) {
    CommandRecord* record = &commands_of(q)[slot];
    u32 generation = ((load_relaxed_gpu(&record->state) >> 8) + 1) & generation_mask(q);
    record->kind = c.kind;
    record->slot = c.slot;
    record->lines = c.lines;
    record->sectors = c.sectors;
    record->bytes = c.bytes;
    record->lba = c.lba;
    record->nsid = c.nsid;
    record->target = c.target;
    store_relaxed_gpu(&record->state, generation << 8 | CMD_SUBMITTED);  // the release of the mark hands it over

    GRAMPUS_STEP(write_entry);
    u32 cid = generation << depth_log2_of(q) | slot;
    u32 bounce_bytes = load_constant(&q.bounce_bytes);
    u64 prp1 = c.bytes <= bounce_bytes ? load_constant(&q.bounce_bus) + (u64)slot * bounce_bytes : c.bus;
    u32 first_page = LINE_BYTES - (u32)(prp1 & (LINE_BYTES - 1));
    u64 prp2 = c.bytes > first_page ? (prp1 & ~(u64)(LINE_BYTES - 1)) + LINE_BYTES : 0;
    u32 psdt = 0;
    if (c.bytes > first_page + LINE_BYTES) {  // more than two pages: an SGL data block (NVMe Base 2.0c figure 116)
        psdt = NVME_PSDT_SGL;
        prp2 = c.bytes;
    }
    u32 dw0 = opcode_of<Finish>(c.kind) | psdt << 8 | cid << 16;
    u64x2* entry = (u64x2*)record->entry;
    store_plain(entry + 0, u64x2{dw0 | (u64)c.nsid << 32, 0});
    store_plain(entry + 1, u64x2{0, prp1});
    store_plain(entry + 2, u64x2{prp2, c.lba});
    store_plain(entry + 3, u64x2{c.blocks - 1, 0});
    return cid;
}

GRAMPUS_DEVICE u32 mark_of(const QueueDesc& q, u32 ticket, u32 slot) {
    return ((ticket >> depth_log2_of(q)) + 1) << MARK_SLOT_BITS | slot;
}

// Copies the entries that are ready from `tail` on into the ring. The warp holds sq_lock. Collective; returns the new
// tail.
GRAMPUS_DEVICE u32 gather_entries(const QueueDesc& q, u32 tail) {
    u32 mask = depth_of(q) - 1;
    for (;;) {
        u32 ticket = tail + lane_id();
        u32 mark = load_acquire_gpu(&q.marks[ticket & mask]);  // pairs with the submitter's release
        u32 slot = mark & ((1u << MARK_SLOT_BITS) - 1);
        bool ready = lane_id() <= mask && mark == mark_of(q, ticket, slot);
        u32 run = leading_lanes(ready);
        sync_warp();
        GRAMPUS_STEP(gather);
        for (u32 base = 0; base < run * 4; base += WARP) {  // four lanes for each entry: whole lines cross PCIe
            u32 unit = base + lane_id(), from = shuffle(slot, unit / 4 % WARP);
            if (unit < run * 4) {
                const u64x2* entry = (const u64x2*)commands_of(q)[from].entry;
                store_plain((u64x2*)&q.sq[(tail + unit / 4) & mask] + unit % 4, entry[unit % 4]);
            }
        }
        tail += run;
        if (run < WARP) return tail;
    }
}

// The result of an attempt to ring.
struct Rung {
    u32 locked;  // 1: this lane got the lock of its queue
    u32 tail;    // the queue is rung up to here
};

// One attempt to ring the open lanes' queues, which differ. Queues that another warp is ringing are left out. The cost
// is the fence behind writes that cross PCIe, of which the GPU does one at a time (2 us). One fence therefore serves
// all queues and one more stands behind the doorbells. Collective.
GRAMPUS_SLOW Rung try_ring(const IoStack& io, bool open, u32 queue) {
    const QueueDesc& q = queue_at(io, queue);
    QueueState* state = state_of(q);
    u32 locked = 0, start = 0, tail = 0;
    GRAMPUS_STEP(sq_lock);
    if (open) locked = load_relaxed_gpu(&state->sq_lock) == 0 && cas_acquire_gpu(&state->sq_lock, 0u, 1u) == 0;
    if (locked != 0) tail = start = load_relaxed_gpu(&state->sq_tail);
    for (u32 rest = ballot(locked != 0); rest != 0; rest &= rest - 1) {
        u32 from = lowest_bit(rest);
        u32 moved = gather_entries(queue_at(io, shuffle(queue, from)), shuffle(start, from));
        if (lane_id() == from) tail = moved;
    }
    if (any(tail != start)) {
        // D: this warp has copied what the submitters released to the device (mark release, mark acquire). The fence
        // orders those copies before the doorbell, for all lanes.
        fence_acq_rel_sys();
        sync_warp();
    }
    if (tail != start) {
        u32 index = tail & (depth_of(q) - 1);
        GRAMPUS_STEP(ring);
        if (q.flags & QUEUE_MMIO)
            store_mmio(q.sq_doorbell, index);
        else if (GRAMPUS_MUTANT == MUTANT_RING_BEFORE_FENCE)
            store_relaxed_sys(q.sq_doorbell, index);
        else
            store_after_fence_sys(q.sq_doorbell, index);
        store_relaxed_gpu(&state->sq_tail, tail);
        count(&io.stats->doorbells, 1);
    }
    if (locked != 0) {
        GRAMPUS_STEP(sq_unlock);
        store_release_gpu(&state->sq_lock, 0u);
    }
    return Rung{locked, tail};
}

// Returns when the leading lanes' queues are rung up to `target`, by this warp or by another. Collective. False: a
// status is up.
GRAMPUS_SLOW bool ring(const IoStack& io, bool open, u32 queue, u32 target) {
    QueueState* state = state_of(queue_at(io, queue));
    Wait wait;
    for (;;) {
        if (open && (i32)(load_relaxed_gpu(&state->sq_tail) - target) >= 0) open = false;
        if (!any(open)) return true;
        Rung rung = try_ring(io, open, queue);
        if (rung.locked != 0 && (i32)(rung.tail - target) >= 0) open = false;
        bool good = !open || wait.go_on(io, STATUS_TIMEOUT_SUBMIT, queue, ~0ull);
        if (!all(good)) return false;
    }
}

// Whether some entries are unrung, or still being written.
GRAMPUS_DEVICE bool unrung(const QueueDesc& q) {
    return load_relaxed_gpu(&state_of(q)->sq_tail) != load_relaxed_gpu(&state_of(q)->sq_ticket);
}

template <class Finish>
GRAMPUS_SLOW u32 reap(const IoStack& io, bool open, u32 queue, const Finish& finish);

// For a warp that waits for anything on the open lanes' queues: rings entries left to servers, and reaps. The servers
// may be late or absent. Collective; returns the number of completions taken.
template <class Finish>
GRAMPUS_SLOW u32 advance(const IoStack& io, bool open, u32 queue, const Finish& finish) {
    u32 peers = match(open ? queue : ~0u);
    open = open && lane_id() == lowest_bit(peers);
    if (io.servers > 0 && GRAMPUS_MUTANT != MUTANT_WAITERS_DO_NOT_RING) {
        bool left = open && unrung(queue_at(io, queue));
        if (any(left)) try_ring(io, left, queue);
    }
    return reap(io, open, queue, finish);
}

// Number of commands that hold slots.
GRAMPUS_DEVICE u32 slots_held(const QueueDesc& q) {
    return load_relaxed_gpu(&state_of(q)->pop_ticket) - load_relaxed_gpu(&state_of(q)->push_ticket) + depth_of(q) - 1;
}

// The reason of a wait: an entry that is never rung, a command that never ends, or neither.
GRAMPUS_DEVICE StatusCode cause(const QueueDesc& q, const Wait& wait, StatusCode otherwise) {
    if (!wait.due()) return otherwise;
    if (unrung(q)) return STATUS_TIMEOUT_SUBMIT;
    return slots_held(q) > 0 ? STATUS_TIMEOUT_COMPLETION : otherwise;
}

// The result of a lane's submission.
struct Submitted {
    bool ok;    // false: a status is up
    bool rung;  // the command is submitted
    u32 cid;
};

// Submits one command for each lane with `wanted` that gets a slot, for at least one lane. The queues may differ. While
// no lane gets a slot, the warp reaps. Collective.
template <class Finish>
GRAMPUS_SLOW Submitted submit_some(const IoStack& io, bool wanted, u32 queue, const Command& command,
                                   const Finish& finish) {
    Submitted result = {false, false, 0};
    const QueueDesc& q = queue_at(io, queue);
    // Loaded here, together: each load by itself would be a trip to L2, because acquires empty L1.
    QueueState* state = state_of(q);
    u32 depth = depth_of(q), *free_ring = load_constant(&q.free_ring), *marks = load_constant(&q.marks);
    u32 todo = ballot(wanted), peers = match(wanted ? queue : ~0u);
    u32 leader = lowest_bit(peers), rank = count_bits(peers & lanes_below());
    bool leads = wanted && lane_id() == leader;
    Wait wait;
    GRAMPUS_NO_UNROLL
    while (todo != 0) {
        u32 granted = 0, ticket = 0;
        if (leads) {
            // Asks for all slots at first, and accepts fewer after several attempts: each grant costs a doorbell.
            u32 n = count_bits(peers), most = depth - 1;
            granted = take_credits(q, n, wait.tries >= 8 ? 1 : n < most ? n : most);
            if (granted > 0) ticket = fetch_add_relaxed_gpu(&state->pop_ticket, granted);
        }
        if (!any(granted > 0)) {  // helps to free slots
            u32 done = advance(io, wanted, queue, finish);
            StatusCode code = cause(q, wait, STATUS_TIMEOUT_SUBMIT);
            if (!all(done > 0 || wait.go_on(io, code, queue, ~0ull))) return result;
            continue;
        }
        // Collectives stand alone: behind && or ?: some lanes would not take part.
        u32 places = shuffle(granted, leader);
        ticket = shuffle(ticket, leader);
        bool go = wanted && rank < places, good = true;
        u32 slot = 0;
        if (go) {
            GRAMPUS_STEP(pop_slot);
            slot = exchange_acquire_gpu(&free_ring[(ticket + rank) & (depth - 1)], FREE_RING_EMPTY);
            if (slot == FREE_RING_EMPTY) slot = pop_slot(io, queue, ticket + rank);  // another lane is still pushing it
            good = slot != FREE_RING_EMPTY;
        }
        if (!all(good)) return result;
        if constexpr (Finish::WRITES) {  // before the ticket: entries behind it must not wait
            if (!finish.copy_out(io, go, queue, slot, command)) return result;
        }
        // T: acquire and release. The credit that proves the entry free may have been taken by another lane; the chain
        // of additions orders that lane's acquire before this write.
        if (granted > 0) ticket = fetch_add_acq_rel_gpu(&state->sq_ticket, granted);
        ticket = shuffle(ticket, leader);
        if (go) {
            u32* mark = &marks[(ticket + rank) & (depth - 1)];
            if (GRAMPUS_MUTANT == MUTANT_MARK_BEFORE_ENTRY) store_release_gpu(mark, mark_of(q, ticket + rank, slot));
            result.cid = write_entry<Finish>(q, command, slot);
            GRAMPUS_STEP(mark);
            store_release_gpu(mark, mark_of(q, ticket + rank, slot));
        }
        sync_warp();
        if (granted > 0) count(&io.stats->commands, granted);
        // A fill's entry may be left to the servers. If no server rings it, the warp that waits for the fill does
        // (advance).
        bool left = io.servers > 0 && all(!wanted || command.kind != CMD_RAW);
        result.ok = left || ring(io, granted > 0, queue, ticket + granted);
        result.rung = go;
        return result;
    }
    result.ok = true;
    return result;
}

// Submits the commands of all lanes. Only for fills and writes, whose slots come back by themselves: a warp that holds
// raw commands and waits for slots would wait for itself. Collective. False: a status is up.
template <class Finish>
GRAMPUS_DEVICE bool submit(const IoStack& io, bool wanted, u32 queue, const Command& command, const Finish& finish) {
    while (any(wanted)) {
        Submitted sent = submit_some(io, wanted, queue, command, finish);
        if (!sent.ok) return false;
        if (sent.rung) wanted = false;
    }
    return true;
}

}  // namespace grampus
