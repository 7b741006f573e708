//! `Cancellation`: the caller's flag, looked at while the host waits for the device.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use grampus_cuda::Event;

use crate::error::RunError;
use crate::runtime::launch::io_binding::IoBinding;

/// For so long a wait keeps its processor; then it sleeps between looks.
const SPIN: Duration = Duration::from_millis(5);

/// A query that may be cancelled.
#[derive(Clone, Copy)]
pub(crate) struct Cancellation<'a, 'io> {
    flag: &'a AtomicBool,
    io: &'a IoBinding<'io>,
}

impl<'a, 'io> Cancellation<'a, 'io> {
    pub(crate) fn new(flag: &'a AtomicBool, io: &'a IoBinding<'io>) -> Self {
        Self { flag, io }
    }

    pub(crate) fn is_requested(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Waits for an event. Kernels end: everything that they wait for has a bound.
    ///
    /// # Errors
    /// [`RunError::Cancelled`], when the event is reached.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), RunError> {
        let began = Instant::now();
        let mut aborted = false;
        while !event.reached_soon(began.elapsed() < SPIN)? {
            if self.is_requested() && !aborted {
                aborted = true;
                self.io.abort();
            }
        }
        match self.is_requested() {
            true => Err(RunError::Cancelled),
            false => Ok(()),
        }
    }
}
