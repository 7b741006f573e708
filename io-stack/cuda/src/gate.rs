//! `Gate`: keeps apart kernels that wait for the host and calls of the driver that wait for kernels.
//!
//! Some calls wait until no kernel of the context runs, and hold a lock of the driver meanwhile: those that allocate,
//! register and free memory, load and unload code, and launch a kernel for the first time (CUDA C++ Programming Guide,
//! "Lazy loading"). A kernel that reads by command waits for the controller's threads, whose copies wait for that lock:
//! nothing would go on until the kernel's timeout.
//!
//! - Such a call is made when no such kernel runs ([`Gate::call`]). What is dropped meanwhile is freed later
//!   ([`Gate::give_back`]).
//! - No such kernel is launched while a call is made, or before one that waits ([`Gate::launch`]).
//!
//! **Invariant:** while a call is made, no kernel runs that waits for the host.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Gives something back to the driver.
type Release = Box<dyn FnOnce() + Send>;
/// Whether a launch has ended.
pub(crate) type HasEnded = Box<dyn Fn() -> bool + Send>;

/// Interval of looks at launches that are waited for.
const POLL: Duration = Duration::from_micros(50);

/// The gate of one device.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Launches of kernels that wait for the host. Some may have ended.
    launches: Vec<HasEnded>,
    /// Calls that are being made.
    calls: usize,
    /// Calls that wait until no launch runs.
    waiting: usize,
    /// Calls so far, and those of them that have returned.
    asked: u64,
    returned: u64,
    kept: Vec<Release>,
}

impl State {
    /// Whether no kernel runs that waits for the host.
    fn is_idle(&mut self) -> bool {
        self.launches.retain(|has_ended| !has_ended());
        self.launches.is_empty()
    }
}

/// By ordinal: handles of one GPU share its primary context.
static OF_GPUS: Mutex<BTreeMap<i32, Weak<Gate>>> = Mutex::new(BTreeMap::new());

impl Gate {
    /// The gate of a GPU.
    pub(crate) fn of_gpu(ordinal: i32) -> Arc<Self> {
        let mut known = OF_GPUS.lock().unwrap_or_else(PoisonError::into_inner);
        let of_gpu = known.get(&ordinal).and_then(Weak::upgrade).unwrap_or_default();
        known.insert(ordinal, Arc::downgrade(&of_gpu));
        of_gpu
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let waited = self.changed.wait_timeout(state, POLL);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Makes a call of the driver that may wait for kernels, when none runs that waits for the host.
    pub(crate) fn call<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut state = self.state();
        state.asked += 1;
        state.waiting += 1;
        while !state.is_idle() {
            state = self.wait(state);
        }
        state.waiting -= 1;
        let _call = self.begin(state);
        call()
    }

    /// Frees something now, or when no kernel runs that waits for the host.
    pub(crate) fn give_back(&self, release: impl FnOnce() + Send + 'static) {
        self.state().kept.push(Box::new(release));
        self.settle();
    }

    /// Frees what was kept, if no kernel runs that waits for the host.
    pub(crate) fn settle(&self) {
        let mut state = self.state();
        if !state.kept.is_empty() && state.is_idle() {
            state.asked += 1;
            drop(self.begin(state));
        }
    }

    /// Launches a kernel that waits for the host, when no call is made and those that wait have returned. `alone`: the
    /// launch itself may wait for kernels.
    pub(crate) fn launch<E>(&self, alone: bool, launch: impl FnOnce() -> Result<HasEnded, E>) -> Result<(), E> {
        self.settle();
        let mut state = self.state();
        let asked = state.asked;
        while state.calls > 0 || (state.waiting > 0 && state.returned < asked) || (alone && !state.is_idle()) {
            state = self.wait(state);
        }
        // Under the lock: no call begins meanwhile.
        let has_ended = launch()?;
        state.launches.push(has_ended);
        Ok(())
    }

    /// Whether a call waits, or something is kept.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.state();
        state.waiting > 0 || !state.kept.is_empty()
    }

    /// Begins a call. Nothing runs that waits for the host. What was kept is freed first.
    fn begin<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Call<'a> {
        state.calls += 1;
        let kept = std::mem::take(&mut state.kept);
        drop(state);
        let call = Call(self);
        kept.into_iter().for_each(|release| release());
        call
    }
}

/// A call that is being made.
struct Call<'a>(&'a Gate);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.calls -= 1;
        state.returned += 1;
        drop(state);
        self.0.changed.notify_all();
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Gate")
            .field("launches", &state.launches.len())
            .field("calls", &state.calls)
            .field("kept", &state.kept.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Instant;

    use super::*;

    /// A launch that ends when the flag is set.
    fn launch(gate: &Gate) -> Arc<AtomicBool> {
        let ended = Arc::new(AtomicBool::new(false));
        let flag = ended.clone();
        let has_ended = move || flag.load(Ordering::SeqCst);
        gate.launch(false, || Ok::<HasEnded, ()>(Box::new(has_ended))).unwrap();
        ended
    }

    fn until(what: impl Fn() -> bool) {
        let began = Instant::now();
        while !what() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
    }

    #[test]
    fn handles_of_a_gpu_share_its_gate() {
        let one = Gate::of_gpu(-7);
        assert!(Arc::ptr_eq(&one, &Gate::of_gpu(-7)));
        assert!(!Arc::ptr_eq(&one, &Gate::of_gpu(-8)));
    }

    #[test]
    fn what_is_dropped_beside_launches_is_freed_when_all_have_ended() {
        let gate = Gate::default();
        let freed = Arc::new(AtomicUsize::new(0));
        let give_back = || {
            let counter = freed.clone();
            gate.give_back(move || {
                counter.fetch_add(1, Ordering::SeqCst);
            });
            freed.load(Ordering::SeqCst)
        };
        assert_eq!(give_back(), 1, "nothing runs");
        let (first, second) = (launch(&gate), launch(&gate));
        assert!(!gate.is_wanted());
        assert_eq!(give_back(), 1);
        assert!(gate.is_wanted());
        first.store(true, Ordering::SeqCst);
        assert_eq!(give_back(), 1, "the other one runs");
        second.store(true, Ordering::SeqCst);
        gate.settle();
        assert_eq!((freed.load(Ordering::SeqCst), gate.is_wanted()), (3, false));
    }

    #[test]
    fn a_call_waits_for_launches_and_the_next_launch_for_the_call() {
        let gate = Gate::default();
        let first = launch(&gate);
        let (called, may_return) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let call = scope.spawn(|| {
                gate.call(|| {
                    called.store(true, Ordering::SeqCst);
                    until(|| may_return.load(Ordering::SeqCst));
                });
            });
            until(|| gate.is_wanted());
            assert!(!called.load(Ordering::SeqCst));
            first.store(true, Ordering::SeqCst);
            until(|| called.load(Ordering::SeqCst));
            let next = scope.spawn(|| launch(&gate));
            std::thread::sleep(Duration::from_millis(20)); // so that it most likely waits
            assert!(!next.is_finished());
            may_return.store(true, Ordering::SeqCst);
            call.join().unwrap();
            let next = next.join().unwrap();
            assert!(!gate.is_wanted());
            next.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn a_launch_that_may_wait_for_kernels_waits_for_the_others() {
        let gate = Gate::default();
        let first = launch(&gate);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| gate.launch(true, || Ok::<HasEnded, ()>(Box::new(|| true))));
            std::thread::sleep(Duration::from_millis(20)); // so that it most likely waits
            assert!(!next.is_finished());
            first.store(true, Ordering::SeqCst);
            assert_eq!(next.join().unwrap(), Ok(()));
        });
    }
}
