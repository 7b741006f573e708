//! The software controller: NVMe commands from submission queues in shared memory, answered by threads.
//! docs/PROTOCOL.md, "What a controller must do", has its duties.
//!
//! 1. A thread watches the doorbells of its queues and takes new entries (`queue`).
//! 2. `transfer` decodes an entry into reads, or into the status that rejects it.
//! 3. `worker` starts the reads on its channel to the storage (`target`).
//! 4. Bytes for device memory go to a staging buffer, and from there through the copy engine.
//! 5. The thread posts the completion.
//!
//! | file | what |
//! | --- | --- |
//! | `block_commands` | writes, zeroing and flushes |
//! | `virtual_controller` | registers, for a host that drives the controller as any other |
//! | `virtual_state`, `admin_queue`, `admin_commands` | what lies behind the registers |
//! | `namespace` | a storage under its NVMe number |
//! | `shared` | mode, namespaces, last error and counters, shared by the threads |
//! | `slab` | values under small reusable numbers |
//!
//! **Invariant:** a queue belongs to one thread. A thread has its own channel to every storage and its own uploader, so
//! threads share only what `shared` has.

mod admin_commands;
mod admin_queue;
mod block_commands;
mod namespace;
mod queue;
mod shared;
mod slab;
mod target;
mod transfer;
mod virtual_controller;
mod virtual_state;
mod worker;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::bus::BusMemory;
use crate::error::ControllerError;
use crate::raw::QueueRings;
pub use namespace::Namespace;
pub use shared::ControllerCounters;
use shared::{Mode, Shared};
pub use virtual_controller::VirtualController;
pub use virtual_state::VirtualOptions;
use worker::Worker;

/// One queue pair to serve.
#[derive(Debug)]
pub struct QueueSetup {
    /// The rings of the pair.
    pub rings: QueueRings,
    /// NVMe queue id, as completions carry it.
    pub qid: u16,
}

/// Options of a controller.
#[derive(Debug, Clone)]
pub struct ControllerOptions {
    /// Number of threads; at most one for each queue is of use.
    pub threads: usize,
    /// Reads in flight per thread and storage.
    pub depth: u32,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self { threads: 4, depth: 256 }
    }
}

/// Longest time that dropping a controller waits for reads in flight.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// A running software controller. Dropping it stops its threads after they have finished their commands. Threads that a
/// storage stalls for longer than five seconds are left behind: call [`rest`](Controller::rest) before freeing memory.
#[derive(Debug)]
pub struct Controller {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Controller {
    /// Starts the threads at rest; [`resume`](Self::resume) sets them to work.
    ///
    /// # Errors
    /// [`ControllerError::Start`].
    pub fn start(
        queues: Vec<QueueSetup>,
        namespaces: Vec<Namespace>,
        bus: Arc<dyn BusMemory>,
        options: &ControllerOptions,
    ) -> Result<Self, ControllerError> {
        let threads = options.threads.clamp(1, queues.len().max(1));
        let namespaces = Arc::new(namespaces);
        let shared = Arc::new(Shared::new(namespaces.clone()));
        let mut shares: Vec<Vec<QueueSetup>> = (0..threads).map(|_| Vec::new()).collect();
        for (i, queue) in queues.into_iter().enumerate() {
            shares[i % threads].push(queue);
        }
        let mut controller = Self {
            shared: shared.clone(),
            threads: Vec::new(),
        };
        for (i, share) in shares.into_iter().enumerate() {
            let worker = Worker::new(share, &namespaces, bus.clone(), options.depth, shared.clone())
                .map_err(ControllerError::Start)?;
            let thread = std::thread::Builder::new()
                .name(format!("nvme-controller-{i}"))
                .spawn(move || worker.run())
                .map_err(|e| ControllerError::Start(e.to_string()))?;
            controller.threads.push(thread);
        }
        Ok(controller)
    }

