//! The I/O stack as the runtime uses it: NVMe commands by kernels.
//!
//! ```text
//! command_backend  the stack over all files in use, kept with its sector cache
//! shared_stack     the turns that queries take with the stack
//! status_block     what stands for the stack when no column is read by command
//! ```

pub(crate) mod command_backend;
pub(crate) mod shared_stack;
pub(crate) mod status_block;
