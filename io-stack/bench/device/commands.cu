// Kernels of the queues alone: raw commands, the same behind locks, and waits that must end with an error.

// n rounds of one raw command for each lane, of one block each; each round is waited for.
KERNEL raw_commands(ARGUMENTS) {
    FillFinish<CACHE_WAYS> finish(io.cache);
    u32 queue = (u32)(warp_index() % io.queue_count);
    for (u64 i = 0; i < n; i++) {
        Command c = {};
        c.kind = CMD_RAW;
        c.blocks = 1;
        c.bytes = 1u << io.sources[0].lba_log2;
        c.lba = ((warp_index() * n + i) * 32 + lane_id()) % io.sources[0].blocks;
        c.nsid = io.sources[0].nsid;
        if (!run_raw(io, true, queue, c, finish)) return;
    }
    if (warp_index() == 0 && lane_id() == 0) atomicAdd(out, 1ull);
}
// The simplest queue: each thread holds one lock from a command's submission to the end of its completion.
KERNEL locked_commands(ARGUMENTS) {
    const QueueDesc& q = io.queues[0];
    u32 mask = (1u << q.depth_log2) - 1;
    u64 deadline = now_ns() + io.timeout_ns;
    for (u64 i = 0; i < n; i++) {
        bool done = false;
        while (!done) {
            if (cas_acquire_gpu(&q.state->sq_lock, 0u, 1u) == 0) {
                u32 at = load_relaxed_gpu(&q.state->sq_tail);
                u64x2* entry = (u64x2*)&q.sq[at & mask];
                u64 dw0 = NVME_OPC_READ | (u64)(at & mask) << 16;
                store_plain(entry + 0, u64x2{dw0 | (u64)io.sources[0].nsid << 32, 0});
                store_plain(entry + 1, u64x2{0, q.bounce_bus});
                store_plain(entry + 2, u64x2{0, at % rows});
                store_plain(entry + 3, u64x2{0, 0});
                store_release_sys(q.sq_doorbell, (at + 1) & mask);
                u32 phase = (at >> q.depth_log2 & 1) ^ 1;
                while ((load_acquire_sys(&q.cq[at & mask].cid_psf) >> 16 & 1) != phase && now_ns() < deadline) {}
                store_release_sys(q.cq_doorbell, (at + 1) & mask);
                store_relaxed_gpu(&q.state->sq_tail, at + 1);
                store_release_gpu(&q.state->sq_lock, 0u);
                done = true;
                count(&io.stats->commands, 1);
            }
            if (now_ns() > deadline) return;
        }
    }
    if (warp_index() == 0 && lane_id() == 0) atomicAdd(out, 1ull);
}
// Two locks: one is held for the submission only, the other for taking completions.
KERNEL two_locks_commands(ARGUMENTS) {
    const QueueDesc& q = io.queues[0];
    u32 mask = (1u << q.depth_log2) - 1;
    u64 deadline = now_ns() + io.timeout_ns;
    for (u64 i = 0; i < n; i++) {
        u32 at = 0;
        for (bool in = false; !in;) {
            if (now_ns() > deadline) return;
            if (cas_acquire_gpu(&q.state->sq_lock, 0u, 1u) == 0) {
                at = load_relaxed_gpu(&q.state->sq_tail);
                if (at - load_acquire_gpu(&q.state->cq_head) < mask) {
                    u64x2* entry = (u64x2*)&q.sq[at & mask];
                    u64 dw0 = NVME_OPC_READ | (u64)(at & mask) << 16;
                store_plain(entry + 0, u64x2{dw0 | (u64)io.sources[0].nsid << 32, 0});
                    store_plain(entry + 1, u64x2{0, q.bounce_bus});
                    store_plain(entry + 2, u64x2{0, at % rows});
                    store_plain(entry + 3, u64x2{0, 0});
                    store_release_sys(q.sq_doorbell, (at + 1) & mask);
                    store_relaxed_gpu(&q.state->sq_tail, at + 1);
                    in = true;
                }
                store_release_gpu(&q.state->sq_lock, 0u);
            }
            if (!in && cas_acquire_gpu(&q.state->cq_lock, 0u, 1u) == 0) {
                u32 head = load_relaxed_gpu(&q.state->cq_head);
                if ((load_acquire_sys(&q.cq[head & mask].cid_psf) >> 16 & 1) == ((head >> q.depth_log2 & 1) ^ 1)) {
                    store_release_sys(q.cq_doorbell, (head + 1) & mask);
                    store_release_gpu(&q.state->cq_head, head + 1);
                }
                store_release_gpu(&q.state->cq_lock, 0u);
            }
        }
        while ((i32)(load_acquire_gpu(&q.state->cq_head) - at) <= 0) {
            if (now_ns() > deadline) return;
            if (cas_acquire_gpu(&q.state->cq_lock, 0u, 1u) != 0) continue;
            u32 head = load_relaxed_gpu(&q.state->cq_head);
            if ((load_acquire_sys(&q.cq[head & mask].cid_psf) >> 16 & 1) == ((head >> q.depth_log2 & 1) ^ 1)) {
                store_release_sys(q.cq_doorbell, (head + 1) & mask);
                store_release_gpu(&q.state->cq_head, head + 1);
            }
            store_release_gpu(&q.state->cq_lock, 0u);
        }
        count(&io.stats->commands, 1);
    }
    if (warp_index() == 0 && lane_id() == 0) atomicAdd(out, 1ull);
}

// ---- waits that end with an error --------------------------------------------------------------------------

// The first warp pins n lines and then reads one more. In a cache of n lines the kernel must end with an error, not
// hang.
KERNEL pin_all_and_one(ARGUMENTS) {
    if (warp_index() != 0) return;
    const Extent& e = column.extents[0];
    u32 meta = NO_LINE;
    for (u32 lane = 0; lane < n; lane++) {  // one after another: a set's lock is only tried
        for (Wait wait; grampus::any(lane_id() == lane && meta == NO_LINE);) {
            u64 key = e.first_line + lane_id();
            Ensured line = ensure<Queued<>>(io, e, lane_id() == lane, key, all_sectors(io.cache), CMD_FILL, true);
            if (lane_id() == lane) meta = line.meta;
            bool good = line.ok && wait.go_on(io, STATUS_PROTOCOL, ~0u, lane);
            if (!grampus::all(good)) return;
        }
    }
    ColumnArray<u64, Queued<>, true> array(io, column);
    u64 value = 0;
    if (!array.fetch(lane_id() == 0, n * (LINE_BYTES / 8), value)) return;
    if (meta != NO_LINE) unpin(io.cache, meta);
    add_up(value, out);
}
// Waits for nothing: ends when the host sets the abort word.
KERNEL wait_for_nothing(ARGUMENTS) {
    Wait wait;
    while (wait.go_on(io, STATUS_TIMEOUT_COMPLETION, 0, ~0ull)) {}
    if (lane_id() == 0) atomicAdd(out, 1ull);
}
