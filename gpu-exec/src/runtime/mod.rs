//! The runtime: what is kept on a GPU from query to query, and the way of one query through it.
//!
//! ```text
//! device_state     DeviceState: everything that is kept on a device between queries
//! runtime_options  settings with defaults that rarely change
//! warmup           work that is done before the first query needs it
//! planner          a request is validated, its files are opened, and each column gets a backing; nothing is moved
//! file_io          reading files, through the page cache or past it
//! memory           device memory and pinned memory, and what is cached in them
//! transfer         copy jobs for what is missing, and the threads that do them
//! paging           pages that kernels miss
//! io_stack         NVMe commands by kernels
//! launch           kernels, launched behind the copies; results
//! ```
//!
//! Order of use: file_io, memory, transfer, paging, io_stack, warmup, runtime_options, device_state, planner, launch.
//! Each uses only those before it.

mod device_state;
mod file_io;
mod io_stack;
mod launch;
mod memory;
mod paging;
mod planner;
mod runtime_options;
mod transfer;
mod warmup;

use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

use grampus_io_stack::cuda::DeviceFacts;
use grampus_io_stack::stack::StackError;

use self::device_state::DeviceState;
pub use self::io_stack::command_backend::OpenStorage;
use self::launch::executor;
pub use self::runtime_options::RuntimeOptions;
use crate::error::RunError;
use crate::options::{ColumnChoice, GpuOptions, Request};
use crate::output::Output;

/// A GPU with what is kept on it. Queries of several threads run one after the other.
#[derive(Debug)]
pub struct Gpu {
    options: GpuOptions,
    runtime_options: RuntimeOptions,
    facts: DeviceFacts,
    /// `None` after a failure that ended the context: the next query opens it anew.
    state: Mutex<Option<DeviceState>>,
}

impl Gpu {
    /// Opens the device. Memory is taken by the queries that need it.
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
        let state = DeviceState::open(&options, &runtime_options)?;
        Ok(Self {
            facts: state.device.facts()?,
            options,
            runtime_options,
            state: Mutex::new(Some(state)),
        })
    }

    /// The device, as found when it was opened.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Why the program was not run to its end. The next request works, or says why not.
    pub fn run(&self, request: Request<'_>) -> Result<Output, RunError> {
        let mut guard = self.lock(Some(&request))?;
        let state = self.state(&mut guard)?;
        let result = executor::run(state, &request);
        if let Err(e) = &result {
            state.after(e);
            if is_sticky(e) {
                *guard = None;
            }
        }
        result
    }

    /// How each column of a request would be read now. Nothing is run and nothing is moved.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run) that are found before anything is moved.
    pub fn plan(&self, request: Request<'_>) -> Result<Vec<ColumnChoice>, RunError> {
        let mut guard = self.lock(Some(&request))?;
        Ok(planner::plan(self.state(&mut guard)?, &request)?.choices)
    }

    /// The source of the kernel that would be run now, without the headers.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn kernel_source(&self, request: Request<'_>) -> Result<String, RunError> {
        let mut guard = self.lock(Some(&request))?;
        let plan = planner::plan(self.state(&mut guard)?, &request)?;
        executor::kernel_source(&request, &plan)
    }

    /// Bytes of resident columns.
    pub fn resident_bytes(&self) -> u64 {
        match self.lock(None) {
            Ok(guard) => guard.as_ref().map_or(0, |state| state.pool.resident_bytes()),
            Err(_) => 0,
        }
    }

    /// Drops resident columns, mappings, and the sector cache; compiled kernels stay. For measuring.
    ///
    /// # Errors
    /// A device that is lost.
    pub fn forget(&self) -> Result<(), RunError> {
        let mut guard = self.lock(None)?;
        let state = self.state(&mut guard)?;
        state.files.all().into_iter().for_each(|file| state.drop_file(file));
        Ok(())
    }

    /// Waits for the query of another thread to end, and looks at the flag of this one meanwhile.
    fn lock(&self, request: Option<&Request<'_>>) -> Result<MutexGuard<'_, Option<DeviceState>>, RunError> {
        loop {
            if request.is_some_and(|r| r.cancel.load(Ordering::Relaxed)) {
                return Err(RunError::Cancelled);
            }
            match self.state.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A query panicked half-way: its state is discarded.
                    let mut guard = poisoned.into_inner();
                    *guard = None;
                    self.state.clear_poison();
                    return Ok(guard);
                }
            }
        }
    }

    fn state<'a>(&self, guard: &'a mut MutexGuard<'_, Option<DeviceState>>) -> Result<&'a mut DeviceState, RunError> {
        if guard.is_none() {
            **guard = Some(DeviceState::open(&self.options, &self.runtime_options)?);
        }
        guard.as_mut().ok_or_else(|| RunError::Invalid("no device".to_owned()))
    }
}

/// Whether the context is dead after an error.
fn is_sticky(error: &RunError) -> bool {
    match error {
        RunError::Cuda(e) | RunError::Stack(StackError::Cuda(e)) => e.is_sticky(),
        _ => false,
    }
}

const _: fn() = || {
    fn thread_safe<T: Send + Sync>() {}
    thread_safe::<Gpu>();
};
