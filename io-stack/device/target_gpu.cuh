// The GPU as target, compiled by NVRTC or nvcc: each operation in PTX.
#pragma once
#include "target.h"

#ifdef __CUDACC__

#define GRAMPUS_DEVICE __device__ __forceinline__
#define GRAMPUS_SLOW inline __device__ __noinline__
#define GRAMPUS_ENTRY __device__ __noinline__  // visible to other units
#define GRAMPUS_UNROLL _Pragma("unroll")
#define GRAMPUS_NO_UNROLL _Pragma("unroll 1")
#ifndef GRAMPUS_STEP  // a benchmark puts a clock here
#define GRAMPUS_STEP(name)
#endif
#define GRAMPUS_MUTANT MUTANT_NONE

namespace grampus {

constexpr u32 WARP = 32;
constexpr u32 FULL = 0xFFFFFFFFu;

// ld.SEM.SCOPE and so on, for u32 (suffix 32, constraint r) and u64 (64, l).
#define GRAMPUS_LOAD(fn, sem)                                                                     \
    GRAMPUS_DEVICE u32 fn(const u32* p) {                                                         \
        u32 v;                                                                                    \
        asm volatile("ld." sem ".global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");            \
        return v;                                                                                 \
    }                                                                                             \
    GRAMPUS_DEVICE u64 fn(const u64* p) {                                                         \
        u64 v;                                                                                    \
        asm volatile("ld." sem ".global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");            \
        return v;                                                                                 \
    }
#define GRAMPUS_STORE(fn, sem)                                                                    \
    GRAMPUS_DEVICE void fn(u32* p, u32 v) {                                                       \
        asm volatile("st." sem ".global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");              \
    }                                                                                             \
    GRAMPUS_DEVICE void fn(u64* p, u64 v) {                                                       \
        asm volatile("st." sem ".global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");              \
    }
#define GRAMPUS_RMW(fn, sem, op32, op64)                                                          \
    GRAMPUS_DEVICE u32 fn(u32* p, u32 v) {                                                        \
        u32 old;                                                                                  \
        asm volatile("atom." sem ".global." op32 " %0, [%1], %2;"                                 \
                     : "=r"(old) : "l"(p), "r"(v) : "memory");                                    \
        return old;                                                                               \
    }                                                                                             \
    GRAMPUS_DEVICE u64 fn(u64* p, u64 v) {                                                        \
        u64 old;                                                                                  \
        asm volatile("atom." sem ".global." op64 " %0, [%1], %2;"                                 \
                     : "=l"(old) : "l"(p), "l"(v) : "memory");                                    \
        return old;                                                                               \
    }
#define GRAMPUS_CAS(fn, sem)                                                                      \
    GRAMPUS_DEVICE u32 fn(u32* p, u32 expected, u32 desired) {                                    \
        u32 old;                                                                                  \
        asm volatile("atom." sem ".global.cas.b32 %0, [%1], %2, %3;"                              \
                     : "=r"(old) : "l"(p), "r"(expected), "r"(desired) : "memory");               \
        return old;                                                                               \
    }                                                                                             \
    GRAMPUS_DEVICE u64 fn(u64* p, u64 expected, u64 desired) {                                    \
        u64 old;                                                                                  \
        asm volatile("atom." sem ".global.cas.b64 %0, [%1], %2, %3;"                              \
                     : "=l"(old) : "l"(p), "l"(expected), "l"(desired) : "memory");               \
        return old;                                                                               \
    }

GRAMPUS_LOAD(load_relaxed_gpu, "relaxed.gpu")
GRAMPUS_LOAD(load_acquire_gpu, "acquire.gpu")
GRAMPUS_LOAD(load_relaxed_sys, "relaxed.sys")
GRAMPUS_LOAD(load_acquire_sys, "acquire.sys")
GRAMPUS_STORE(store_relaxed_gpu, "relaxed.gpu")
GRAMPUS_STORE(store_release_gpu, "release.gpu")
GRAMPUS_STORE(store_relaxed_sys, "relaxed.sys")
GRAMPUS_STORE(store_release_sys, "release.sys")
GRAMPUS_RMW(fetch_add_relaxed_gpu, "relaxed.gpu", "add.u32", "add.u64")
GRAMPUS_RMW(fetch_add_acquire_gpu, "acquire.gpu", "add.u32", "add.u64")
GRAMPUS_RMW(fetch_add_release_gpu, "release.gpu", "add.u32", "add.u64")
GRAMPUS_RMW(fetch_add_acq_rel_gpu, "acq_rel.gpu", "add.u32", "add.u64")
GRAMPUS_RMW(fetch_or_relaxed_gpu, "relaxed.gpu", "or.b32", "or.b64")
GRAMPUS_RMW(fetch_xor_relaxed_gpu, "relaxed.gpu", "xor.b32", "xor.b64")
GRAMPUS_RMW(fetch_and_relaxed_gpu, "relaxed.gpu", "and.b32", "and.b64")
GRAMPUS_RMW(exchange_acquire_gpu, "acquire.gpu", "exch.b32", "exch.b64")
GRAMPUS_CAS(cas_relaxed_gpu, "relaxed.gpu")
GRAMPUS_CAS(cas_acquire_gpu, "acquire.gpu")
GRAMPUS_CAS(cas_release_gpu, "release.gpu")
GRAMPUS_CAS(cas_acq_rel_gpu, "acq_rel.gpu")

// Additions that do not return the old value.
GRAMPUS_DEVICE void add_relaxed_gpu(u64* p, u64 v) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
GRAMPUS_DEVICE void add_release_gpu(u64* p, u64 v) {
    asm volatile("red.release.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// These follow fence_acq_rel_gpu(), which makes them releases: one fence for several.
GRAMPUS_DEVICE void add_after_fence_gpu(u64* p, u64 v) { add_relaxed_gpu(p, v); }
GRAMPUS_DEVICE void store_after_fence_gpu(u32* p, u32 v) { store_relaxed_gpu(p, v); }
GRAMPUS_DEVICE void and_after_fence_gpu(u32* p, u32 v) { fetch_and_relaxed_gpu(p, v); }

GRAMPUS_DEVICE void fence_acq_rel_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
GRAMPUS_DEVICE void fence_acq_rel_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// A doorbell in host memory. Follows fence_acq_rel_sys(), which makes the store a release.
GRAMPUS_DEVICE void store_after_fence_sys(u32* p, u32 v) { store_relaxed_sys(p, v); }
// Tells another agent that it may overwrite what this warp has loaded. The warp has used the loaded values, so the
// loads have returned.
GRAMPUS_DEVICE void store_after_loads_sys(u32* p, u32 v) { store_relaxed_sys(p, v); }
// A device register. Follows fence_acq_rel_sys().
GRAMPUS_DEVICE void store_mmio(u32* p, u32 v) {
    asm volatile("st.volatile.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

GRAMPUS_DEVICE u32 load_mmio(const u32* p) {
    u32 v;
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

// Bytes of a cache line. L1 does not keep them: measured up to 15 % faster.
//
// Pinned: no warp writes these sectors meanwhile, so the load is weak. The load follows an acquire on the line's state,
// which has emptied L1: the load sees nothing older than that state.
GRAMPUS_DEVICE u64 load_line_pinned(const u64* p) {
    u64 v;
    asm volatile("ld.global.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
// Optimistic: another warp may write the line, so the load is relaxed. After the last of these loads comes
// fence_after_optimistic_loads(), and then the look at the line's state that validates them.
GRAMPUS_DEVICE u64 load_line_optimistic(const u64* p) {
    u64 v;
    asm volatile("ld.relaxed.gpu.global.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
// Zero unless i < count. Predicated here: a compiler would branch around each of a tile's loads.
GRAMPUS_DEVICE u64 load_line_optimistic_if(u32 i, u32 count, const u64* p) {
    u64 v = 0;
    asm volatile("{ .reg .pred on; setp.lt.u32 on, %2, %3; @on ld.relaxed.gpu.global.L1::no_allocate.u64 %0, [%1]; }"
                 : "+l"(v) : "l"(p), "r"(i), "r"(count));
    return v;
}
GRAMPUS_DEVICE void fence_after_optimistic_loads() { fence_acq_rel_gpu(); }
// Follows fence_acq_rel_gpu(): a reader that sees these bytes, and fences, sees what was before that fence.
GRAMPUS_DEVICE void store_line(u64x2* p, u64x2 v) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.x), "l"(v.y) : "memory");
}

GRAMPUS_DEVICE void store_line(u64* p, u64 v) { store_relaxed_gpu(p, v); }

// A pair of tags, or of a line's words (16-byte aligned).
GRAMPUS_DEVICE u64x2 load_pair_relaxed_gpu(const u64* p) {
    u64x2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
    return v;
}

// Host memory that a controller rewrites: past L1, after an acquire of the completion (reap), which pairs with the
// controller's release.
GRAMPUS_DEVICE u64x2 load_bounce(const u64x2* p) {
    u64x2 v;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p) : "memory");
    return v;
}
// Columns, in device memory or in host memory, which no agent writes while a kernel runs. L1 does not keep the words:
// each is needed once.
GRAMPUS_DEVICE u64 load_mapped(const u64* p) {
    u64 v;
    asm volatile("ld.global.nc.L1::no_allocate.u64 %0, [%1];" : "=l"(v) : "l"(p));
    return v;
}
// One value of SIZE bytes, at a multiple of them; its bits.
template <u32 SIZE>
GRAMPUS_DEVICE u64 load_mapped_value(const u8* p) {
    if constexpr (SIZE == 8) return load_mapped((const u64*)p);
    u32 v;
    if constexpr (SIZE == 4) asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    else if constexpr (SIZE == 2) asm volatile("ld.global.nc.L1::no_allocate.u16 %0, [%1];" : "=r"(v) : "l"(p));
    else asm volatile("ld.global.nc.L1::no_allocate.u8 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}
// Zero unless `on`. Predicated here: a branch around each of several loads would keep them from being in flight
// together.
GRAMPUS_DEVICE u64 load_mapped_if(bool on, const u64* p) {
    u64 v = 0;
    asm volatile("{ .reg .pred on; setp.ne.u32 on, %2, 0; @on ld.global.nc.L1::no_allocate.u64 %0, [%1]; }"
                 : "+l"(v) : "l"(p), "r"((u32)on));
    return v;
}
// Like load_mapped_if, for a word whose successor is loaded next and mostly lies in the same 32 bytes: L1 makes one
// request of the two.
GRAMPUS_DEVICE u64 load_near_if(bool on, const u64* p) {
    u64 v = 0;
    asm volatile("{ .reg .pred on; setp.ne.u32 on, %2, 0; @on ld.global.nc.u64 %0, [%1]; }"
                 : "+l"(v) : "l"(p), "r"((u32)on));
    return v;
}
GRAMPUS_DEVICE u64x2 load_mapped(const u64x2* p) {
    u64x2 v;
    asm volatile("ld.global.nc.v2.u64 {%0, %1}, [%2];" : "=l"(v.x), "=l"(v.y) : "l"(p));
    return v;
}
// Structures that the host writes before the launch.
template <class T>
GRAMPUS_DEVICE T load_constant(const T* p) {
    return __ldg(p);
}
template <class T>
GRAMPUS_DEVICE T* load_constant(T* const* p) {
    return (T*)__ldg((const u64*)p);
}

// Submission entries, by plain stores of sixteen bytes.
GRAMPUS_DEVICE void store_plain(u64x2* p, u64x2 v) {
    asm volatile("st.global.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.x), "l"(v.y) : "memory");
}

// The function, called through its address. For a direct call, ptxas allocates registers for caller and callee
// together, and spills what lives across the call. Through a pointer, the callee saves the registers that it uses.
template <class F>
GRAMPUS_DEVICE F* far_call(F* function) {
    u64 address = (u64)function;
    asm volatile("mov.u64 %0, %0;" : "+l"(address));
    return (F*)address;
}

GRAMPUS_DEVICE u32 lane_id() {
    u32 v;
    asm("mov.u32 %0, %%laneid;" : "=r"(v));
    return v;
}
GRAMPUS_DEVICE u32 lanes_below() {
    u32 v;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(v));
    return v;
}
GRAMPUS_DEVICE u32 ballot(bool p) { return __ballot_sync(FULL, p); }
GRAMPUS_DEVICE bool any(bool p) { return __any_sync(FULL, p); }
GRAMPUS_DEVICE bool all(bool p) { return __all_sync(FULL, p); }
GRAMPUS_DEVICE void sync_warp() { __syncwarp(); }
template <class T>
GRAMPUS_DEVICE T shuffle(T v, u32 from) {
    return __shfl_sync(FULL, v, (int)from);
}
template <class T>
GRAMPUS_DEVICE T shuffle_up(T v, u32 by) {
    return __shfl_up_sync(FULL, v, by);
}
template <class T>
GRAMPUS_DEVICE T shuffle_down(T v, u32 by) {
    return __shfl_down_sync(FULL, v, by);
}
// Lanes of the warp that hold the same key. All lanes take part.
GRAMPUS_DEVICE u32 match(u32 key) { return __match_any_sync(FULL, key); }
GRAMPUS_DEVICE u32 match(u64 key) { return __match_any_sync(FULL, key); }
// The or of v over the lanes of `group`, which all call with the same group.
GRAMPUS_DEVICE u32 or_within(u32 group, u32 v) { return __reduce_or_sync(group, v); }
GRAMPUS_DEVICE u32 count_bits(u32 v) { return (u32)__popc(v); }
// Index of the lowest set bit; 32 for zero.
GRAMPUS_DEVICE u32 lowest_bit(u32 v) { return v ? (u32)__ffs((int)v) - 1 : 32; }

// Number of consecutive lanes, from lane 0 on, that hold p.
GRAMPUS_DEVICE u32 leading_lanes(bool p) { return lowest_bit(~ballot(p)); }

// Time for bounds, by the multiprocessor's clock at an assumed 2 GHz. At a lower clock a bound is longer in proportion.
// The register globaltimer is no alternative: the GPU reads it for one lane at a time. Thousands of waiting warps would
// queue up for it.
GRAMPUS_DEVICE u64 now_ns() {
    u64 v;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(v));
    return v / 2;
}
GRAMPUS_DEVICE void pause_ns(u32 ns) { __nanosleep(ns); }

// Whether a wait looks at a word of host memory that all warps share: one look in 4096, by the clock's bits. The GPU
// serves reads of one line of host memory one after another, 1 us each (measured: 1.02 M/s, from 8 warps or 4,224).
// Every fence waits behind them.
GRAMPUS_DEVICE bool looks_at_host(u64 now) { return ((u32)now * 0x9E3779B1u) >> 20 == 0; }

GRAMPUS_DEVICE void add_float_relaxed_gpu(double* p, double v) {
    asm volatile("red.relaxed.gpu.global.add.f64 [%0], %1;" ::"l"(p), "d"(v) : "memory");
}
GRAMPUS_DEVICE void max_relaxed_gpu(u64* p, u64 v) {
    asm volatile("red.relaxed.gpu.global.max.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
// The upper half of a product of 128 bits.
GRAMPUS_DEVICE long long multiply_high(long long a, long long b) { return __mul64hi(a, b); }
// Towards zero; values that do not fit become the nearest that does, NaN any number.
GRAMPUS_DEVICE int float_to_int(double a) { return __double2int_rz(a); }
GRAMPUS_DEVICE double float_modulo(double a, double b) { return fmod(a, b); }
GRAMPUS_DEVICE float float_modulo(float a, float b) { return fmodf(a, b); }
GRAMPUS_DEVICE double float_floor(double a) { return floor(a); }
GRAMPUS_DEVICE float float_floor(float a) { return floorf(a); }
GRAMPUS_DEVICE double float_ceil(double a) { return ceil(a); }
GRAMPUS_DEVICE float float_ceil(float a) { return ceilf(a); }
GRAMPUS_DEVICE double float_abs(double a) { return fabs(a); }
GRAMPUS_DEVICE float float_abs(float a) { return fabsf(a); }
GRAMPUS_DEVICE double float_sqrt(double a) { return sqrt(a); }
GRAMPUS_DEVICE float float_sqrt(float a) { return sqrtf(a); }

// Index of this warp in the launch, and the number of warps.
GRAMPUS_DEVICE u32 launch_warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / WARP; }
GRAMPUS_DEVICE u32 launch_warps() { return gridDim.x * blockDim.x / WARP; }

// Index of this block in the launch, the number of blocks, and this warp's place among the block's warps.
GRAMPUS_DEVICE u32 launch_block() { return blockIdx.x; }
GRAMPUS_DEVICE u32 launch_blocks() { return gridDim.x; }
GRAMPUS_DEVICE u32 block_warp() { return threadIdx.x / WARP; }
GRAMPUS_DEVICE u32 block_warps() { return blockDim.x / WARP; }
// Waits for all warps of the block, and orders their memory.
GRAMPUS_DEVICE void sync_block() { __syncthreads(); }

// A place in the memory of GRAMPUS_SHARED_BY_BLOCK, as instructions take it. The compiler would compute a pointer anew
// for each access, and put a branch around each access that is conditional.
typedef u32 BlockPlace;
GRAMPUS_DEVICE BlockPlace block_place(const void* p) {
    u64 place;
    asm volatile("cvta.to.shared.u64 %0, %1;" : "=l"(place) : "l"(p));
    return (BlockPlace)place;
}
// Zero unless `on`.
GRAMPUS_DEVICE u64 load_in_block_if(bool on, BlockPlace p) {
    u64 v = 0;
    asm volatile("{ .reg .pred on; setp.ne.u32 on, %2, 0; @on ld.shared.u64 %0, [%1]; }"
                 : "+l"(v) : "r"(p), "r"((u32)on) : "memory");
    return v;
}
GRAMPUS_DEVICE void store_in_block_if(bool on, BlockPlace p, u64 v) {
    asm volatile("{ .reg .pred on; setp.ne.u32 on, %2, 0; @on st.shared.u64 [%0], %1; }"
                 ::"r"(p), "l"(v), "r"((u32)on) : "memory");
}
// Adds 1 to a 32-bit word that all warps of a block update.
GRAMPUS_DEVICE void count_in_block_if(bool on, BlockPlace p) {
    asm volatile("{ .reg .pred on; setp.ne.u32 on, %1, 0; @on red.shared.add.u32 [%0], 1; }"
                 ::"r"(p), "r"((u32)on) : "memory");
}
// Words in the memory of GRAMPUS_SHARED_BY_BLOCK, which all warps of a block update.
GRAMPUS_DEVICE u32 fetch_add_in_block(u32* p, u32 v) { return atomicAdd(p, v); }
GRAMPUS_DEVICE void add_float_in_block(double* p, double v) { atomicAdd(p, v); }
GRAMPUS_DEVICE void or_in_block(u32* p, u32 v) { atomicOr(p, v); }
GRAMPUS_DEVICE void xor_in_block(u32* p, u32 v) { atomicXor(p, v); }
GRAMPUS_DEVICE void max_in_block(u64* p, u64 v) { atomicMax(p, v); }

}  // namespace grampus

// Begins a kernel with one parameter, a struct. The kernel runs on a GPU and on host threads.
#define GRAMPUS_KERNEL(name, Parameters, parameters) \
    extern "C" __global__ void __launch_bounds__(256, 4) name(const __grid_constant__ Parameters parameters)

// The same for a kernel of which one block takes all of a multiprocessor's shared memory.
#define GRAMPUS_KERNEL_OF_LARGE_BLOCKS(name, Parameters, parameters) \
    extern "C" __global__ void __launch_bounds__(1024, 1) name(const __grid_constant__ Parameters parameters)

// The same for a kernel whose warps take much shared memory: blocks of at most 128 threads.
#define GRAMPUS_KERNEL_OF_SMALL_BLOCKS(name, Parameters, parameters) \
    extern "C" __global__ void __launch_bounds__(128, 5) name(const __grid_constant__ Parameters parameters)

// Memory that the warps of a block share, as large as the launch says; not initialised.
#define GRAMPUS_SHARED_BY_BLOCK(name)                   \
    extern __shared__ grampus::u64x2 name##_of_block[]; \
    grampus::u64* name = (grampus::u64*)name##_of_block

// One struct for each warp of a block of at most 256 threads, in shared memory; not initialised.
#define GRAMPUS_SHARED_BY_WARP(Type, name)   \
    __shared__ Type name##_of_warps[256 / 32]; \
    Type& name = name##_of_warps[threadIdx.x / 32]

// The same for a block of at most 128 threads.
#define GRAMPUS_SHARED_BY_FEW_WARPS(Type, name) \
    __shared__ Type name##_of_warps[128 / 32];  \
    Type& name = name##_of_warps[threadIdx.x / 32]

#endif
