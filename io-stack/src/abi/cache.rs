//! `CacheDesc`, `CacheSet` and `LineWrites`: the mirror of `device/cache.h`, with the line size of `device/types.h`.
#![allow(missing_docs)] // the header documents the fields

crate::shared_structs! {
    #[repr(align(32))]
    LineWrites { lock: u32, dirty: u32, writing: u32, source: u32, storage_byte: u64, wanted: u32, pad0: u32 }
    CacheSet { lock: u32, hand: u32 }
    #[repr(align(16))]
    CacheDesc {
        data: u64, tags: u64, state: u64, requested: u64, sets: u64, set_count: u32, groups: u32, group_log2: u32,
        sector_log2: u32, writes: u64,
    }
}

/// Ways of a set: the device code's template parameter.
pub const WAYS: u32 = 8;
/// Bytes of a line.
pub const LINE_BYTES: u64 = 4096;
