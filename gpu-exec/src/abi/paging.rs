//! `PagingDesc`: partially resident columns as a kernel sees them (mirror of device/pages.h).
//!
//! A kernel with paged columns has a [`PagingDesc`] at the end of its parameter. A pass over the rows goes like this:
//!
//! 1. A row may need a page that is not resident. The kernel then adds the page to `list`, increments `missed`, and
//!    skips the row for the rest of the pass.
//! 2. The host loads the pages and launches [`PLACE_PAGES`], which copies them to their places. The launch may use any
//!    stream, and the query's kernels may still be running.
//! 3. The host launches [`PUBLISH_PAGES`] in the query's stream, which marks the pages as resident.
//! 4. If `missed` is not zero, the pass's results are worthless: memory is zeroed and the pass is replayed.
//!
//! **Invariant:** a pass that misses nothing gives, to the bit, the result of a kernel over fully resident columns.
//!
//! - `first_rows`, `pieces`, `wanted`, `missed` and [`PageBatch`]'s `came` lie in device memory. `wanted`, `missed` and
//!   `came` are zero before each pass.
//! - `list` lies in pinned host memory. Entries are written in order of `missed`, each once. The host may read them,
//!   and set them to zero, while kernels run.
#![allow(missing_docs)] // fields are documented where they are declared first: in device/pages.h

/// Bytes of a page of a raw column.
pub const PAGE_BYTES: u64 = 64;
/// The `extern "C"` name of the kernel that copies pages to their places. Every module with paged columns has it.
pub const PLACE_PAGES: &str = "grampus_place_pages";
/// The `extern "C"` name of the kernel that marks pages as resident.
pub const PUBLISH_PAGES: &str = "grampus_publish_pages";

grampus_io_stack::shared_structs! {
    PagedPiece { there: u64, values: u64, bytes: u64, first_page: u32, page_rows: u32, pages: u32, pad0: u32 }
    #[repr(align(16))]
    PagingDesc { first_rows: u64, pieces: u64, wanted: u64, list: u64, missed: u64, capacity: u32, stripes: u32 }
    PageMove { piece: u32, page: u32 }
    #[repr(align(16))]
    PageBatch { pieces: u64, moves: u64, values: u64, came: u64, count: u32, raw: u32 }
    #[repr(align(16))]
    PagesCame { pieces: u64, came: u64, count: u32, pad0: u32 }
}
