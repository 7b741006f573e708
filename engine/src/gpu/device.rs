//! The device as the rest of the engine sees it, and how it is opened. The only place that calls `grampus-gpu-exec`'s runtime.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use grampus_gpu_exec::{
    ColumnChoice, CudaError, Gpu, GpuOptions, MachineProfile, Output, Request, RunError, RuntimeOptions, Target,
    compiler_version, library,
};

use super::lower::Reason;
use super::session::Settings;
use crate::config::{GpuTarget, GrampusOptions};

/// Host threads that run kernels in tests, at most.
const HOST_THREADS: usize = 4;
/// Threads that read files and fill the pinned ring, at most: more gained nothing where it was measured.
const READING_THREADS: usize = 16;

/// What runs programs.
pub(crate) trait Runner: fmt::Debug + Send + Sync {
    /// What it is, for people.
    fn name(&self) -> String;

    /// How each column of the program would be read.
    fn choose(&self, request: &Request<'_>) -> Result<Vec<ColumnChoice>, RunError>;

    /// Runs a program.
    fn run(&self, request: &Request<'_>) -> Result<Output, RunError>;

    /// The kernel that would run.
    fn kernel_text(&self, request: &Request<'_>) -> Result<String, RunError>;
}

/// Why there is no device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Absent {
    /// For people.
    pub(crate) reason: Reason,
    /// It will not come while this process lives.
    pub(crate) is_final: bool,
}

impl Runner for Gpu {
    fn name(&self) -> String {
        self.facts().name.clone()
    }

    fn choose(&self, request: &Request<'_>) -> Result<Vec<ColumnChoice>, RunError> {
        self.plan(*request)
    }

    fn run(&self, request: &Request<'_>) -> Result<Output, RunError> {
        Self::run(self, *request)
    }

    fn kernel_text(&self, request: &Request<'_>) -> Result<String, RunError> {
        self.kernel_source(*request)
    }
}

/// Opens the device.
pub(crate) fn open(settings: &Settings, profile: &MachineProfile) -> Result<Arc<dyn Runner>, Absent> {
    let threads = available_parallelism().map_or(1, usize::from);
    let target = match settings.target {
        GpuTarget::Cuda => Target::Cuda(0),
        GpuTarget::Host => Target::Host {
            threads: threads.min(HOST_THREADS) as u32,
        },
    };
    if settings.target == GpuTarget::Cuda {
        library().map_err(|error| absent(&error))?;
        // Without it nothing could ever run: better said now than by every query.
        compiler_version().map_err(|error| absent(&error))?;
    }
    let options = GpuOptions {
        target,
        cache_bytes: settings.cache_bytes,
        pin_bytes: None,
        kernel_folder: settings.kernels.clone(),
        threads: threads.min(READING_THREADS),
    };
    let runtime_options = RuntimeOptions {
        machine_profile: profile.clone(),
        ..RuntimeOptions::default()
    };
    match Gpu::open_with(options, runtime_options) {
        Ok(gpu) => Ok(Arc::new(gpu)),
        Err(RunError::Cuda(error)) => Err(absent(&error)),
        Err(error) => Err(Absent {
            reason: error.to_string(),
            is_final: false,
        }),
    }
}

fn absent(error: &CudaError) -> Absent {
    let is_final = matches!(
        error,
        CudaError::NoDriver(_) | CudaError::NoCompiler | CudaError::NoHostCompiler
    );
    Absent {
        reason: error.to_string(),
        is_final,
    }
}

/// Whether there may be a device to open: a look that takes no time, where opening takes some.
///
/// # Errors
/// What is missing.
pub(crate) fn present(options: &GrampusOptions) -> Result<(), Reason> {
    static LIBRARY: OnceLock<Result<(), Reason>> = OnceLock::new();
    match options.gpu_target {
        GpuTarget::Host => Ok(()),
        GpuTarget::Cuda => LIBRARY
            .get_or_init(|| library().map_err(|error| error.to_string()))
            .clone(),
    }
}
