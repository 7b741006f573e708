//! `EventRequests`: asynchronous event requests that the controller holds, and the events that have come.

use std::collections::VecDeque;

use super::queue_pair::{Completed, QueuePair};
use crate::error::DriverError;
use crate::spec::{AdminOpcode, AsyncEvent, SubmissionEntry};

/// Requests that the driver keeps outstanding, if the controller takes as many.
const MAX_REQUESTS: u16 = 4;

/// Requests, and events that were not asked for yet.
#[derive(Debug, Default)]
pub(super) struct EventRequests {
    /// Command ids of outstanding requests.
    open: Vec<u16>,
    events: VecDeque<AsyncEvent>,
}

impl EventRequests {
    /// Whether the driver keeps more requests outstanding than it does now, of so many that the controller takes.
    pub(super) fn wants_more(&self, limit: u16) -> bool {
        self.open.len() < usize::from(MAX_REQUESTS.min(limit))
    }

    pub(super) fn request(&mut self, admin: &mut QueuePair) -> Result<(), DriverError> {
        let entry = SubmissionEntry::admin(AdminOpcode::AsyncEventRequest, 0, 0, 0);
        let cid = admin.submit(entry, None)?;
        admin.ring();
        self.open.push(cid);
        Ok(())
    }

    /// The event of a request that has ended; `None`: the command was no request.
    pub(super) fn ended(&mut self, done: Completed) -> Result<Option<AsyncEvent>, DriverError> {
        let Some(at) = self.open.iter().position(|cid| *cid == done.command.cid) else {
            return Ok(None);
        };
        self.open.swap_remove(at);
        let event = AsyncEvent(done.result()?);
        self.events.push_back(event);
        Ok(Some(event))
    }

    /// The events since the last call, in order.
    pub(super) fn take(&mut self) -> Vec<AsyncEvent> {
        self.events.drain(..).collect()
    }

    /// A reset has ended the requests. Whether there were some.
    pub(super) fn forget_requests(&mut self) -> bool {
        let some = !self.open.is_empty();
        self.open.clear();
        some
    }
}
