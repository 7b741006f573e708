// The benchmark kernels' common part: parameters, data and sums. The other files of this folder follow in one unit, in
// the order of src/bench/kernels.rs.
//
// The data is a function of its position (word_at). Sums are therefore known, and each word can be compared with its
// address.
using namespace grampus;

// Device code keeps to 64 registers with this bound: four blocks of 256 threads on a multiprocessor.
#define KERNEL extern "C" __global__ void __launch_bounds__(256, 4)
#define ARGUMENTS \
    const __grid_constant__ IoStack io, const __grid_constant__ ColumnDesc column, u64 rows, u64 n, u64 *out
#define PARAMETERS const IoStack &io, const ColumnDesc &column, u64 rows, u64 n, u64 *out
#define PLAIN const u64 *__restrict__ data, u64 rows, u64 n, u64 *out

static __device__ __forceinline__ u64 word_at(u64 row) {
    u64 z = (row + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    return z ^ (z >> 31);
}
static __device__ __forceinline__ u64 scattered(u64 i, u64 count) { return (i * 0x9E3779B97F4A7C15ull >> 20) % count; }
static __device__ __forceinline__ u64 warp_index() { return ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32; }
static __device__ __forceinline__ u64 warp_count() { return (u64)gridDim.x * blockDim.x / 32; }
static __device__ __forceinline__ void add_up(u64 sum, u64* out) {
    for (u32 by = 16; by > 0; by /= 2) sum += __shfl_down_sync(FULL, sum, by);
    if (lane_id() == 0) atomicAdd(out, sum);
}
