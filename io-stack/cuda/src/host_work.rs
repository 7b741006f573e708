//! `HostWork`: a launch on host threads that another thread can wait for.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A launch: running or finished.
#[derive(Debug, Default)]
pub(crate) struct HostWork {
    finished: OnceLock<Instant>,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl HostWork {
    pub(crate) fn finish(&self) {
        let _ = self.finished.set(Instant::now());
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// When the launch ended; `None`: it is running.
    pub(crate) fn finished(&self) -> Option<Instant> {
        self.finished.get().copied()
    }

    /// Waits for the end of the launch.
    pub(crate) fn wait(&self) -> Instant {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = self.finished() {
                return at;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the end of the launch, for `patience` at most. Whether it has ended.
    pub(crate) fn ends_within(&self, patience: Duration) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = |_: &mut ()| self.finished().is_none();
        drop(self.changed.wait_timeout_while(waiting, patience, runs));
        self.finished().is_some()
    }
}
