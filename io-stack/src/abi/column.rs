//! `Extent`, `ColumnDesc` and `SourceDesc`: the mirror of `device/column.h`.
#![allow(missing_docs)] // the header documents the fields

/// `SourceDesc::flags`: the storage takes writes and flushes.
pub const SOURCE_WRITABLE: u32 = 1;

crate::shared_structs! {
    #[repr(align(16))]
    Extent {
        first_row: u64, rows: u64, first_line: u64, storage_byte: u64, mapped: u64, first_byte: u32, source: u32,
    }
    #[repr(align(16))]
    ColumnDesc { extents: u64, extent_count: u32, value_bytes: u32 }
    #[repr(align(16))]
    SourceDesc {
        blocks: u64, nsid: u32, lba_log2: u32, first_queue: u32, queue_count: u32, max_lines: u32, flags: u32,
    }
}
