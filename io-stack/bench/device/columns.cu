// Kernels that read a column through a ColumnArray: one for each backing and access pattern, and the filling of the
// cache.

// Puts lines first_line .. first_line + lines - 1 into an empty cache, as if they had been fetched.
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

// Sum of all rows. A warp takes n rows at a time, in tiles of K * 32. With ALIGNED, n is whole tiles and rows is a
// multiple of n, which makes shorter code.
template <class Backing, bool ALIGNED = true, u32 K = 16>
static __device__ __forceinline__ void sum_tiles(PARAMETERS) {
    ColumnArray<u64, Backing, ALIGNED> array(io, column);
    u64 sum = 0, value[K];
    for (u64 from = warp_index() * n; from < rows; from += warp_count() * n) {
        u64 end = ALIGNED || from + n < rows ? from + n : rows;
        for (u64 row = from; row < end; row += K * 32) {
            u32 left = ALIGNED || end - row > K * 32 ? K * 32 : (u32)(end - row);
            if (!array.template tile<K>(row, left, value)) return;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) sum += value[i];
        }
    }
    add_up(sum, out);
}
// Sum of n scattered tiles of K * 32 rows.
template <class Backing, u32 K>
static __device__ __forceinline__ void sum_scattered(PARAMETERS) {
    ColumnArray<u64, Backing, true> array(io, column);
    u64 sum = 0, value[K];
    for (u64 i = warp_index(); i < n; i += warp_count()) {
        if (!array.template tile<K, false>(scattered(i, rows / (K * 32)) * (K * 32), K * 32, value)) return;
        GRAMPUS_UNROLL
        for (u32 k = 0; k < K; k++) sum += value[k];
    }
    add_up(sum, out);
}
// Sum of n scattered single rows.
template <class Backing, bool ALIGNED = true>
static __device__ __forceinline__ void sum_rows(PARAMETERS) {
    ColumnArray<u64, Backing, ALIGNED> array(io, column);
    u64 sum = 0, value;
    for (u64 i = warp_index(); i < n / 32; i += warp_count()) {
        if (!array.fetch(true, scattered(i * 32 + lane_id(), rows), value)) return;
        sum += value;
    }
    add_up(sum, out);
}
// Number of words of rows 0 .. rows - 1 that differ from what their position says.
template <class Backing>
static __device__ __forceinline__ void count_wrong(PARAMETERS) {
    ColumnArray<u64, Backing, true> array(io, column);
    u64 wrong = 0, value[8];
    for (u64 row = warp_index() * 256; row < rows; row += warp_count() * 256) {
        if (!array.template tile<8>(row, 256, value)) return;
        for (u32 i = 0; i < 8; i++) wrong += value[i] != word_at(n + row + i * 32 + lane_id());
    }
    add_up(wrong, out);
}
KERNEL tiles_queued(ARGUMENTS) { sum_tiles<Queued<>>(io, column, rows, n, out); }
KERNEL tiles_queued_8(ARGUMENTS) { sum_tiles<Queued<>, true, 8>(io, column, rows, n, out); }
KERNEL tiles_queued_unaligned(ARGUMENTS) { sum_tiles<Queued<Fifo>, false, 8>(io, column, rows, n, out); }
KERNEL tiles_mapped(ARGUMENTS) { sum_tiles<Mapped>(io, column, rows, n, out); }
KERNEL tiles_mapped_unaligned(ARGUMENTS) { sum_tiles<Mapped, false>(io, column, rows, n, out); }
KERNEL tiles_mapped_cached(ARGUMENTS) { sum_tiles<MappedCached<>>(io, column, rows, n, out); }
KERNEL queued_4k(ARGUMENTS) { sum_scattered<Queued<>, 16>(io, column, rows, n, out); }
KERNEL mapped_4k(ARGUMENTS) { sum_scattered<Mapped, 16>(io, column, rows, n, out); }
KERNEL mapped_512(ARGUMENTS) { sum_scattered<Mapped, 2>(io, column, rows, n, out); }
KERNEL rows_queued(ARGUMENTS) { sum_rows<Queued<>>(io, column, rows, n, out); }
KERNEL rows_queued_unaligned(ARGUMENTS) { sum_rows<Queued<>, false>(io, column, rows, n, out); }
KERNEL rows_mapped(ARGUMENTS) { sum_rows<Mapped>(io, column, rows, n, out); }
KERNEL rows_mapped_cached(ARGUMENTS) { sum_rows<MappedCached<Fifo>>(io, column, rows, n, out); }
KERNEL wrong_queued(ARGUMENTS) { count_wrong<Queued<>>(io, column, rows, n, out); }
KERNEL wrong_mapped(ARGUMENTS) { count_wrong<Mapped>(io, column, rows, n, out); }
// Half a warp for each 128 bytes.
KERNEL mapped_128(ARGUMENTS) {
    ColumnArray<u64, Mapped, true> array(io, column);
    u64 sum = 0, value;
    for (u64 i = warp_index() * 2 + lane_id() / 16; i < n; i += warp_count() * 2) {
        if (!array.fetch(true, scattered(i, rows / 16) * 16 + lane_id() % 16, value)) return;
        sum += value;
    }
    add_up(sum, out);
}

// Long commands: each warp asks for n rows, and for its next n while it reads these.
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
