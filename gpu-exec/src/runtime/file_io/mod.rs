//! Reading files.

pub(crate) mod file_source;
pub(crate) mod page_cache_probe;
