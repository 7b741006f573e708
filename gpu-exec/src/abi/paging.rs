//! What kernels are told of columns of which only some pages are in device memory, as bytes (device/pages.h is the other side).
//!
//! A kernel with such columns has a [`PagingDesc`] at the end of its parameter. Rows of which it misses a value take no further part
//! in the pass; what they miss is in `list` then, and `missed` is not zero: the pass's results are worth nothing. The host brings the pages
//! and has [`PLACE_PAGES`] put them in their places, in any stream and while the query's kernels run; then, in the query's stream,
//! [`PUBLISH_PAGES`] says that they are there, and the pass is done again from zeroed memory. A pass that misses nothing gives what a kernel over
//! whole columns gives, to the bit.
//!
//! - `first_rows`, `pieces`, `wanted`, `missed` lie in device memory, as [`PageBatch`]'s `came` does; the last three are zero before each pass.
//! - `list` lies in pinned host memory; entries are written in order of `missed`, each once, and may be read, and set to zero,
//!   while kernels run.
#![allow(missing_docs)] // fields are documented where they are declared first: in device/pages.h

/// Bytes of a page of values that lie raw in their file.
pub const PAGE_BYTES: u64 = 64;
/// The `extern "C"` name of the kernel, in every module with paged columns, that puts pages in their places.
pub const PLACE_PAGES: &str = "grampus_place_pages";
/// And that of the one that says that they are there.
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