    /// Makes the controller refuse commands that move more than `max_transfer_bytes`, and count a command before it is
    /// answered, so that a host can compare the counters with its own at any time.
    pub fn be_strict(&self, max_transfer_bytes: u64) {
        self.shared
            .max_transfer_bytes
            .store(max_transfer_bytes, Ordering::Relaxed);
        self.shared.counts_first.store(true, Ordering::Relaxed);
    }

    /// Sets the threads to work. The rings must be in their start state, or as this controller left them.
    pub fn resume(&self) {
        self.set_mode(Mode::Run);
    }

    /// Brings the threads to rest: they take no more commands and finish those in flight. Afterwards no command writes
    /// anywhere, and the host may reset rings and doorbells before [`resume`](Self::resume).
    ///
    /// # Errors
    /// [`ControllerError::Stalled`] if reads are still in flight after `timeout`.
    pub fn rest(&self, timeout: Duration) -> Result<(), ControllerError> {
        self.set_mode(Mode::Rest);
        self.wait_for_rest(timeout)
    }

    fn wait_for_rest(&self, timeout: Duration) -> Result<(), ControllerError> {
        let deadline = Instant::now() + timeout;
        let mut control = self.shared.control();
        while control.resting < self.threads.len() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Err(ControllerError::Stalled(timeout));
            };
            control = self
                .shared
                .changed
                .wait_timeout(control, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Ok(())
    }

    /// Announces commands: threads that have been idle for seconds, and sleep, look at once. Without it they look
    /// within a tenth of a second.
    pub fn wake(&self) {
        let mut control = self.shared.control();
        if control.mode == Mode::Run {
            control.epoch += 1;
            self.shared.epoch.store(control.epoch, Ordering::Release);
            self.shared.changed.notify_all();
        }
    }

    /// Replaces the namespaces, while the threads run or rest. Storages under new numbers are opened; those whose
    /// numbers are gone are closed. A number stands for one storage forever. No command for a closed storage may be in
    /// flight.
    ///
    /// # Errors
    /// [`ControllerError::Start`] if a storage cannot be opened: only commands for that storage fail then.
    /// [`ControllerError::Stalled`] if a thread has not looked within `timeout`.
    pub fn set_namespaces(&self, namespaces: Vec<Namespace>, timeout: Duration) -> Result<(), ControllerError> {
        let deadline = Instant::now() + timeout;
        let mut control = self.shared.control();
        control.namespaces = Arc::new(namespaces);
        (control.informed, control.refused) = (0, None);
        control.epoch += 1;
        control.resting = 0; // resting threads look too, and count themselves again
        self.shared.epoch.store(control.epoch, Ordering::Release);
        self.shared.changed.notify_all();
        while control.informed < self.threads.len() {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return Err(ControllerError::Stalled(timeout));
            };
            let waited = self.shared.changed.wait_timeout(control, left);
            control = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        control
            .refused
            .take()
            .map_or(Ok(()), |why| Err(ControllerError::Start(why)))
    }

    /// The counters so far. Threads add theirs up when they become idle and when they rest: the figures are exact after
    /// [`rest`](Self::rest).
    pub fn counters(&self) -> ControllerCounters {
        self.shared.counters.total()
    }

    /// Takes the last error in words: the reason behind an error status.
    pub fn take_error(&self) -> Option<String> {
        self.shared.control().last_error.take()
    }

    fn set_mode(&self, mode: Mode) {
        let mut control = self.shared.control();
        if control.mode != mode {
            control.mode = mode;
            control.epoch += 1;
            // A resting thread counts itself again when it has seen the new epoch.
            control.resting = 0;
            self.shared.epoch.store(control.epoch, Ordering::Release);
            self.shared.changed.notify_all();
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.set_mode(Mode::Stop);
        if let Err(e) = self.wait_for_rest(DROP_TIMEOUT) {
            log::error!("{e}");
            return;
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                log::error!("a storage controller thread had panicked");
            }
        }
    }
}
