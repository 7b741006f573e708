//! `AdminQueue`: the controller's side of the admin queue, and the events that wait for a request.

use std::collections::VecDeque;
use std::sync::Arc;

use super::queue::Queue;
use crate::raw::{Doorbells, QueueRings};
use crate::spec::{Status, SubmissionEntry};

/// Number of asynchronous event requests that are held at once.
pub(super) const MAX_EVENT_REQUESTS: usize = 8;
/// Events that wait; later ones are dropped, as their type is reported already.
const MAX_EVENTS: usize = 64;

/// The admin queue.
#[derive(Debug)]
pub(super) struct AdminQueue {
    queue: Queue,
    doorbells: Arc<Doorbells>,
    entries: u32,
    /// Completions that found the ring full: command id, status, dword 0.
    unposted: VecDeque<(u16, Status, u32)>,
    /// Command ids of event requests.
    requests: VecDeque<u16>,
    /// Dword 0 of events that wait.
    events: VecDeque<u32>,
    /// Bit by event type: reported, and its log page not yet read.
    masked: u8,
}

impl AdminQueue {
    pub(super) fn new(rings: QueueRings, doorbells: Arc<Doorbells>, entries: u32) -> Self {
        Self {
            queue: Queue::new(rings, 0),
            doorbells,
            entries,
            unposted: VecDeque::new(),
            requests: VecDeque::new(),
            events: VecDeque::new(),
            masked: 0,
        }
    }

    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    pub(super) fn doorbells(&self) -> &Arc<Doorbells> {
        &self.doorbells
    }

    /// The next command.
    pub(super) fn take(&mut self) -> Option<SubmissionEntry> {
        // `VirtualController::ring` stores no index outside the ring.
        self.queue.take().unwrap_or(None)
    }

    /// Posts a completion, now or when the ring has space.
    pub(super) fn post(&mut self, cid: u16, status: Status, dw0: u32) {
        self.unposted.push_back((cid, status, dw0));
        self.post_again();
    }

    /// Posts completions that had found the ring full.
    pub(super) fn post_again(&mut self) {
        while let Some(&(cid, status, dw0)) = self.unposted.front()
            && self.queue.complete_with(cid, status, dw0)
        {
            self.unposted.pop_front();
        }
    }

    /// Holds an event request; false: as many are held as are allowed.
    pub(super) fn request(&mut self, cid: u16) -> bool {
        if self.requests.len() >= MAX_EVENT_REQUESTS {
            return false;
        }
        self.requests.push_back(cid);
        self.report();
        true
    }

    /// Reports an event: dword 0 of its completion.
    pub(super) fn raise(&mut self, event: u32) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
        self.report();
    }

    /// Lets the next event of this type be reported: the host has read its log page.
    pub(super) fn unmask(&mut self, kind: u8) {
        self.masked &= !(1 << kind);
        self.report();
    }

    fn report(&mut self) {
        while let Some(at) = self.events.iter().position(|event| self.masked >> (event & 7) & 1 == 0)
            && let Some(cid) = self.requests.pop_front()
        {
            if let Some(event) = self.events.remove(at) {
                self.masked |= 1 << (event & 7);
                self.post(cid, Status::SUCCESS, event);
            }
        }
    }
}
