// The microbenchmarks' kernels, each beside a plain one of the same shape. Appended to common.cu.

// ---- data ------------------------------------------------------------------------------------------------

KERNEL fill_words(u64* data, u64 rows) {
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += (u64)gridDim.x * blockDim.x) data[i] = word_at(i);
}
// Lines first_line .. first_line + lines - 1 into an empty cache, as if they had been fetched.
KERNEL fill_cache(const __grid_constant__ IoStack io, u64 first_line, u64 lines) {
    const CacheDesc& c = io.cache;
    for (u64 line = warp_index(); line < lines; line += warp_count()) {
        u64 key = first_line + line;
        u32 meta = set_of(c, key) * CACHE_WAYS + (u32)(line / c.set_count % CACHE_WAYS);
        u64* to = (u64*)bytes_of<CACHE_WAYS>(c, meta);
        for (u32 i = lane_id(); i < LINE_BYTES / 8; i += 32) to[i] = word_at(line * (LINE_BYTES / 8) + i);
        if (lane_id() == 0) {
            c.tags[meta] = key;
            c.requested[meta] = all_sectors(c);
            c.state[meta] = (u64)all_sectors(c) << LINE_VALID_SHIFT | LINE_REF;
        }
    }
}

// ---- plain -----------------------------------------------------------------------------------------------

KERNEL plain_scan(PLAIN) {
    const ulonglong2* pairs = (const ulonglong2*)data;
    u64 sum = 0, step = (u64)gridDim.x * blockDim.x, count = rows / 2, i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        ulonglong2 a = pairs[i], b = pairs[i + step], c = pairs[i + 2 * step], d = pairs[i + 3 * step];
        sum += a.x + a.y + b.x + b.y + c.x + c.y + d.x + d.y;
    }
    for (; i < count; i += step) sum += pairs[i].x + pairs[i].y;
    add_up(sum, out);
}
template <u32 K>
static __device__ __forceinline__ void plain_tile_of(const u64* data, u64 row, u64& sum) {
    u64 v[K];
    GRAMPUS_UNROLL
    for (u32 i = 0; i < K; i++) v[i] = data[row + i * 32 + lane_id()];
    GRAMPUS_UNROLL
    for (u32 i = 0; i < K; i++) sum += v[i];
}
KERNEL plain_tiles(PLAIN) {  // a warp takes n rows at a time, in tiles of 512
    u64 sum = 0;
    for (u64 from = warp_index() * n; from < rows; from += warp_count() * n)
        for (u64 row = from; row < from + n; row += 512) plain_tile_of<16>(data, row, sum);
    add_up(sum, out);
}
KERNEL plain_4k(PLAIN) {
    u64 sum = 0;
    for (u64 i = warp_index(); i < n; i += warp_count()) plain_tile_of<16>(data, scattered(i, rows / 512) * 512, sum);
    add_up(sum, out);
}
KERNEL plain_512(PLAIN) {
    u64 sum = 0;
    for (u64 i = warp_index(); i < n; i += warp_count()) plain_tile_of<2>(data, scattered(i, rows / 64) * 64, sum);
    add_up(sum, out);
}
KERNEL plain_128(PLAIN) {  // half a warp each
    u64 sum = 0;
    for (u64 i = warp_index() * 2 + lane_id() / 16; i < n; i += warp_count() * 2)
        sum += data[scattered(i, rows / 16) * 16 + lane_id() % 16];
    add_up(sum, out);
}
KERNEL plain_rows(PLAIN) {
    u64 sum = 0;
    for (u64 i = warp_index(); i < n / 32; i += warp_count()) sum += data[scattered(i * 32 + lane_id(), rows)];
    add_up(sum, out);
}
// Expected sum of plain_4k's walk, from the positions alone.
KERNEL expected_4k(PLAIN) {
    u64 sum = 0;
    for (u64 i = warp_index(); i < n; i += warp_count())
        for (u32 k = 0; k < 16; k++) sum += word_at(scattered(i, rows / 512) * 512 + k * 32 + lane_id());
    add_up(sum, out);
}

// ---- column arrays ---------------------------------------------------------------------------------------

