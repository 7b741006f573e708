//! `CommandServer`: what answers the commands of a stack's queues: the software controller, or an NVMe controller.

use std::time::Duration;

use grampus_driver::controller::Controller;

use crate::controller_queues::ControllerQueues;
use crate::error::StackError;
use crate::source::{Source, namespaces_of};

/// Longest time in which the software controller's threads open storages.
const OPENING: Duration = Duration::from_secs(10);

/// The software controller over storages, or a controller over its own namespaces.
#[derive(Debug)]
pub(crate) enum CommandServer {
    Software(Controller),
    Nvme(ControllerQueues),
}

impl CommandServer {
    /// Ends all commands, and starts no other one.
    ///
    /// # Errors
    /// Commands that do not end in time: they may still write.
    pub(crate) fn rest(&self, patience: Duration) -> Result<(), StackError> {
        match self {
            Self::Software(controller) => controller.rest(patience).map_err(StackError::from),
            Self::Nvme(queues) => queues.rest().map_err(StackError::from),
        }
    }

    /// Starts anew, with queues in their start state.
    ///
    /// # Errors
    /// The NVMe controller's.
    pub(crate) fn resume(&self) -> Result<(), StackError> {
        match self {
            Self::Software(controller) => controller.resume(),
            Self::Nvme(queues) => queues.resume()?,
        }
        Ok(())
    }

    /// A query begins.
    pub(crate) fn wake(&self) {
        match self {
            Self::Software(controller) => controller.wake(),
            Self::Nvme(queues) => queues.wake(),
        }
    }

    /// A query has ended.
    pub(crate) fn query_ended(&self) {
        if let Self::Nvme(queues) = self {
            queues.query_ended();
        }
    }

    /// The sources are others.
    ///
    /// # Errors
    /// A storage that cannot be opened.
    pub(crate) fn set_sources(&self, sources: &[Source]) -> Result<(), StackError> {
        match self {
            Self::Software(controller) => controller.set_namespaces(namespaces_of(sources), OPENING)?,
            Self::Nvme(_) => {} // its namespaces are its own
        }
        Ok(())
    }

    /// What the software controller last reported in words, or what has happened to an NVMe controller that answers no
    /// more.
    pub(crate) fn take_error(&self) -> Option<String> {
        match self {
            Self::Software(controller) => controller.take_error(),
            Self::Nvme(queues) => queues.failure(),
        }
    }

    /// Whether an NVMe controller answers no more, so that only a reset helps.
    pub(crate) fn has_failed(&self) -> bool {
        match self {
            Self::Software(_) => false,
            Self::Nvme(queues) => queues.failure().is_some(),
        }
    }
}
