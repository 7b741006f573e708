//! The device as the rest of the engine sees it, and how it is opened. The only place that calls `grampus-gpu-exec`'s runtime.

use std::fmt;
use std::sync::Arc;

use grampus_gpu_exec::gpu::{ColumnChoice, Request};
use grampus_gpu_exec::output::{Output, RunError};
use grampus_gpu_exec::program::Program;

use super::lower::Reason;
use super::session::Settings;
use crate::config::GrampusOptions;

/// What runs programs.
pub(crate) trait Runner: fmt::Debug + Send + Sync {
    /// What it is, for people.
    fn name(&self) -> String;

    /// How each column of the program would be read.
    fn choose(&self, request: &Request<'_>) -> Result<Vec<ColumnChoice>, RunError>;

    /// Runs a program.
    fn run(&self, request: &Request<'_>) -> Result<Output, RunError>;

    /// The kernel that a program becomes.
    fn kernel_text(&self, program: &Program) -> Result<String, RunError>;
}

/// Why there is no device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    /// For people.
    pub(crate) reason: Reason,
    /// It will not come while this process lives.
    pub(crate) is_final: bool,
}

/// Opens the device.
pub(crate) fn open(settings: &Settings) -> Result<Arc<dyn Runner>, Absent> {
    let _ = settings;
    Err(Absent {
        reason: "this build has no runtime".to_owned(),
        is_final: true,
    })
}

/// Whether there is a device to open: a look that takes no time.
pub(crate) fn present(options: &GrampusOptions) -> Result<(), Reason> {
    let _ = options;
    Ok(())
}
