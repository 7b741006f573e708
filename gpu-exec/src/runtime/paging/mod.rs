//! paging

pub(crate) mod fault_buffer;
pub(crate) mod fault_handler;
pub(crate) mod page_reader;
