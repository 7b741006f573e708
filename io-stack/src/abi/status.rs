//! `Status` and `Stats`: the mirror of `device/status.h`.
#![allow(missing_docs)] // the header documents the fields

crate::shared_structs! {
    #[repr(align(64))]
    Status {
        code: u32, nvme_status: u32, queue: u32, cid: u32, lba: u64, line: u64, bytes: u32, nsid: u32,
        waited_ns: u64, pad0: u64, pad1: u64,
    }
    #[repr(align(64))]
    Stats {
        commands: u64, command_bytes: u64, completions: u64, stale_completions: u64, mapped_fill_bytes: u64,
        installs: u64, evictions: u64, full_sets: u64, doorbells: u64, failed_prefetches: u64,
        writes: u64, flushes: u64, pad: [u64; 4],
    }
}
