//! `ControllerQueues`: queue pairs of an NVMe controller that kernels drive themselves.
//!
//! 1. Rings, doorbell words and bounce slots lie in memory that the controller and the device both reach
//!    ([`Queues::on_controller`]).
//! 2. The controller makes the queues at these addresses.
//! 3. Kernels ring by words in that memory. A thread forwards each change to the controller's registers. Registers that
//!    a GPU can write to itself need a driver that maps them for it (docs/gpu-direct.md).
//!
//! The thread also looks at the controller's status (CSTS). A controller that has failed, or that another agent has
//! disabled, completes no command: kernels are told to end, instead of waiting for their bound. The next query begins
//! with a reset.
//!
//! A register may miss a value: a tail or head moves by less than a ring before the controller has seen the last one.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use grampus_cuda::PinnedBuffer;
use grampus_driver::error::DriverError;
use grampus_driver::host::{Device, QueuePlace, QueueTicket};
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers::{CSTS, ControllerStatus};

use crate::queues::Queues;

/// Looks at unchanged doorbells after which the thread gives its processor up.
const LOOKS: u32 = 1000;
/// Longest sleep between two queries. A query wakes the thread.
const REST: Duration = Duration::from_millis(100);

/// Time between two looks at the controller's status while a query waits. A look takes a microsecond over PCIe.
const STATUS_PAUSE: Duration = Duration::from_millis(1);

/// The queues. Dropping them deletes them.
#[derive(Debug)]
pub(crate) struct ControllerQueues {
    controller: Arc<Mutex<Device>>,
    places: Vec<QueuePlace>,
    /// For each queue, the numbers of its tail's and its head's words in `memory`.
    words: Vec<[usize; 2]>,
    memory: Arc<PinnedBuffer>,
    made: Mutex<Made>,
    /// A query runs.
    is_running: Arc<AtomicBool>,
    health: Health,
}

/// Whether the controller answers.
#[derive(Debug, Clone)]
struct Health {
    registers: Arc<dyn Registers>,
    /// The status with which it was found failed since the queues were made.
    failed: Arc<Mutex<Option<ControllerStatus>>>,
    /// The word that ends kernels.
    abort: Arc<PinnedBuffer>,
}

impl Health {
    fn noted(&self) -> MutexGuard<'_, Option<ControllerStatus>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the status. True: the controller has failed, now or before.
    fn has_failed(&self) -> bool {
        let mut failed = self.noted();
        if failed.is_none() {
            let status = ControllerStatus(self.registers.read32(CSTS));
            let is_sound = status.is_ready() && !status.is_fatal() && !status.is_removed();
            *failed = (!is_sound).then_some(status);
        }
        failed.is_some()
    }

    /// What has happened to the controller, in words.
    fn failure(&self) -> Option<String> {
        if !self.has_failed() {
            return None;
        }
        Some(match *self.noted() {
            Some(status) if status.is_removed() => "the controller has been removed".to_owned(),
            Some(status) if status.is_fatal() => format!("the controller has failed (CSTS {:#x})", status.0),
            _ => "the controller was disabled by another agent".to_owned(),
        })
    }
}

/// Queues that the controller has, and the thread that forwards their doorbells.
#[derive(Debug, Default)]
struct Made {
    tickets: Vec<QueueTicket>,
    forwarder: Option<Forwarder>,
}

#[derive(Debug)]
struct Forwarder {
    has_ended: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A doorbell: the number of its word, and the offset of its register.
type Doorbell = (usize, usize);

impl ControllerQueues {
    /// Makes the queues, which are in their start state. `abort` is the word that ends their kernels.
    ///
    /// # Errors
    /// The controller's.
    pub(crate) fn new(
        controller: &Arc<Mutex<Device>>,
        queues: &Queues,
        abort: &Arc<PinnedBuffer>,
    ) -> Result<Self, DriverError> {
        let registers = {
            let controller = controller.lock().unwrap_or_else(PoisonError::into_inner);
            controller.registers().clone()
        };
        let this = Self {
            controller: controller.clone(),
            places: queues.places(),
            words: queues.doorbell_words(),
            memory: queues.memory().clone(),
            made: Mutex::default(),
            is_running: Arc::default(),
            health: Health {
                registers,
                failed: Arc::default(),
                abort: abort.clone(),
            },
        };
        this.resume()?;
        Ok(this)
    }

