//! [`BackgroundLoader`]: after queries on the CPU, loads their columns into device memory, if the GPU answers the
//! queries faster from there.
//!
//! 1. The offload rule leaves a query on the CPU and finds that resident columns would make the GPU faster. The rule
//!    attaches [`LoadAfterRun`] to the query's scan.
//! 2. When the query has ended, it waits for the loader. The loader's thread pauses after the first query that waits.
//!    Further queries do not prolong the pause.
//! 3. Of the queries that wait, the thread takes the one that is asked most ([`LoadDemand`]). It runs the query's
//!    program on the device and drops the output. The run opens the device and leaves the columns in device memory.
//! 4. The next plan finds the columns on the device.
//!
//! A load that fails, that finds too little memory, or that evicts what is asked more often is not repeated at once:
//! the query waits for longer after each such load.
//!
//! **Invariant:** one load runs at a time. Dropping the loader cancels the load and waits for its end.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use grampus_gpu_exec::{RefusalReason, RunError};

use super::device_choice::shown;
use super::device_run::run;
use super::gpu_work::GpuWork;
use super::load_demand::LoadKey;
use crate::scan::execution_listener::ExecutionListener;

/// The pause before a load. A program that ends after one query opens no device.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of queries that wait to be loaded. The one that is asked least leaves.
const MAX_WAITING: usize = 64;
/// Maximum number of queries of which the loader remembers loads or delays. A loader at the maximum forgets all.
const MAX_REMEMBERED: usize = 10_000;
/// The delay after a load for which memory was short, which other queries may give back soon.
const SHORT_DELAY: Duration = Duration::from_millis(500);
/// The delay after a load that failed otherwise: the same values would fail again.
const FAILED_DELAY: Duration = Duration::from_secs(60);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(600);

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
    /// The last query of each key that has ended since the key's last load.
    waiting: HashMap<LoadKey, Waiting>,
    /// The end of the pause, while queries wait.
    begins: Option<Instant>,
    loading: bool,
    stopping: bool,
    /// Queries that were loaded, and the number of the load. Those that are asked for again were evicted.
    loaded: HashMap<LoadKey, u64>,
    delays: HashMap<LoadKey, Delay>,
    /// Queries and loads so far, by which they are ordered.
    count: u64,
}

#[derive(Debug)]
struct Waiting {
    /// The number of the query.
    number: u64,
    work: Arc<GpuWork>,
}

/// The time for which a query is not loaded.
#[derive(Debug, Clone, Copy)]
struct Delay {
    until: Instant,
    length: Duration,
}

/// The end of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loaded {
    /// The columns are on the device.
    Whole,
    /// There was too little memory, or the columns left it again.
    Short,
    /// The run failed, or was cancelled.
    Failed,
}

impl State {
    fn may_load(&self, key: LoadKey, now: Instant) -> bool {
        self.delays.get(&key).is_none_or(|delay| delay.until <= now)
    }

    /// Begins a delay, or one that is twice as long as the last one.
    fn delay(&mut self, key: LoadKey, first: Duration, now: Instant) {
        make_room(&mut self.delays);
        let last = self.delays.get(&key).filter(|last| now < last.until + 4 * last.length);
        let length = last.map_or(first, |last| (2 * last.length).clamp(first, MAX_DELAY));
        let until = now + length;
        self.delays.insert(key, Delay { until, length });
    }

    /// A query of `work` has ended on the CPU.
    fn ended(&mut self, key: LoadKey, work: &Arc<GpuWork>, now: Instant) {
        let asked = &work.session.demand;
        asked.count(key, now);
        let load = self.loaded.remove(&key);
        // The columns were loaded and have left the device. What was loaded last needs as much memory.
        if let Some(load) = load
            && let Some((&other, &last)) = self.loaded.iter().max_by_key(|(_, load)| **load)
            && last > load
            && asked.of(other, now) <= asked.of(key, now)
        {
            self.delay(other, SHORT_DELAY, now);
        }
        self.count += 1;
        let (number, work) = (self.count, Arc::clone(work));
        self.waiting.insert(key, Waiting { number, work });
        if self.waiting.len() > MAX_WAITING
            && let Some(least) = self.by_demand(now).next()
        {
            self.waiting.remove(&least);
        }
        self.begins.get_or_insert(now + PAUSE);
    }

