// c = a + b over columns in files, by stores through the cache, and the flush behind them. Stands behind the headers of
// `writable_prelude`.
using namespace grampus;

struct VectorAdd {
    IoStack io;
    ColumnDesc a, b, c;
    u64 rows;
    u32* arrived;  // zero before each flush
    u64* total;    // of read_tiles, zero before
    u64 pad0;
};

// Tiles of 4 KiB: a warp stores whole sectors, which are therefore not fetched.
GRAMPUS_KERNEL(add_tiles, VectorAdd, p) {
    constexpr u32 ROWS = LINE_BYTES / 8, K = ROWS / WARP;
    ColumnArray<u64, Writable<>, true> a(p.io, p.a), b(p.io, p.b), c(p.io, p.c);
    for (u64 row = (u64)launch_warp() * ROWS; row < p.rows; row += (u64)launch_warps() * ROWS) {
        u32 rows = p.rows - row < ROWS ? (u32)(p.rows - row) : ROWS;
        u64 sum[K], more[K];
        if (!a.tile_anywhere<K>(row, rows, sum) || !b.tile_anywhere<K>(row, rows, more)) return;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) sum[i] += more[i];
        if (!c.store_tile<K>(row, rows, sum)) return;
    }
}

// Stores without reads: each row's number.
GRAMPUS_KERNEL(store_tiles, VectorAdd, p) {
    constexpr u32 ROWS = LINE_BYTES / 8, K = ROWS / WARP;
    ColumnArray<u64, Writable<>, true> c(p.io, p.c);
    for (u64 row = (u64)launch_warp() * ROWS; row < p.rows; row += (u64)launch_warps() * ROWS) {
        u32 rows = p.rows - row < ROWS ? (u32)(p.rows - row) : ROWS;
        u64 number[K];
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) number[i] = row + i * WARP + lane_id();
        if (!c.store_tile<K>(row, rows, number)) return;
    }
}

// Each lane stores single rows, which lie far apart. `rows` is odd, so that the products name each row once.
GRAMPUS_KERNEL(add_scattered, VectorAdd, p) {
    ColumnArray<u64, Writable<>, true> a(p.io, p.a), b(p.io, p.b), c(p.io, p.c);
    for (u64 first = (u64)launch_warp() * WARP; first < p.rows; first += (u64)launch_warps() * WARP) {
        u64 row = (first + lane_id()) * 4096 % p.rows, sum, more;
        bool active = first + lane_id() < p.rows;
        if (!a.fetch(active, row, sum) || !b.fetch(active, row, more)) return;
        if (!c.store(active, row, sum + more)) return;
    }
}

// A store is on the storage when it returns.
GRAMPUS_KERNEL(add_through, VectorAdd, p) {
    typedef Writable<Clock, CACHE_WAYS, true> Through;
    constexpr u32 ROWS = LINE_BYTES / 8, K = ROWS / WARP;
    ColumnArray<u64, Through, true> a(p.io, p.a), b(p.io, p.b), c(p.io, p.c);
    for (u64 row = (u64)launch_warp() * ROWS; row < p.rows; row += (u64)launch_warps() * ROWS) {
        u32 rows = p.rows - row < ROWS ? (u32)(p.rows - row) : ROWS;
        u64 sum[K], more[K];
        if (!a.tile_anywhere<K>(row, rows, sum) || !b.tile_anywhere<K>(row, rows, more)) return;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) sum[i] += more[i];
        if (!c.store_tile<K>(row, rows, sum)) return;
    }
}

// Reads both columns without stores, for comparison.
GRAMPUS_KERNEL(read_tiles, VectorAdd, p) {
    constexpr u32 ROWS = LINE_BYTES / 8, K = ROWS / WARP;
    ColumnArray<u64, Queued<>, true> a(p.io, p.a), b(p.io, p.b);
    u64 total = 0;
    for (u64 row = (u64)launch_warp() * ROWS; row < p.rows; row += (u64)launch_warps() * ROWS) {
        u32 rows = p.rows - row < ROWS ? (u32)(p.rows - row) : ROWS;
        u64 sum[K], more[K];
        if (!a.tile_anywhere<K>(row, rows, sum) || !b.tile_anywhere<K>(row, rows, more)) return;
        GRAMPUS_UNROLL
        for (u32 i = 0; i < K; i++) total += sum[i] + more[i];
    }
    add_relaxed_gpu(p.total, total);
}

// Makes all stores of earlier launches durable.
GRAMPUS_KERNEL(flush_stores, VectorAdd, p) {
    flush<Writable<>>(p.io, launch_warp(), launch_warps(), p.arrived);
}
