//! `Shared`: what a controller and its threads have in common: the mode, the namespaces, the last error, counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::namespace::Namespace;

/// What a controller has done since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Commands taken.
    pub commands: u64,
    /// Completions with an error status.
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

/// What the threads shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Watch doorbells.
    Run,
    /// Take nothing more, finish what is held, forget ring positions, wait.
    Rest,
    /// As `Rest`, then leave.
    Stop,
}

#[derive(Debug)]
pub(crate) struct Control {
    pub(crate) mode: Mode,
    /// Grows with every change of mode or namespaces, and to wake threads.
    pub(crate) epoch: u64,
    /// Threads that have reached `Rest` or `Stop` in this epoch.
    pub(crate) resting: usize,
    /// The last error a storage or the copy engine gave, in words: completions only carry a status.
    pub(crate) last_error: Option<String>,
    /// What threads answer for, from the next epoch they see on.
    pub(crate) namespaces: Arc<Vec<Namespace>>,
    /// Threads that have opened these; and why one could not.
    pub(crate) informed: usize,
    pub(crate) refused: Option<String>,
}

/// Shared by the controller and its threads.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) control: Mutex<Control>,
    pub(crate) changed: Condvar,
    /// Copy of `Control::epoch` that threads look at in every round.
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
