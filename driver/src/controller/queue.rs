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
    /// Physical index of the next completion.
    cq_tail: u32,
    /// Phase of the next completion: 1 in the first pass over the ring, then flipped at every wrap.
    phase: bool,
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
            phase: true,
            failed: false,
        }
    }

    pub(crate) fn qid(&self) -> u16 {
        self.qid
    }

    /// Forgets all positions: the host resets the rings.
    pub(crate) fn reset(&mut self) {
        (self.sq_head, self.sq_tail, self.cq_tail, self.failed) = (0, 0, 0, false);
        self.phase = true;
    }

    /// The physical index behind another.
    fn after(&self, index: u32) -> u32 {
        if index + 1 == self.rings.depth() { 0 } else { index + 1 }
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
        self.sq_head = self.after(self.sq_head);
        Ok(Some(entry))
    }

    /// Posts a completion; false if the ring is full. The other side tells late which entries it has taken. Half a ring
    /// of those, and new completions for all its credits, are more than a ring.
    pub(crate) fn complete(&mut self, cid: u16, status: Status) -> bool {
        self.complete_with(cid, status, 0)
    }

    /// As [`complete`](Self::complete), with dword 0.
    pub(crate) fn complete_with(&mut self, cid: u16, status: Status, dw0: u32) -> bool {
        let (index, next) = (self.cq_tail, self.after(self.cq_tail));
        if next == self.rings.cq_head() {
            return false;
        }
        let mut entry = CompletionEntry::new(cid, self.qid, self.sq_head as u16, status, self.phase);
        entry.dw0 = dw0;
        self.rings.complete(index, &entry);
        self.cq_tail = next;
        self.phase ^= next == 0;
        true
    }
}
