// Kernels without the I/O stack: the data, the expected sums, and a plain kernel of the shape of each measured one.

KERNEL fill_words(u64* data, u64 rows) {
    u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < rows; i += step) data[i] = word_at(i);
}
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
// A warp takes n rows at a time, in tiles of 512.
KERNEL plain_tiles(PLAIN) {
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
// Half a warp for each 128 bytes.
KERNEL plain_128(PLAIN) {
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
// The sum of plain_4k's rows, from the positions alone.
KERNEL expected_4k(PLAIN) {
    u64 sum = 0;
    for (u64 i = warp_index(); i < n; i += warp_count())
        for (u32 k = 0; k < 16; k++) sum += word_at(scattered(i, rows / 512) * 512 + k * 32 + lane_id());
    add_up(sum, out);
}

// ---- single operations, taken by many warps at once -----------------------------------------------------------

enum Operation : u32 {
    STORE_HOST_FENCE_SYS,
    STORE_HOST_FENCE_GPU,
    STORE_DEVICE_FENCE_SYS,
    STORE_DEVICE_FENCE_GPU,
    LOAD_HOST_ACQUIRE,
    LOAD_HOST_ONE_LANE,
    PAUSE,
};
#define OPERATION u32 *host, u32 *device, u32 n, u64 *out
template <Operation WHAT>
static __device__ __forceinline__ void repeat(u32* host, u32* device, u32 n, u64* out) {
    u64 sum = 0;
    u32* far = host + warp_index() * 32 + lane_id();
    u32* near = device + warp_index() * 32 + lane_id();
    for (u32 i = 0; i < n; i++) {
        if (WHAT == STORE_HOST_FENCE_SYS || WHAT == STORE_HOST_FENCE_GPU) store_relaxed_sys(far, i);
        if (WHAT == STORE_DEVICE_FENCE_SYS || WHAT == STORE_DEVICE_FENCE_GPU) store_relaxed_gpu(near, i);
        if (WHAT == STORE_HOST_FENCE_SYS || WHAT == STORE_DEVICE_FENCE_SYS) fence_acq_rel_sys();
        if (WHAT == STORE_HOST_FENCE_GPU || WHAT == STORE_DEVICE_FENCE_GPU) fence_acq_rel_gpu();
        if (WHAT == LOAD_HOST_ACQUIRE) sum += load_acquire_sys(far);
        if (WHAT == LOAD_HOST_ONE_LANE && lane_id() == 0) sum += load_relaxed_sys(far);
        if (WHAT == PAUSE) pause_ns(1000);
    }
    if (sum == ~0ull) *out = 1;  // never: keeps the loads
}
KERNEL store_host_fence_sys(OPERATION) { repeat<STORE_HOST_FENCE_SYS>(host, device, n, out); }
KERNEL store_host_fence_gpu(OPERATION) { repeat<STORE_HOST_FENCE_GPU>(host, device, n, out); }
KERNEL store_device_fence_sys(OPERATION) { repeat<STORE_DEVICE_FENCE_SYS>(host, device, n, out); }
KERNEL store_device_fence_gpu(OPERATION) { repeat<STORE_DEVICE_FENCE_GPU>(host, device, n, out); }
KERNEL load_host_acquire(OPERATION) { repeat<LOAD_HOST_ACQUIRE>(host, device, n, out); }
KERNEL load_host_one_lane(OPERATION) { repeat<LOAD_HOST_ONE_LANE>(host, device, n, out); }
KERNEL pause_1000(OPERATION) { repeat<PAUSE>(host, device, n, out); }
