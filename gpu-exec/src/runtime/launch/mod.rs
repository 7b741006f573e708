//! launch

pub(crate) mod decode_launcher;
pub(crate) mod executor;
pub(crate) mod kernel_arguments;
pub(crate) mod launch_schedule;
pub(crate) mod query_run;
pub(crate) mod replay;