    /// Whether they are a controller's.
    pub(crate) fn is_of(&self, controller: &Arc<Mutex<Device>>) -> bool {
        Arc::ptr_eq(&self.controller, controller)
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletes the queues: the controller ends their commands first. A controller that has failed, or that does not
    /// answer, is reset, which ends all of its queues.
    ///
    /// # Errors
    /// The controller's: it may still write to their memory.
    pub(crate) fn rest(&self) -> Result<(), DriverError> {
        let mut made = self.made();
        if let Some(forwarder) = made.forwarder.take() {
            forwarder.has_ended.store(true, Ordering::Release);
            forwarder.thread.thread().unpark();
            let _ = forwarder.thread.join(); // it only forwards
        }
        let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        if !made.tickets.is_empty() && self.health.has_failed() {
            // It would not answer a deletion. After a reset it has none of the queues.
            controller.recover()?;
        }
        while let Some(ticket) = made.tickets.last() {
            if let Err(error) = controller.give_back(ticket)
                && !recovered(&mut controller, &error)
            {
                return Err(error);
            }
            made.tickets.pop();
        }
        Ok(())
    }

    /// Makes the queues anew, whose memory is in its start state. A controller that has failed is reset first.
    ///
    /// # Errors
    /// The controller's. It has none of the queues then, unless it failed twice.
    pub(crate) fn resume(&self) -> Result<(), DriverError> {
        let Err(error) = self.make() else { return Ok(()) };
        let _ = self.rest();
        let is_sound = {
            let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
            recovered(&mut controller, &error)
        };
        let made = if is_sound { self.make() } else { Err(error) };
        if made.is_err() {
            let _ = self.rest();
        }
        made
    }

    fn make(&self) -> Result<(), DriverError> {
        let mut made = self.made();
        let mut controller = self.controller.lock().unwrap_or_else(PoisonError::into_inner);
        for place in &self.places {
            made.tickets.push(controller.create_queue_at(*place)?);
        }
        let doorbells = made
            .tickets
            .iter()
            .zip(&self.words)
            .flat_map(|(ticket, [tail, head])| [(*tail, ticket.sq_doorbell), (*head, ticket.cq_doorbell)]);
        let doorbells: Vec<Doorbell> = doorbells.collect();
        *self.health.noted() = None;
        let health = self.health.clone();
        let (memory, has_ended, is_running) = (self.memory.clone(), Arc::default(), self.is_running.clone());
        let ended: Arc<AtomicBool> = Arc::clone(&has_ended);
        let forwarding = move || forward(&memory, &doorbells, &health, (&ended, &is_running));
        let thread = std::thread::Builder::new()
            .name("grampus-doorbells".to_owned())
            .spawn(forwarding);
        let thread =
            thread.map_err(|error| DriverError::Unsupported(format!("no thread for its doorbells: {error}")))?;
        made.forwarder = Some(Forwarder { has_ended, thread });
        Ok(())
    }

    /// A query begins.
    pub(crate) fn wake(&self) {
        self.is_running.store(true, Ordering::Release);
        if let Some(forwarder) = &self.made().forwarder {
            forwarder.thread.thread().unpark();
        }
    }

    /// What has happened to a controller that answers no more, in words.
    pub(crate) fn failure(&self) -> Option<String> {
        self.health.failure()
    }

    /// A query has ended.
    pub(crate) fn query_ended(&self) {
        self.is_running.store(false, Ordering::Release);
    }
}

impl Drop for ControllerQueues {
    fn drop(&mut self) {
        if let Err(error) = self.rest() {
            // The controller may write into the rings: their memory is left to the end of the process.
            log::error!("the queues of a controller are not given back: {error}");
            std::mem::forget(self.memory.clone());
        }
    }
}

/// Whether a controller was reset after an error, so that it has none of the queues any more.
fn recovered(controller: &mut Device, error: &DriverError) -> bool {
    match controller.recover_from(error) {
        Ok(recovered) => {
            if recovered {
                log::warn!("the controller was reset: {error}");
            }
            recovered
        }
        Err(failure) => {
            log::error!("the controller cannot be reset: {failure}");
            false
        }
    }
}

/// Forwards doorbells until it `has_ended`. Ends the kernels of a controller that has failed.
fn forward(
    memory: &PinnedBuffer,
    doorbells: &[Doorbell],
    health: &Health,
    (has_ended, is_running): (&AtomicBool, &AtomicBool),
) {
    let mut last = vec![0; doorbells.len()];
    let (mut unchanged, mut looked, mut is_sound) = (0, Instant::now(), true);
    while !has_ended.load(Ordering::Acquire) {
        let mut changes = false;
        for ((word, register), last) in doorbells.iter().zip(&mut last) {
            let value = memory.peek_u32(*word);
            if value != *last {
                // What the kernel wrote before its doorbell is visible before the register is written.
                fence(Ordering::Acquire);
                health.registers.write32(*register, value);
                (*last, changes) = (value, true);
            }
        }
        unchanged = if changes { 0 } else { unchanged + 1 };
        if unchanged >= LOOKS && is_sound && looked.elapsed() >= STATUS_PAUSE {
            looked = Instant::now();
            is_sound = !health.has_failed();
            if !is_sound {
                health.abort.store_u32(1);
            }
        }
        match (unchanged < LOOKS, is_running.load(Ordering::Acquire)) {
            (true, _) => std::hint::spin_loop(),
            (false, true) => std::thread::yield_now(),
            (false, false) => std::thread::park_timeout(REST),
        }
    }
}
