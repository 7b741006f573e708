//! Demand paging: pages that kernels miss are loaded while they run.
//!
//! ```text
//! fault_buffer   the list in which kernels record missed pages
//! fault_handler  threads load recorded pages, and a kernel puts them in their places
//! page_reader    raw pages read from files
//! ```

pub(crate) mod fault_buffer;
pub(crate) mod fault_handler;
pub(crate) mod page_reader;
