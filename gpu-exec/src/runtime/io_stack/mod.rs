//! io_stack

pub(crate) mod command_backend;
pub(crate) mod status_block;
