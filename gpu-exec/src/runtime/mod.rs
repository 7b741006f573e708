//! The runtime: what is kept on a GPU from query to query, and the way of one query through it.
//!
//! ```text
//! turn_queue       places that queries take in the order of their arrival
//! query_resources  streams and buffers of one running query
//! device_state     DeviceState: everything that is kept on a device between queries, and that running queries share
//! runtime_options  settings with defaults that rarely change
//! warmup           work that is done before the first query needs it
//! planner          a request is validated, its files are opened, and each column gets a backing; nothing is moved
//! kept_plans       plans of queries that found all their columns resident
//! file_io          reading files, through the page cache or past it
//! memory           device memory and pinned memory, and what is cached in them
//! transfer         copy jobs for what is missing, and the threads that do them
//! decoding         decompression and decoding on the device
//! paging           pages that kernels miss
//! io_stack         NVMe commands by kernels
//! launch           kernels, launched behind the copies; results
//! ```
//!
//! `.ci/folder-order` has their order of use.

mod decoding;
mod device_state;
mod file_io;
mod io_stack;
mod kept_plans;
mod launch;
mod memory;
mod paging;
mod planner;
mod query_resources;
mod runtime_options;
mod transfer;
mod turn_queue;
mod warmup;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use grampus_cuda::{CudaError, DeviceFacts};

use self::device_state::{DeviceState, limits_before_opening};
pub use self::io_stack::command_backend::{FileCommands, OpenStorage};
use self::kept_plans::KeptPlans;
use self::launch::{executor, planned_kernel};
use self::memory::residency::Residency;
use self::planner::column_layouts::ColumnLayouts;
use self::planner::{QueryPlan, Rates};
pub use self::runtime_options::RuntimeOptions;
use self::turn_queue::TurnQueue;
use crate::error::RunError;
use crate::generated_kernels::GeneratedKernels;
use crate::options::{GpuOptions, Request, RunPreview, Target};
use crate::output::Output;

/// Queries that run side by side, at most. Further ones wait in the order of their arrival.
const MAX_QUERIES: usize = 32;
/// Interval of looks at the caller's flag while another query opens the device.
const OPEN_POLL: Duration = Duration::from_micros(200);

/// A GPU with what is kept on it. The first query opens it. Queries of several threads run side by side.
///
/// Planning ([`plan`](Self::plan), [`kernel_source`](Self::kernel_source)) opens nothing, waits for no query, and
/// changes nothing.
#[derive(Debug)]
pub struct Gpu {
    options: GpuOptions,
    runtime_options: RuntimeOptions,
    queries: TurnQueue,
    /// Locked for look-ups and replacements alone.
    state: Mutex<Opened>,
    /// Held while the device is opened.
    opening: Mutex<()>,
    kept_plans: KeptPlans,
    /// What plans know while the device is closed.
    unopened: Arc<Residency>,
}

/// The device's state, if it is open.
#[derive(Debug, Default)]
struct Opened {
    state: Option<Arc<DeviceState>>,
    /// A state with a dead context. The device can be opened anew when the last query has left it.
    closing: Weak<DeviceState>,
    /// Outlives a state: plans do not hold states, whose end waits for kernels.
    published: Option<(Arc<Residency>, DeviceFacts)>,
}

impl Gpu {
    /// A device that the first query opens.
    pub fn new(options: GpuOptions, runtime_options: RuntimeOptions) -> Self {
        Self {
            unopened: Arc::new(Residency::new(limits_before_opening(&options, &runtime_options))),
            options,
            runtime_options,
            queries: TurnQueue::new(MAX_QUERIES),
            state: Mutex::default(),
            opening: Mutex::new(()),
            kept_plans: KeptPlans::default(),
        }
    }

    /// Opens the device at once. Memory is taken by the queries that need it.
    ///
    /// # Errors
    /// [`RunError::Cuda`]: no driver, no such GPU, or no C++ compiler for host threads.
    pub fn open(options: GpuOptions) -> Result<Self, RunError> {
        Self::open_with(options, RuntimeOptions::default())
    }