template <class Backing>
static __device__ __forceinline__ void sum_tiles(const IoStack& io, const ColumnDesc& column, u64 rows, u64 n, u64* out) {
    ColumnArray<u64, Backing, true> array(io, column);
    u64 sum = 0, value[16];
    for (u64 from = warp_index() * n; from < rows; from += warp_count() * n)
        for (u64 row = from; row < from + n; row += 512) {
            if (!array.template tile<16>(row, 512, value)) return;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < 16; i++) sum += value[i];
        }
    add_up(sum, out);
}
template <class Backing, u32 K>
static __device__ __forceinline__ void sum_scattered(const IoStack& io, const ColumnDesc& column, u64 rows, u64 n, u64* out) {
    ColumnArray<u64, Backing, true> array(io, column);
    u64 sum = 0, value[K];
    for (u64 i = warp_index(); i < n; i += warp_count()) {
        if (!array.template tile<K, false>(scattered(i, rows / (K * 32)) * (K * 32), K * 32, value)) return;
        GRAMPUS_UNROLL
        for (u32 k = 0; k < K; k++) sum += value[k];
    }
    add_up(sum, out);
}
template <class Backing>
static __device__ __forceinline__ void sum_rows(const IoStack& io, const ColumnDesc& column, u64 rows, u64 n, u64* out) {
    ColumnArray<u64, Backing, true> array(io, column);
    u64 sum = 0, value;
    for (u64 i = warp_index(); i < n / 32; i += warp_count()) {
        if (!array.fetch(true, scattered(i * 32 + lane_id(), rows), value)) return;
        sum += value;
    }
    add_up(sum, out);
}
// How many words of rows 0 .. rows-1 are not what their position says.
template <class Backing, bool ALIGNED>
static __device__ __forceinline__ void count_wrong(const IoStack& io, const ColumnDesc& column, u64 rows, u64 n, u64* out) {
    ColumnArray<u64, Backing, ALIGNED> array(io, column);
    u64 wrong = 0, value[8];
    for (u64 row = warp_index() * 256; row < rows; row += warp_count() * 256) {
        if (!array.template tile<8>(row, 256, value)) return;
        for (u32 i = 0; i < 8; i++) wrong += value[i] != word_at(n + row + i * 32 + lane_id());
    }
    add_up(wrong, out);
}
KERNEL tiles_queued(ARGUMENTS) { sum_tiles<Queued<>>(io, column, rows, n, out); }
KERNEL tiles_mapped(ARGUMENTS) { sum_tiles<Mapped>(io, column, rows, n, out); }
KERNEL tiles_mapped_cached(ARGUMENTS) { sum_tiles<MappedCached<>>(io, column, rows, n, out); }
KERNEL queued_4k(ARGUMENTS) { sum_scattered<Queued<>, 16>(io, column, rows, n, out); }
KERNEL mapped_4k(ARGUMENTS) { sum_scattered<Mapped, 16>(io, column, rows, n, out); }
KERNEL mapped_512(ARGUMENTS) { sum_scattered<Mapped, 2>(io, column, rows, n, out); }
KERNEL rows_queued(ARGUMENTS) { sum_rows<Queued<>>(io, column, rows, n, out); }
KERNEL wrong_queued(ARGUMENTS) { count_wrong<Queued<>, true>(io, column, rows, n, out); }
KERNEL wrong_mapped(ARGUMENTS) { count_wrong<Mapped, true>(io, column, rows, n, out); }
KERNEL mapped_128(ARGUMENTS) {
    ColumnArray<u64, Mapped, true> array(io, column);
    u64 sum = 0, value;
    for (u64 i = warp_index() * 2 + lane_id() / 16; i < n; i += warp_count() * 2) {
        if (!array.fetch(true, scattered(i, rows / 16) * 16 + lane_id() % 16, value)) return;
        sum += value;
    }
    add_up(sum, out);
}

// ---- long commands, asked for ahead ------------------------------------------------------------------------

// Each warp asks for n rows, and for its next n while it reads these.
KERNEL ahead_queued(ARGUMENTS) {
    ColumnArray<u64, Queued<>, true> array(io, column);
    u64 sum = 0, value[16], step = warp_count() * n, from = warp_index() * n;
    if (from < rows && !array.ahead(from, n)) return;
    for (; from < rows; from += step) {
        if (from + step < rows && !array.ahead(from + step, n)) return;
        for (u64 row = from; row < from + n; row += 512) {
            if (!array.tile<16>(row, 512, value)) return;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < 16; i++) sum += value[i];
        }
    }
    add_up(sum, out);
}

// ---- empty commands ----------------------------------------------------------------------------------------

// n rounds of one block per lane, each waited for.
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
// The queue that everybody would write first: one lock for a whole command, submission to completion's end, per thread.
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
                store_plain(entry + 0, u64x2{NVME_OPC_READ | (u64)(at & mask) << 16 | (u64)io.sources[0].nsid << 32, 0});
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
// A better lock: held for the submission only, and another for taking what has completed. Per-thread completion words in `marks`.
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
                    store_plain(entry + 0, u64x2{NVME_OPC_READ | (u64)(at & mask) << 16 | (u64)io.sources[0].nsid << 32, 0});
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

// ---- troubles ----------------------------------------------------------------------------------------------

// The first warp pins n lines and, holding them, wants one more: must end with an error if the cache has n lines, not hang.
KERNEL pin_all_and_one(ARGUMENTS) {
    if (warp_index() != 0) return;
    const Extent& e = column.extents[0];
    u32 meta = NO_LINE;
    for (u32 lane = 0; lane < n; lane++) {  // one after another, since a set's lock is only tried
        for (Wait wait; grampus::any(lane_id() == lane && meta == NO_LINE);) {
            Ensured line = ensure<Queued<>>(io, e, lane_id() == lane, e.first_line + lane_id(), all_sectors(io.cache), true);
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
// Waits for what never comes: ends when the host says so.
KERNEL wait_for_nothing(ARGUMENTS) {
    Wait wait;
    while (wait.go_on(io, STATUS_TIMEOUT_COMPLETION, 0, ~0ull)) {}
    if (lane_id() == 0) atomicAdd(out, 1ull);
}
