//! [`Runner`]: the device as the engine sees it.
//!
//! **Invariant:** of the engine, this file alone calls the runtime of `grampus-gpu-exec`.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use grampus_cuda::{CudaError, compiler_version, library};
use grampus_gpu_exec::{
    Gpu, GpuOptions, MachineProfile, Output, Request, RunError, RunPreview, RuntimeOptions, Target,
};

use crate::device_settings::{DeviceSettings, GpuTarget};

/// Maximum number of host threads that run kernels ([`GpuTarget::Host`]).
const MAX_HOST_THREADS: usize = 4;
/// Maximum number of threads that read files and fill the pinned ring. More threads gained nothing in measurements.
const MAX_READER_THREADS: usize = 16;

/// A device that runs programs.
pub(crate) trait Runner: fmt::Debug + Send + Sync {
    /// The name of the device, shown by EXPLAIN.
    fn name(&self) -> String;

    /// Whether the device is open. The first run opens it.
    fn is_open(&self) -> bool;

    /// What a run would find now. Opens nothing and waits for no query.
    fn plan(&self, request: &Request<'_>) -> Result<RunPreview, RunError>;

    /// Runs a program. Opens the device if it is closed.
    fn run(&self, request: &Request<'_>) -> Result<Output, RunError>;

    /// The source of the program's kernel.
    fn kernel_source(&self, request: &Request<'_>) -> Result<String, RunError>;
}

/// The absence of a device. EXPLAIN shows the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Absence {
    /// The cause, for the user.
    reason: String,
    /// True if the device stays absent while this process runs.
    pub(crate) is_final: bool,
}

impl Absence {
    /// The absence that an error of CUDA means.
    pub(crate) fn of(error: &CudaError) -> Self {
        let is_missing = matches!(
            error,
            CudaError::NoDriver(_) | CudaError::NoGpu { .. } | CudaError::NoCompiler | CudaError::NoHostCompiler
        );
        Self {
            reason: error.to_string(),
            is_final: is_missing || error.is_sticky(),
        }
    }

    #[cfg(test)]
    pub(crate) fn final_for_tests(reason: &str) -> Self {
        Self {
            reason: reason.to_owned(),
            is_final: true,
        }
    }
}

impl Runner for Gpu {
    fn name(&self) -> String {
        let kind = match self.target() {
            Target::Cuda(_) | Target::CudaUuid(_) => "NVIDIA GPU",
            Target::Host { .. } => "host threads",
        };
        self.facts()
            .map_or_else(|| format!("{kind} (not opened yet)"), |facts| facts.name)
    }

    fn is_open(&self) -> bool {
        self.facts().is_some()
    }

    fn plan(&self, request: &Request<'_>) -> Result<RunPreview, RunError> {
        Self::plan(self, *request)
    }

    fn run(&self, request: &Request<'_>) -> Result<Output, RunError> {
        if !self.is_open() && self.target().is_cuda() {
            library()?;
            // Without the compiler no kernel can run: the device is not opened for nothing.
            compiler_version()?;
        }
        Self::run(self, *request)
    }

    fn kernel_source(&self, request: &Request<'_>) -> Result<String, RunError> {
        self.kernel_source(*request)
    }
}

/// The device for these settings, which the first run opens.
pub(crate) fn closed(settings: &DeviceSettings, profile: &MachineProfile) -> Arc<dyn Runner> {
    let threads = available_parallelism().map_or(1, usize::from);
    let target = match settings.target {
        // The setting allows nothing else.
        GpuTarget::Cuda => Target::of_gpu(&settings.gpu).unwrap_or(Target::Cuda(0)),
        GpuTarget::Host => Target::host(threads.min(MAX_HOST_THREADS) as u32),
    };
    let options = GpuOptions {
        target,
        cache_bytes: settings.most_cache_bytes(),
        pin_bytes: None,
        kernel_folder: settings.kernel_folder(),
        threads: threads.min(MAX_READER_THREADS),
    };
    let runtime_options = RuntimeOptions {
        machine_profile: profile.clone(),
        sector_log2: settings.sector_log2(),
        ..RuntimeOptions::default()
    };
    Arc::new(Gpu::new(options, runtime_options))
}

/// Checks for the libraries of a device. The check takes no time, while opening the device takes some.
///
/// # Errors
/// Names the missing library.
pub(crate) fn check_libraries(settings: &DeviceSettings) -> Result<(), Absence> {
    static LIBRARY: OnceLock<Result<(), Absence>> = OnceLock::new();
    match settings.target {
        GpuTarget::Host => Ok(()),
        GpuTarget::Cuda => LIBRARY
            .get_or_init(|| library().map_err(|error| Absence::of(&error)))
            .clone(),
    }
}
