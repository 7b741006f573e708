// Host threads as target, compiled by g++ or clang++: warps of one lane, or of several on fibers.
#pragma once
#include "target.h"

#ifndef __CUDACC__

#include <string.h>

#define GRAMPUS_DEVICE inline
#define GRAMPUS_SLOW inline
#define GRAMPUS_ENTRY inline
#define GRAMPUS_UNROLL
#define GRAMPUS_NO_UNROLL
#define GRAMPUS_STEP(name) grampus_host::step(#name)
#define GRAMPUS_MUTANT grampus_host::mutant

namespace grampus_host {  // defined by the test program, or by io-stack/cuda/src/host_support.cc
void step(const char* name);
grampus::u64 now_ns();
void pause_ns(grampus::u32 ns);
grampus::u32 read_register(const grampus::u32* p);
extern int mutant;  // grampus::Mutant
extern __thread grampus::u32 warp, warps;  // of the launch: the warp that runs on this thread, and their number
}  // namespace grampus_host

namespace grampus {

#ifdef GRAMPUS_HOST_LANES
constexpr u32 WARP = GRAMPUS_HOST_LANES;
#else
constexpr u32 WARP = 1;
#endif
constexpr u32 FULL = (u32)((1ull << WARP) - 1);

// ThreadSanitizer knows no fences: where a fence orders on the GPU, the access itself orders here. A store that follows
// a fence is a release, a load that a fence follows is an acquire, and each fence is empty.
template <class T> T load_relaxed_gpu(const T* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
template <class T> T load_acquire_gpu(const T* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
template <class T> T load_relaxed_sys(const T* p) { return __atomic_load_n(p, __ATOMIC_RELAXED); }
template <class T> T load_acquire_sys(const T* p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
template <class T> void store_relaxed_gpu(T* p, T v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
template <class T> void store_release_gpu(T* p, T v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
template <class T> void store_relaxed_sys(T* p, T v) { __atomic_store_n(p, v, __ATOMIC_RELAXED); }
template <class T> void store_release_sys(T* p, T v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
template <class T> T fetch_add_relaxed_gpu(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
template <class T> T fetch_add_acquire_gpu(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQUIRE); }
template <class T> T fetch_add_release_gpu(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_RELEASE); }
template <class T> T fetch_add_acq_rel_gpu(T* p, T v) { return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL); }
template <class T> T fetch_or_relaxed_gpu(T* p, T v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
template <class T> T fetch_xor_relaxed_gpu(T* p, T v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }
template <class T> T fetch_and_relaxed_gpu(T* p, T v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }
template <class T> T exchange_acquire_gpu(T* p, T v) { return __atomic_exchange_n(p, v, __ATOMIC_ACQUIRE); }
template <class T> T cas_with(T* p, T expected, T desired, int success) {
    __atomic_compare_exchange_n(p, &expected, desired, false, success, __ATOMIC_RELAXED);
    return expected;
}
template <class T> T cas_relaxed_gpu(T* p, T e, T d) { return cas_with(p, e, d, __ATOMIC_RELAXED); }
template <class T> T cas_acquire_gpu(T* p, T e, T d) { return cas_with(p, e, d, __ATOMIC_ACQUIRE); }
template <class T> T cas_release_gpu(T* p, T e, T d) { return cas_with(p, e, d, __ATOMIC_RELEASE); }
template <class T> T cas_acq_rel_gpu(T* p, T e, T d) { return cas_with(p, e, d, __ATOMIC_ACQ_REL); }
inline void add_relaxed_gpu(u64* p, u64 v) { __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
inline void add_release_gpu(u64* p, u64 v) { __atomic_fetch_add(p, v, __ATOMIC_RELEASE); }
inline void add_after_fence_gpu(u64* p, u64 v) { add_release_gpu(p, v); }
inline void store_after_fence_gpu(u32* p, u32 v) { store_release_gpu(p, v); }
inline void and_after_fence_gpu(u32* p, u32 v) { __atomic_fetch_and(p, v, __ATOMIC_RELEASE); }
inline void fence_acq_rel_gpu() {}
inline void fence_acq_rel_sys() {}
inline void store_after_fence_sys(u32* p, u32 v) { store_release_sys(p, v); }
inline void store_after_loads_sys(u32* p, u32 v) { store_release_sys(p, v); }
inline void store_mmio(u32* p, u32 v) { store_release_sys(p, v); }
inline u32 load_mmio(const u32* p) { return grampus_host::read_register(p); }

// Pinned bytes are read by plain loads, so that ThreadSanitizer reports a line that changes under a reader.
inline u64 load_line_pinned(const u64* p) { return *p; }
inline u64 load_line_optimistic(const u64* p) { return load_acquire_gpu(p); }
inline u64 load_line_optimistic_if(u32 i, u32 count, const u64* p) { return i < count ? load_acquire_gpu(p) : 0; }
inline void fence_after_optimistic_loads() {}
inline void store_line(u64x2* p, u64x2 v) {
    store_release_gpu(&p->x, v.x);
    store_release_gpu(&p->y, v.y);
}
inline void store_line(u64* p, u64 v) { store_release_gpu(p, v); }
inline u64x2 load_pair_relaxed_gpu(const u64* p) { return u64x2{load_relaxed_gpu(p), load_relaxed_gpu(p + 1)}; }
inline u64x2 load_bounce(const u64x2* p) { return *p; }
// A GPU faults on an address that is not a multiple of the load's size; so does this one.
inline u64 load_mapped(const u64* p) {
    if ((u64)p % sizeof *p != 0) __builtin_trap();
    return *p;
}
template <u32 SIZE>
u64 load_mapped_value(const u8* p) {
    if ((u64)p % SIZE != 0) __builtin_trap();
    u64 v = 0;
    __builtin_memcpy(&v, p, SIZE);  // little-endian, like a GPU
    return v;
}
inline u64 load_mapped_if(bool on, const u64* p) { return on ? load_mapped(p) : 0; }
inline u64 load_near_if(bool on, const u64* p) { return load_mapped_if(on, p); }
inline u64x2 load_mapped(const u64x2* p) { return *p; }
template <class T> T load_constant(const T* p) { return *p; }  // also for pointers
inline void store_plain(u64x2* p, u64x2 v) { *p = v; }
template <class F> F* far_call(F* function) { return function; }

#ifdef GRAMPUS_HOST_LANES  // a test's warp of several lanes, which alternate at every collective

}  // namespace grampus
namespace grampus_host {  // defined by the test program
grampus::u32 lane();
// Hands in this lane's word and returns all lanes' words, valid until this lane's next call.
const grampus::u64* exchange(grampus::u64 mine);
void synchronize();  // sync_warp(); alone among the collectives, it orders memory
void run_lanes(void (*body)(const void*), const void* argument);
}  // namespace grampus_host
namespace grampus {

inline u32 lane_id() { return grampus_host::lane(); }
inline u32 lanes_below() { return (1u << lane_id()) - 1; }
inline u32 ballot(bool p) {
    const u64* all = grampus_host::exchange(p);
    u32 votes = 0;
    for (u32 i = 0; i < WARP; i++) votes |= (u32)all[i] << i;
    return votes;
}
inline bool any(bool p) { return ballot(p) != 0; }
inline bool all(bool p) { return ballot(p) == FULL; }
inline void sync_warp() { grampus_host::synchronize(); }
template <class T> T shuffle(T v, u32 from) {
    u64 word = 0;
    memcpy(&word, &v, sizeof v);
    const u64* all = grampus_host::exchange(word);
    memcpy(&v, &all[from % WARP], sizeof v);
    return v;
}
// A lane without a partner keeps its own value.
template <class T> T shuffle_up(T v, u32 by) { return shuffle(v, lane_id() >= by ? lane_id() - by : lane_id()); }
template <class T> T shuffle_down(T v, u32 by) {
    return shuffle(v, lane_id() + by < WARP ? lane_id() + by : lane_id());
}
inline u32 match(u64 key) {
    const u64* all = grampus_host::exchange(key);
    u32 same = 0;
    for (u32 i = 0; i < WARP; i++) same |= (all[i] == key ? 1u : 0u) << i;
    return same;
}
inline u32 match(u32 key) { return match((u64)key); }
inline u32 or_within(u32 group, u32 v) {
    const u64* all = grampus_host::exchange(v);
    u32 sum = 0;
    for (u32 i = 0; i < WARP; i++) sum |= group >> i & 1 ? (u32)all[i] : 0;
    return sum;
}
inline u32 leading_lanes(bool p) { u32 votes = ballot(p); return votes == FULL ? WARP : (u32)__builtin_ctz(~votes); }

#else

inline u32 lane_id() { return 0; }
inline u32 lanes_below() { return 0; }
inline u32 ballot(bool p) { return p ? 1 : 0; }
inline bool any(bool p) { return p; }
inline bool all(bool p) { return p; }
inline void sync_warp() {}
template <class T> T shuffle(T v, u32) { return v; }
template <class T> T shuffle_up(T v, u32) { return v; }
template <class T> T shuffle_down(T v, u32) { return v; }
inline u32 match(u32) { return 1; }
inline u32 match(u64) { return 1; }
inline u32 or_within(u32, u32 v) { return v; }
inline u32 leading_lanes(bool p) { return p ? 1 : 0; }

#endif

inline u32 count_bits(u32 v) { return (u32)__builtin_popcount(v); }
inline u32 lowest_bit(u32 v) { return v ? (u32)__builtin_ctz(v) : 32; }
inline u64 now_ns() { return grampus_host::now_ns(); }
inline void pause_ns(u32 ns) { grampus_host::pause_ns(ns); }
inline bool looks_at_host(u64) { return true; }

inline void add_float_relaxed_gpu(double* p, double v) {
    u64 old = load_relaxed_gpu((u64*)p), sum, seen;
    for (;; old = seen) {
        double value;
        memcpy(&value, &old, 8);
        value += v;
        memcpy(&sum, &value, 8);
        seen = cas_relaxed_gpu((u64*)p, old, sum);
        if (seen == old) return;
    }
}
inline void max_relaxed_gpu(u64* p, u64 v) {
    for (u64 old = load_relaxed_gpu(p); old < v;) {
        u64 seen = cas_relaxed_gpu(p, old, v);
        if (seen == old) return;
        old = seen;
    }
}
inline long long multiply_high(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
inline int float_to_int(double a) {
    return a >= 2147483647.0 ? 2147483647 : a > -2147483648.0 ? (int)a : -2147483647 - 1;
}
inline double float_modulo(double a, double b) { return __builtin_fmod(a, b); }
inline float float_modulo(float a, float b) { return __builtin_fmodf(a, b); }
inline double float_floor(double a) { return __builtin_floor(a); }
inline float float_floor(float a) { return __builtin_floorf(a); }
inline double float_ceil(double a) { return __builtin_ceil(a); }
inline float float_ceil(float a) { return __builtin_ceilf(a); }
inline double float_abs(double a) { return __builtin_fabs(a); }
inline float float_abs(float a) { return __builtin_fabsf(a); }
inline double float_sqrt(double a) { return __builtin_sqrt(a); }
inline float float_sqrt(float a) { return __builtin_sqrtf(a); }

inline u32 launch_warp() { return grampus_host::warp; }
inline u32 launch_warps() { return grampus_host::warps; }

// A block is one warp.
inline u32 launch_block() { return launch_warp(); }
inline u32 launch_blocks() { return launch_warps(); }
inline u32 block_warp() { return 0; }
inline u32 block_warps() { return 1; }
inline void sync_block() { sync_warp(); }
typedef u8* BlockPlace;
inline BlockPlace block_place(const void* p) { return (BlockPlace)p; }
inline u64 load_in_block_if(bool on, BlockPlace p) { return on ? *(u64*)p : 0; }
inline void store_in_block_if(bool on, BlockPlace p, u64 v) {
    if (on) *(u64*)p = v;
}
inline void count_in_block_if(bool on, BlockPlace p) {
    if (on) *(u32*)p += 1;
}
inline u32 fetch_add_in_block(u32* p, u32 v) {
    u32 old = *p;
    *p = old + v;
    return old;
}
inline void add_float_in_block(double* p, double v) { *p += v; }
inline void or_in_block(u32* p, u32 v) { *p |= v; }
inline void xor_in_block(u32* p, u32 v) { *p ^= v; }
inline void max_in_block(u64* p, u64 v) { *p = *p < v ? v : *p; }

}  // namespace grampus

#ifdef GRAMPUS_HOST_LANES
#define GRAMPUS_ONE_WARP(body, Parameters, argument) \
    grampus_host::run_lanes([](const void* p) { body(*(const Parameters*)p); }, argument)
#define GRAMPUS_OF_WARP static thread_local
#else
#define GRAMPUS_ONE_WARP(body, Parameters, argument) body(*(const Parameters*)argument)
#define GRAMPUS_OF_WARP
#endif

// The entry that `Kernel::launch` calls once for each warp, and the parameter size that it checks.
#define GRAMPUS_EXPORT extern "C" __attribute__((visibility("default")))
#define GRAMPUS_KERNEL(name, Parameters, parameters)                                                              \
    static void name##_of_one_warp(const Parameters& parameters);                                                 \
    GRAMPUS_EXPORT grampus::u64 name##_parameter_bytes() { return sizeof(Parameters); }                           \
    GRAMPUS_EXPORT void name(const void* const* arguments, grampus::u32 warp, grampus::u32 warps) {               \
        grampus_host::warp = warp;                                                                                \
        grampus_host::warps = warps;                                                                              \
        GRAMPUS_ONE_WARP(name##_of_one_warp, Parameters, arguments[0]);                                           \
    }                                                                                                             \
    static void name##_of_one_warp(const Parameters& parameters)

#define GRAMPUS_KERNEL_OF_LARGE_BLOCKS(name, Parameters, parameters) GRAMPUS_KERNEL(name, Parameters, parameters)
#define GRAMPUS_KERNEL_OF_SMALL_BLOCKS(name, Parameters, parameters) GRAMPUS_KERNEL(name, Parameters, parameters)

// The memory of a block: as much as a block of a large GPU has (io-stack/cuda/src/device.rs, HOST_BLOCK_SHARED_BYTES).
#define GRAMPUS_SHARED_BY_BLOCK(name)                                        \
    alignas(16) static thread_local grampus::u64 name##_of_block[232448 / 8]; \
    grampus::u64* name = name##_of_block

// One struct for the warp of this thread.
#define GRAMPUS_SHARED_BY_WARP(Type, name) \
    GRAMPUS_OF_WARP Type name##_of_warp;   \
    Type& name = name##_of_warp
#define GRAMPUS_SHARED_BY_FEW_WARPS(Type, name) GRAMPUS_SHARED_BY_WARP(Type, name)

#endif
