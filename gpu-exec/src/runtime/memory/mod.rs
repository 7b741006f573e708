//! memory

pub(crate) mod arena;
pub(crate) mod buffer_pool;
pub(crate) mod constant_columns;
pub(crate) mod copy_target;
pub(crate) mod mapped_files;
pub(crate) mod page_table;
pub(crate) mod pinned_ring;
pub(crate) mod query_scratch;
pub(crate) mod staging_buffer;
