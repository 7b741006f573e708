//! `HostWork`: a launch on host threads that another thread can wait for.

use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Instant;

/// HostWork in a stream: done, or not yet.
#[derive(Debug, Default)]
pub(super) struct HostWork {
    finished: OnceLock<Instant>,
    waiting: Mutex<()>,
    changed: Condvar,
}

impl HostWork {
    pub(super) fn finish(&self) {
        let _ = self.finished.set(Instant::now());
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    /// When it was done; `None`: it is not.
    pub(super) fn finished(&self) -> Option<Instant> {
        self.finished.get().copied()
    }

    /// Waits until it is done.
    pub(super) fn wait(&self) -> Instant {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(at) = self.finished() {
                return at;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
