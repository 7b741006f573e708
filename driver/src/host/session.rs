//! `Session`: the time from one enabling of a controller to its reset, shared by the controller's queues.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::dma::DmaBuffer;

/// Whether queues are alive, and the memory that the controller may still write.
#[derive(Debug)]
pub(super) struct Session {
    alive: AtomicBool,
    /// Memory of commands that never ended.
    lost: Mutex<Vec<DmaBuffer>>,
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            alive: AtomicBool::new(true),
            lost: Mutex::new(Vec::new()),
        }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Ends the session: its queues refuse commands from now on.
    pub(super) fn end(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Keeps memory that the controller may write until it is disabled.
    pub(super) fn keep(&self, buffer: DmaBuffer) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    /// The memory that was kept. The caller frees it after the controller was disabled, and leaks it otherwise.
    pub(super) fn take_lost(&self) -> Vec<DmaBuffer> {
        std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