    /// The queries that wait, those that are asked least first. Of two that are asked as often, the earlier one.
    fn by_demand(&self, now: Instant) -> impl DoubleEndedIterator<Item = LoadKey> + use<> {
        let asked =
            |(&key, waiting): (&LoadKey, &Waiting)| (waiting.work.session.demand.of(key, now), waiting.number, key);
        let mut keys: Vec<_> = self.waiting.iter().map(asked).collect();
        keys.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        keys.into_iter().map(|(_, _, key)| key)
    }

    /// Takes the query that is asked most.
    fn take_most_asked(&mut self, now: Instant) -> Option<(LoadKey, Arc<GpuWork>)> {
        let delayed: Vec<LoadKey> = self
            .waiting
            .keys()
            .copied()
            .filter(|key| !self.may_load(*key, now))
            .collect();
        for key in delayed {
            self.waiting.remove(&key);
        }
        let most = self.by_demand(now).next_back();
        let taken = most.and_then(|key| Some((key, self.waiting.remove(&key)?.work)));
        self.begins = (!self.waiting.is_empty()).then_some(now + PAUSE);
        taken
    }

    /// A load has ended.
    fn load_ended(&mut self, key: LoadKey, outcome: Loaded, now: Instant) {
        self.loading = false;
        match outcome {
            Loaded::Whole => {
                make_room(&mut self.loaded);
                self.count += 1;
                self.loaded.insert(key, self.count);
            }
            Loaded::Short => self.delay(key, SHORT_DELAY, now),
            Loaded::Failed => self.delay(key, FAILED_DELAY, now),
        }
    }
}

/// Forgets all that a full map remembers.
fn make_room<V>(remembered: &mut HashMap<LoadKey, V>) {
    if remembered.len() >= MAX_REMEMBERED {
        remembered.clear();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: one load after the other.
    fn run(&self) {
        while let Some((key, work)) = self.next() {
            let loaded = catch_unwind(AssertUnwindSafe(|| load(&work, &self.cancel)));
            let outcome = loaded.unwrap_or_else(|_| {
                log::warn!("columns not loaded in the background: a panic");
                Loaded::Failed
            });
            drop(work);
            self.state().load_ended(key, outcome, Instant::now());
            self.changed.notify_all();
        }
    }

    /// The query whose columns are loaded next. `None`: the loader stops.
    fn next(&self) -> Option<(LoadKey, Arc<GpuWork>)> {
        let mut state = self.state();
        loop {
            if state.stopping {
                return None;
            }
            let now = Instant::now();
            state = match state.begins {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(begins) if now < begins => {
                    let waited = self.changed.wait_timeout(state, begins - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    if let Some(taken) = state.take_most_asked(now) {
                        state.loading = true;
                        return Some(taken);
                    }
                    state
                }
            };
        }
    }
}

/// Runs the work, so that its columns are on the device afterwards.
fn load(work: &GpuWork, cancel: &Arc<AtomicBool>) -> Loaded {
    let device = work.session.device(&work.settings, &work.profile);
    // Another load may have brought the columns and the kernel.
    if device.is_open() && work.is_hot(device.as_ref()) {
        return Loaded::Whole;
    }
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
                return if is_transient(&error) {
                    Loaded::Short
                } else {
                    Loaded::Failed
                };
            }
        }
        if work.is_hot(device.as_ref()) {
            return Loaded::Whole;
        }
    }
    Loaded::Short
}

/// Whether the same run may succeed soon: other queries held the memory or the threads.
fn is_transient(error: &RunError) -> bool {
    error.shortage().is_some() || matches!(error, RunError::Refused(RefusalReason::Thread(_)))
}

impl BackgroundLoader {
    /// Whether loading these columns may leave them on the device.
    pub(crate) fn may_load(&self, key: LoadKey) -> bool {
        self.shared.state().may_load(key, Instant::now())
    }

    /// Loads the columns of a query that has ended, soon.
    fn load_soon(&self, work: &Arc<GpuWork>) {
        self.shared.state().ended(work.load_key(), work, Instant::now());
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
        while !state.waiting.is_empty() || state.loading {
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
            loader.load_soon(&self.work);
        }
    }
}
