//! `Shared`: the common state of a controller and its threads: mode, namespaces, last error, counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::namespace::Namespace;

/// Counters of a controller since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Number of commands taken.
    pub commands: u64,
    /// Number of completions with an error status.
    pub errors: u64,
}

#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    commands: AtomicU64,
    errors: AtomicU64,
}

impl SharedCounters {
    pub(super) fn add(&self, counted: &ControllerCounters) {
        self.commands.fetch_add(counted.commands, Ordering::Relaxed);
        self.errors.fetch_add(counted.errors, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> ControllerCounters {
        ControllerCounters {
            commands: self.commands.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
        }
    }
}

/// The threads' task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Watch doorbells.
    Run,
    /// Take no more commands, finish those in flight, forget ring positions, wait.
    Rest,
    /// Like `Rest`, then end.
    Stop,
}

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) mode: Mode,
    /// Incremented at every change of mode or namespaces, and to wake threads.
    pub(crate) epoch: u64,
    /// Threads that have reached `Rest` or `Stop` in this epoch.
    pub(crate) resting: usize,
    /// The last error of a storage or of the copy engine, in words: completions only carry a status.
    pub(crate) last_error: Option<String>,
    /// The namespaces that threads answer for, from the next epoch on.
    pub(crate) namespaces: Arc<Vec<Namespace>>,
    /// Number of threads that have opened these namespaces; and the reason if one could not.
    pub(crate) informed: usize,
    pub(crate) refused: Option<String>,
}

/// Shared by the controller and its threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) control: Mutex<Control>,
    pub(crate) changed: Condvar,
    /// Copy of `Control::epoch`, which threads load in every round. The load's acquire pairs with the release of the
    /// stores; threads then take the lock.
    pub(crate) epoch: AtomicU64,
    pub(crate) counters: SharedCounters,
}

impl Shared {
    /// At rest, with these namespaces.
    pub(super) fn new(namespaces: Arc<Vec<Namespace>>) -> Self {
        let control = Control {
            mode: Mode::Rest,
            epoch: 0,
            resting: 0,
            last_error: None,
            namespaces,
            informed: 0,
            refused: None,
        };
        Self {
            control: Mutex::new(control),
            changed: Condvar::new(),
            epoch: AtomicU64::new(0),
            counters: SharedCounters::default(),
        }
    }

    pub(crate) fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn report(&self, error: String) {
        log::warn!("{error}");
        self.control().last_error = Some(error);
    }
}
