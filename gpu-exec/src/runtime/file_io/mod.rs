//! Reading files.
//!
//! ```text
//! file_source       an open file, read through the page cache or past it
//! page_cache_probe  whether a file's pages are in the page cache
//! ```

pub(crate) mod file_source;
pub(crate) mod page_cache_probe;
