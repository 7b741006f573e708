//! [`BackgroundLoader`]: after a query on the CPU, loads its columns into device memory, if the GPU answers the query
//! faster from there.
//!
//! 1. The offload rule leaves a query on the CPU and finds that resident columns would make the GPU faster. The rule
//!    attaches [`LoadAfterRun`] to the query's scan.
//! 2. When the query has ended, the loader's thread waits until no other query of this kind ends for a moment.
//! 3. The thread runs the query's program on the device and drops the output. The run opens the device and leaves the
//!    columns in device memory.
//! 4. The next plan finds the columns on the device.
//!
//! **Invariant:** one load runs at a time. Dropping the loader cancels the load and waits for its end.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use super::device_choice::shown;
use super::device_run::run;
use super::gpu_work::GpuWork;
use super::session::ColumnsKey;
use crate::scan::execution_listener::ExecutionListener;

/// The pause after a query before its columns are loaded. A program that ends after one query opens no device.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of sets of columns that are not loaded again. A loader at the maximum forgets all.
const MAX_FUTILE: usize = 10_000;

/// Loads columns on a thread of its own, which the first load starts.
#[derive(Debug, Default)]
pub(crate) struct BackgroundLoader {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The flag of the load that runs.
    cancel: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    /// The query that ended last.
    next: Option<Arc<GpuWork>>,
    loading: bool,
    stopping: bool,
    /// Columns that a load did not leave on the device: they do not fit, or the run failed.
    futile: HashSet<ColumnsKey>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: one load after the other.
    fn run(&self) {
        while let Some(work) = self.next() {
            let columns = ColumnsKey::of(&work.gpu_input.input);
            let loaded = catch_unwind(AssertUnwindSafe(|| load(&work, &self.cancel)));
            let is_loaded = loaded.unwrap_or_else(|_| {
                log::warn!("columns not loaded in the background: a panic");
                false
            });
            drop(work);
            let mut state = self.state();
            state.loading = false;
            if !is_loaded {
                if state.futile.len() >= MAX_FUTILE {
                    state.futile.clear();
                }
                state.futile.insert(columns);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    /// The query whose columns are loaded next. `None`: the loader stops.
    fn next(&self) -> Option<Arc<GpuWork>> {
        let mut state = self.state();
        loop {
            while !state.stopping && state.next.is_none() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            // Each change, such as the end of a further query, begins the pause again.
            let (after, pause) = self
                .changed
                .wait_timeout(state, PAUSE)
                .unwrap_or_else(PoisonError::into_inner);
            state = after;
            if state.stopping {
                return None;
            }
            if pause.timed_out()
                && let Some(work) = state.next.take()
            {
                state.loading = true;
                return Some(work);
            }
        }
    }
}

/// Runs the work. Returns false if its columns are not on the device afterwards.
fn load(work: &GpuWork, cancel: &Arc<AtomicBool>) -> bool {
    let device = work.session.device(&work.settings, &work.profile);
    // Resident columns may have another kernel than columns that are loaded page by page: the second run compiles it.
    for _ in 0..2 {
        match run(work, cancel) {
            Ok((output, _)) => {
                log::info!(
                    "columns loaded in the background, {} by kernels",
                    shown(output.cost.kernel)
                );
            }
            Err(error) => {
                log::info!("columns not loaded in the background: {error}");
                return false;
            }
        }
        if work.is_hot(device.as_ref()) {
            return true;
        }
    }
    false
}

impl BackgroundLoader {
    /// Whether loading these columns may leave them on the device.
    pub(crate) fn may_load(&self, columns: ColumnsKey) -> bool {
        !self.shared.state().futile.contains(&columns)
    }

    /// Loads the columns of a query that has ended, soon.
    fn load_soon(&self, work: Arc<GpuWork>) {
        self.shared.state().next = Some(work);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new()
                .name("grampus-load".to_owned())
                .spawn(move || shared.run());
            match spawned {
                Ok(spawned) => *thread = Some(spawned),
                Err(error) => log::warn!("no thread to load columns in the background: {error}"),
            }
        }
        self.shared.changed.notify_all();
    }

    /// Waits until nothing is to be loaded.
    #[cfg(test)]
    pub(crate) fn wait_until_idle(&self) {
        let mut state = self.shared.state();
        while state.next.is_some() || state.loading {
            let changed = self.shared.changed.wait_timeout(state, Duration::from_millis(1));
            state = changed.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for BackgroundLoader {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.cancel.store(true, Ordering::Relaxed);
        self.shared.changed.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            log::warn!("the thread that loads columns in the background panicked");
        }
    }
}

/// Loads the columns of a query when an execution on the CPU has ended.
#[derive(Debug)]
pub(crate) struct LoadAfterRun {
    pub(crate) loader: Weak<BackgroundLoader>,
    pub(crate) work: Arc<GpuWork>,
}

impl ExecutionListener for LoadAfterRun {
    fn ended(&self) {
        if let Some(loader) = self.loader.upgrade() {
            loader.load_soon(Arc::clone(&self.work));
        }
    }
}
