// Fixed-width integers and the constants of both sides. NVRTC has no <cstdint>, so the names are our own.
// io-stack/src/abi mirrors every struct of the .h files in Rust and proves the layouts equal.
#pragma once

namespace grampus {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

static_assert(sizeof(u8) == 1 && sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "fixed widths");
static_assert(sizeof(void*) == 8, "shared structs hold 64-bit pointers");

// A cache line; also the page of our NVMe commands (MPS = 0: 4 KiB).
constexpr u32 LINE_LOG2 = 12;
constexpr u32 LINE_BYTES = 1u << LINE_LOG2;

}  // namespace grampus
