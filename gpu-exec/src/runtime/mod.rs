//! Running programs: what is kept on a GPU from query to query, and the way of one query through it.
//!
//! ```text
//! ahead            what is done before the first query needs it
//! check, prepare   the request, its files, and what serves each column (choose, by cost and calibration)
//! execute          one query: bring, stage, drive; again with a larger group table if need be
//! bring            where every value will be (pool, mapping, constants; extents), and jobs for what is missing: as bytes of files, as stored
//!                  bytes that the device decodes (stored, through staging), or as the CPU decodes it
//! drive            reader threads do the jobs (push, from source through ring), kernels are launched behind them (launches): first those that decode
//!                  (arrivals), then the query's
//! passes           as often as it takes: pages that kernels miss (faults) are gathered by threads (gather) and placed (pages)
//! placed           what launches are told, and what they leave
//! queued           the I/O stack for columns that kernels ask for by command; signals where there is none
//! scratch          device memory of one query
//! ```

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
    /// `None` after a failure that ended the context: opened anew by the next query.
    state: Mutex<Option<DeviceState>>,
}

impl Gpu {
    /// Opens the device; takes no memory worth mentioning yet.
    ///
    /// # Errors
    /// [`RunError::Cuda`]: no driver, no such GPU, or no C++ compiler for host threads.
    pub fn open(options: GpuOptions) -> Result<Self, RunError> {
        Self::open_with(options, RuntimeOptions::default())
    }

    /// As [`open`](Self::open), with everything said.
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

    /// The device, as it was when it was opened.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Runs a program.
    ///
    /// # Errors
    /// Why it was not run to its end. The next request works, or says why not.
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

    /// How each column of a request would be read now. Runs nothing and moves nothing.
    ///
    /// # Errors
    /// What [`run`](Self::run) would say before it moves anything.
    pub fn plan(&self, request: Request<'_>) -> Result<Vec<ColumnChoice>, RunError> {
        let mut guard = self.lock(Some(&request))?;
        Ok(planner::plan(self.state(&mut guard)?, &request)?.choices)
    }

    /// The text of the kernel that would be run now, without the headers.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub fn kernel_source(&self, request: Request<'_>) -> Result<String, RunError> {
        let mut guard = self.lock(Some(&request))?;
        let plan = planner::plan(self.state(&mut guard)?, &request)?;
        executor::kernel_source(&request, &plan)
    }

    /// Bytes of columns that are on the device.
    pub fn resident_bytes(&self) -> u64 {
        match self.lock(None) {
            Ok(guard) => guard.as_ref().map_or(0, |state| state.pool.resident_bytes()),
            Err(_) => 0,
        }
    }

    /// Gives up what is kept: resident columns, mappings, the sector cache; compiled kernels stay. For measuring.
    ///
    /// # Errors
    /// A device that is lost.
    pub fn forget(&self) -> Result<(), RunError> {
        let mut guard = self.lock(None)?;
        let state = self.state(&mut guard)?;
        state.files.all().into_iter().for_each(|file| state.drop_file(file));
        Ok(())
    }

    /// Waits for the query of another thread to end, looking at this one's flag meanwhile.
    fn lock(&self, request: Option<&Request<'_>>) -> Result<MutexGuard<'_, Option<DeviceState>>, RunError> {
        loop {
            if request.is_some_and(|r| r.cancel.load(Ordering::Relaxed)) {
                return Err(RunError::Cancelled);
            }
            match self.state.try_lock() {
                Ok(guard) => return Ok(guard),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    // A query panicked half-way: what it left is not to be trusted.
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

/// Whether the context is dead after it.
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
