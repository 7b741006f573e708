//! `IoStack`, the parameter of every kernel: the mirror of `device/io_stack.h`.
#![allow(missing_docs)] // the header documents the fields

use super::CacheDesc;

crate::shared_structs! {
    #[repr(align(16))]
    IoStack {
        status: u64, stats: u64, host_abort: u64, queues: u64, sources: u64, timeout_ns: u64, queue_count: u32,
        servers: u32, source_count: u32, pad0: u32, cache: CacheDesc,
    }
}
