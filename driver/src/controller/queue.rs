//! `Queue`: the controller's positions in the two rings of a queue pair.

use crate::raw::QueueRings;
use crate::spec::{CompletionEntry, Status, SubmissionEntry};

/// The controller's side of a queue pair.
#[derive(Debug)]
pub(crate) struct Queue {
    rings: QueueRings,
    qid: u16,
    /// Physical index of the next entry to take.
    sq_head: u32,
    /// The tail at the last look.
    sq_tail: u32,
    /// Virtual index of the next completion: its wraps give the phase.
    cq_tail: u32,
    /// A doorbell held an index outside the ring: the queue is dead until it is reset.
    failed: bool,
}

impl Queue {
    pub(crate) fn new(rings: QueueRings, qid: u16) -> Self {
        Self {
            rings,
            qid,
            sq_head: 0,
            sq_tail: 0,
            cq_tail: 0,
            failed: false,
        }
    }

    pub(crate) fn qid(&self) -> u16 {
        self.qid
    }

    /// Forgets all positions: the host resets the rings.
    pub(crate) fn reset(&mut self) {
        (self.sq_head, self.sq_tail, self.cq_tail, self.failed) = (0, 0, 0, false);
    }

    /// The next new entry, in ring order.
    ///
    /// # Errors
    /// The doorbell's value, once, if it lies outside the ring.
    pub(crate) fn take(&mut self) -> Result<Option<SubmissionEntry>, u32> {
        if self.sq_head == self.sq_tail {
            let tail = self.rings.sq_tail();
            if tail >= self.rings.depth() {
                let first = !std::mem::replace(&mut self.failed, true);
                return if first { Err(tail) } else { Ok(None) };
            }
            self.sq_tail = tail;
            if self.sq_head == tail {
                return Ok(None);
            }
        }
        let entry = self.rings.submission(self.sq_head);
        self.sq_head = (self.sq_head + 1) & (self.rings.depth() - 1);
        Ok(Some(entry))
    }

    /// Posts a completion; false if the ring is full. The other side tells late which entries it has taken. Half a ring
    /// of those, and new completions for all its credits, are more than a ring.
    pub(crate) fn complete(&mut self, cid: u16, status: Status) -> bool {
        let depth = self.rings.depth();
        let index = self.cq_tail & (depth - 1);
        if (index + 1) & (depth - 1) == self.rings.cq_head() {
            return false;
        }
        // Phase is 1 in the first pass over the ring and flips at every wrap.
        let phase = (self.cq_tail / depth).is_multiple_of(2);
        let entry = CompletionEntry::new(cid, self.qid, self.sq_head as u16, status, phase);
        self.rings.complete(index, &entry);
        self.cq_tail = self.cq_tail.wrapping_add(1);
        true
    }
}
