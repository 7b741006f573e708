//! Demand paging: pages that kernels miss are loaded while they run.
//!
//! ```text
//! fault_buffer    the list in which kernels record missed pages
//! fault_handler   threads load recorded pages, and a kernel puts them in their places
//! page_reader     bytes of pages read from files
//! stored_columns  how paged columns are stored
//! page_decoder    row groups that the device decompresses and decodes, many in one launch
//! group_loader    row groups on their way to the device
//! page_resources  stream and memory with which a query's pages are loaded
//! ```

pub(crate) mod fault_buffer;
pub(crate) mod fault_handler;
pub(crate) mod group_loader;
pub(crate) mod page_decoder;
pub(crate) mod page_reader;
pub(crate) mod page_resources;
pub(crate) mod stored_columns;