    /// As [`open`](Self::open), with all settings.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(options: GpuOptions, runtime_options: RuntimeOptions) -> Result<Self, RunError> {
        let gpu = Self::new(options, runtime_options);
        gpu.state(|| false)?;
        Ok(gpu)
    }

    /// The device, as found when it was opened; `None`: it is closed.
    pub fn facts(&self) -> Option<DeviceFacts> {
        let opened = self.opened();
        opened.published.as_ref().map(|(_, facts)| facts.clone())
    }

    /// The hardware that runs kernels.
    pub fn target(&self) -> Target {
        self.options.target
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Why the program was not run to its end. The next request works, or says why not: no kernel runs on a GPU after
    /// one failed there (docs/experiments/0041).
    pub fn run(&self, request: Request<'_>) -> Result<Output, RunError> {
        let stop = || request.is_cancelled();
        let turn = self.queries.enter(stop).ok_or(RunError::Cancelled)?;
        let state = self.state(stop)?;
        let discard = DiscardOnPanic {
            gpu: self,
            state: &state,
        };
        let result = executor::run(&state, &self.kept_plans, &request, &turn);
        drop(discard);
        let failure = result.as_ref().err().and_then(RunError::cuda);
        if failure.is_some_and(CudaError::is_sticky) {
            if let Some(library) = request.decompression.library {
                // nvCOMP's answer to corrupt chunks is undefined, and may be this failure.
                log::warn!("the device failed while nvCOMP was in use: this process uses nvCOMP no more");
                library.suspect();
            }
            self.discard(&state);
        }
        result
    }

    /// What a run of the request would find now.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) that are found before files are opened.
    pub fn plan(&self, request: Request<'_>) -> Result<RunPreview, RunError> {
        let residency = self.published();
        let program = ColumnLayouts::default().program(&request, &residency);
        let request = Request {
            program: &program,
            ..request
        };
        let state = self.opened().state.clone();
        let kept = state
            .as_ref()
            .and_then(|state| self.kept_plans.find(&request, &state.residency));
        let plan = match kept {
            Some(kept) => kept.query_plan(Vec::new()),
            None => self.preview(&request, &residency)?,
        };
        let is_compiled = |state: Arc<DeviceState>| -> Result<bool, RunError> {
            let kernel = planned_kernel(&state.generated, &request, &plan)?;
            Ok(state.kernels.is_compiled(&kernel))
        };
        Ok(RunPreview {
            is_compiled: state.map_or(Ok(false), is_compiled)?,
            kernel_shape: plan.kernel.to_string(),
            coded_groups: plan.kernel.coded_groups(),
            columns: plan.choices,
        })
    }

    /// The source of the kernel that would be run now, without the headers.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn kernel_source(&self, request: Request<'_>) -> Result<String, RunError> {
        let residency = self.published();
        let program = ColumnLayouts::default().program(&request, &residency);
        let request = Request {
            program: &program,
            ..request
        };
        let plan = self.preview(&request, &residency)?;
        let kernel = planned_kernel(&GeneratedKernels::default(), &request, &plan)?;
        Ok(kernel.source().to_owned())
    }

    /// What plans know of the device.
    fn published(&self) -> Arc<Residency> {
        let published = self.opened().published.as_ref().map(|(residency, _)| residency.clone());
        published.unwrap_or_else(|| self.unopened.clone())
    }

    fn preview(&self, request: &Request<'_>, residency: &Residency) -> Result<QueryPlan, RunError> {
        let rates = Rates {
            profile: &self.runtime_options.machine_profile,
            sector_log2: self.runtime_options.sector_log2,
            commands: true,
        };
        planner::preview(residency, request, rates)
    }

    /// Bytes of resident columns.
    pub fn resident_bytes(&self) -> u64 {
        let state = self.opened().state.clone();
        state.map_or(0, |state| state.pool().resident_bytes())
    }

    /// Bytes that resident columns may take.
    pub fn capacity_bytes(&self) -> u64 {
        self.published().known().capacity()
    }

    /// Drops resident columns, mappings, and the sector cache's lines; compiled kernels stay. For measuring.
    ///
    /// # Errors
    /// A device that is lost.
    pub fn forget(&self) -> Result<(), RunError> {
        let state = self.state(|| false)?;
        (state.residency.all_files().into_iter()).for_each(|file| state.drop_file(file));
        Ok(())
    }

    fn opened(&self) -> MutexGuard<'_, Opened> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open device's state. Opens the device if it is closed.
    fn state(&self, stop: impl Fn() -> bool) -> Result<Arc<DeviceState>, RunError> {
        let _opening = loop {
            if let Some(state) = &self.opened().state {
                return Ok(state.clone());
            }
            match self.opening.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if stop() => return Err(RunError::Cancelled),
                Err(TryLockError::WouldBlock) => std::thread::sleep(OPEN_POLL),
            }
        };
        loop {
            let opened = self.opened();
            if let Some(state) = &opened.state {
                return Ok(state.clone());
            }
            if opened.closing.strong_count() == 0 {
                break;
            }
            drop(opened);
            if stop() {
                return Err(RunError::Cancelled);
            }
            std::thread::sleep(OPEN_POLL);
        }
        let state = Arc::new(DeviceState::open(&self.options, &self.runtime_options)?);
        *self.opened() = Opened {
            published: Some((state.residency.clone(), state.facts.clone())),
            state: Some(state.clone()),
            closing: Weak::new(),
        };
        Ok(state)
    }

    /// Gives up a state whose context is dead: the next query opens the device anew.
    fn discard(&self, state: &Arc<DeviceState>) {
        let mut opened = self.opened();
        if opened.state.as_ref().is_some_and(|open| Arc::ptr_eq(open, state)) {
            *opened = Opened {
                closing: Arc::downgrade(state),
                ..Opened::default()
            };
            self.kept_plans.clear(); // they have memory of the dead context
        }
    }
}

/// Gives up the state of a query that panics half-way.
struct DiscardOnPanic<'a> {
    gpu: &'a Gpu,
    state: &'a Arc<DeviceState>,
}

impl Drop for DiscardOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.gpu.discard(self.state);
        }
    }
}

const _: fn() = || {
    fn thread_safe<T: Send + Sync>() {}
    thread_safe::<Gpu>();
};
