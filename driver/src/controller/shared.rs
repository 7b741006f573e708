//! `Shared`: the common state of a controller and its threads: mode, namespaces, last error, counters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::namespace::Namespace;

/// Counters of a controller since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ControllerCounters {
    /// Number of commands taken.
    pub commands: u64,
    /// Number of completions with an error status.
    pub errors: u64,
    /// Of the commands, reads of blocks that exist.
    pub reads: u64,
    /// Of the commands, writes of blocks that exist.
    pub writes: u64,
    /// Bytes of these reads.
    pub bytes_read: u64,
    /// Bytes of these writes.
    pub bytes_written: u64,
}

impl std::ops::Add for ControllerCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            commands: self.commands + other.commands,
            errors: self.errors + other.errors,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            bytes_read: self.bytes_read + other.bytes_read,
            bytes_written: self.bytes_written + other.bytes_written,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SharedCounters {
    commands: AtomicU64,
    errors: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl SharedCounters {
    pub(super) fn add(&self, counted: &ControllerCounters) {
        self.commands.fetch_add(counted.commands, Ordering::Relaxed);
        self.errors.fetch_add(counted.errors, Ordering::Relaxed);
        self.reads.fetch_add(counted.reads, Ordering::Relaxed);
        self.writes.fetch_add(counted.writes, Ordering::Relaxed);
        self.bytes_read.fetch_add(counted.bytes_read, Ordering::Relaxed);
        self.bytes_written.fetch_add(counted.bytes_written, Ordering::Relaxed);
    }

    pub(super) fn total(&self) -> ControllerCounters {
        ControllerCounters {
            commands: self.commands.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
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
    /// Whether threads add up their counters before they answer a command.
    pub(crate) counts_first: AtomicBool,
    /// Longest transfer of a command in bytes.
    pub(crate) max_transfer_bytes: AtomicU64,
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
            counts_first: AtomicBool::new(false),
            max_transfer_bytes: AtomicU64::new(u64::MAX),
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
