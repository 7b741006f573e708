// One kernel for each way to fetch, as small as a kernel can be around it: what NVRTC's registers, spills and compile
// time are read from, and what the microbenchmarks run. Appended to the device headers.
using namespace grampus;

// Device code keeps to 64 registers with this bound: four blocks of 256 threads on a multiprocessor.
#define KERNEL extern "C" __global__ void __launch_bounds__(256, 4)

static __device__ __forceinline__ u64 warp_index() { return ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; }
static __device__ __forceinline__ u64 warp_count() { return (u64)gridDim.x * blockDim.x / 32; }
static __device__ __forceinline__ void add_up(double sum, double* out) {
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_down_sync(FULL, sum, by);
    if (lane_id() == 0) atomicAdd(out, sum);
}

// Sum of all rows; a warp takes `run` rows at a time, in tiles of K * 32. With ALIGNED, `run` is whole tiles, which makes shorter code.
template <class Backing, bool ALIGNED, u32 K>
static __device__ __forceinline__ void sum_tiles(const IoStack& io, const ColumnDesc& column, u64 rows, u64 run, double* out) {
    ColumnArray<double, Backing, ALIGNED> array(io, column);
    double sum = 0;
    for (u64 from = warp_index() * run; from < rows; from += warp_count() * run) {
        u64 end = from + run < rows ? from + run : rows;
        for (u64 row = from; row < end; row += K * 32) {
            double value[K];
            u32 left = ALIGNED || end - row > K * 32 ? K * 32 : (u32)(end - row);
            if (!array.template tile<K>(row, left, value)) return;
            GRAMPUS_UNROLL
            for (u32 i = 0; i < K; i++) sum += value[i];
        }
    }
    add_up(sum, out);
}

// Sum over scattered rows: tiles of K * 32 rows each, `tiles` of them, at rows given by a hash.
template <class Backing, bool ALIGNED, u32 K>
static __device__ __forceinline__ void sum_scattered(const IoStack& io, const ColumnDesc& column, u64 rows, u64 tiles, double* out) {
    ColumnArray<double, Backing, ALIGNED> array(io, column);
    double sum = 0;
    for (u64 i = warp_index(); i < tiles; i += warp_count()) {
        double value[K];
        u64 row = (i * 0x9E3779B97F4A7C15ull >> 20) % (rows / (K * 32)) * (K * 32);
        if (!array.template tile<K, false>(row, K * 32, value)) return;
        GRAMPUS_UNROLL
        for (u32 j = 0; j < K; j++) sum += value[j];
    }
    add_up(sum, out);
}

// Sum over scattered single rows.
template <class Backing, bool ALIGNED>
static __device__ __forceinline__ void sum_rows(const IoStack& io, const ColumnDesc& column, u64 rows, u64 count, double* out) {
    ColumnArray<double, Backing, ALIGNED> array(io, column);
    double sum = 0;
    for (u64 i = warp_index(); i < count / 32; i += warp_count()) {
        double value;
        if (!array.fetch(true, ((i * 32 + lane_id()) * 0x9E3779B97F4A7C15ull >> 20) % rows, value)) return;
        sum += value;
    }
    add_up(sum, out);
}

#define ARGUMENTS const __grid_constant__ IoStack io, const __grid_constant__ ColumnDesc column, u64 rows, u64 n, double *out
KERNEL tile_mapped(ARGUMENTS) { sum_tiles<Mapped, true, 16>(io, column, rows, n, out); }
KERNEL tile_mapped_unaligned(ARGUMENTS) { sum_tiles<Mapped, false, 16>(io, column, rows, n, out); }
KERNEL tile_mapped_cached(ARGUMENTS) { sum_tiles<MappedCached<>, true, 16>(io, column, rows, n, out); }
KERNEL tile_queued(ARGUMENTS) { sum_tiles<Queued<>, true, 16>(io, column, rows, n, out); }
KERNEL tile_queued_8(ARGUMENTS) { sum_tiles<Queued<>, true, 8>(io, column, rows, n, out); }
KERNEL tile_queued_unaligned(ARGUMENTS) { sum_tiles<Queued<Fifo>, false, 8>(io, column, rows, n, out); }
KERNEL scattered_mapped_4k(ARGUMENTS) { sum_scattered<Mapped, true, 16>(io, column, rows, n, out); }
KERNEL scattered_mapped_512(ARGUMENTS) { sum_scattered<Mapped, true, 2>(io, column, rows, n, out); }
KERNEL scattered_queued_4k(ARGUMENTS) { sum_scattered<Queued<>, true, 16>(io, column, rows, n, out); }
KERNEL rows_mapped(ARGUMENTS) { sum_rows<Mapped, true>(io, column, rows, n, out); }
KERNEL rows_queued(ARGUMENTS) { sum_rows<Queued<>, true>(io, column, rows, n, out); }
KERNEL rows_queued_unaligned(ARGUMENTS) { sum_rows<Queued<>, false>(io, column, rows, n, out); }
KERNEL rows_mapped_cached(ARGUMENTS) { sum_rows<MappedCached<Fifo>, true>(io, column, rows, n, out); }

// Asks ahead for `n` rows at a time; a warp each.
KERNEL ahead_queued(ARGUMENTS) {
    ColumnArray<double, Queued<>, true> array(io, column);
    for (u64 row = warp_index() * n; row < rows; row += warp_count() * n)
        if (!array.ahead(row, n)) return;
}

// Raw commands of one block each, `n` rounds of one per lane, each waited for. `rows`: blocks to choose from.
KERNEL raw_commands(ARGUMENTS) {
    FillFinish<CACHE_WAYS> finish(io.cache);
    u32 queue = (u32)(warp_index() % io.queue_count);
    for (u64 i = 0; i < n; i++) {
        Command c = {};
        c.kind = CMD_RAW;
        c.blocks = 1;
        c.bytes = 1u << io.sources[0].lba_log2;
        c.lba = ((warp_index() * n + i) * 32 + lane_id()) % rows;
        c.nsid = io.sources[0].nsid;
        if (!run_raw(io, true, queue, c, finish)) return;
    }
}
