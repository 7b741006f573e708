//! `PinnedRing`: slots of pinned memory that bytes pass through on their way to the device. Reader threads fill slots,
//! and the copy engine empties them. Slots are pinned as they are needed, and kept.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_driver::raw::HostPages;
use grampus_io_stack::cuda::{self, CudaError, Device, PendingSlot, PinnedBuffer, Slot};

/// Bytes of values in a slot, at most.
pub(crate) const MAX_COPY_BYTES: u64 = 4 << 20;
/// Slots pinned at a time. The threads of a first query each pin some while others copy.
const PINNED_SLOTS: usize = 4;
/// Interval of looks for an empty slot, if all are full or being filled. The driver's own wait would keep a processor
/// busy for every thread that waits. There are as many threads as processors, so threads with work would be held up.
const SLOT_POLL: Duration = Duration::from_micros(100);

/// The ring.
#[derive(Debug)]
pub(crate) struct PinnedRing {
    device: Device,
    slot_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    free: Vec<Slot>,
    /// In the order of the copy stream: the first is done first.
    pushed: VecDeque<PendingSlot>,
    made: usize,
    most: usize,
}

impl PinnedRing {
    pub(crate) fn new(device: &Device, slot_bytes: usize, most: usize) -> Self {
        Self {
            device: device.clone(),
            slot_bytes: slot_bytes.next_multiple_of(4096),
            state: Mutex::new(State {
                free: Vec::new(),
                pushed: VecDeque::new(),
                made: 0,
                most: most.max(1),
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot to fill. Waits for one if need be; `None` when `stop` says so.
    pub(crate) fn take(&self, stop: impl Fn() -> bool) -> Result<Option<Slot>, CudaError> {
        while !stop() {
            match self.try_take(usize::MAX)? {
                None => self.wait(),
                slot => return Ok(slot),
            }
        }
        Ok(None)
    }

    /// A slot to fill, if one is empty and fewer than `most` are being filled or emptied. A slot that has just been
    /// emptied comes before an unused one: it is more likely to be in the CPU's caches.
    pub(crate) fn try_take(&self, most: usize) -> Result<Option<Slot>, CudaError> {
        let mut state = self.state();
        loop {
            if let Some(first) = state.pushed.front()
                && first.reached()?
                && let Some(first) = state.pushed.pop_front()
            {
                drop(state);
                return first.finish().inspect_err(|_| self.lost()).map(Some);
            }
            if state.made - state.free.len() >= most {
                return Ok(None);
            }
            if let Some(slot) = state.free.pop() {
                return Ok(Some(slot));
            }
            if state.made == state.most {
                return Ok(None);
            }
            state = self.grow(state, None)?;
        }
    }

    /// Waits until a slot may be empty: threads say so when they are done with one; the copy engine does not.
    pub(crate) fn wait(&self) {
        drop(self.changed.wait_timeout(self.state(), SLOT_POLL));
    }

    /// Lengths of the memory that [`fill`](Self::fill) pins, in bytes.
    pub(crate) fn pieces(slot_bytes: usize, most: usize) -> impl Iterator<Item = usize> {
        let slots = (0..most)
            .step_by(PINNED_SLOTS)
            .map(move |at| PINNED_SLOTS.min(most - at));
        slots.map(move |slots| slots * slot_bytes.next_multiple_of(4096))
    }

    /// Pins all slots, in pages that were made for them. If this fails, the next query that needs a slot finds out
    /// again.
    pub(crate) fn fill(&self, mut pages: impl FnMut() -> Option<HostPages>) {
        let mut state = self.state();
        while state.made < state.most {
            drop(state);
            let pages = pages();
            state = match self.grow(self.state(), pages) {
                Ok(state) => state,
                Err(e) => return log::warn!("pinned memory for copies: {e}"),
            };
        }
    }

    /// Pins more slots, in pages that are there or in new ones, without holding up threads that have some. If no more
    /// memory may be locked, the ring stays smaller.
    fn grow<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        pages: Option<HostPages>,
    ) -> Result<MutexGuard<'a, State>, CudaError> {
        let pages = pages.filter(|pages| pages.len() >= self.slot_bytes);
        let there = pages
            .as_ref()
            .map_or(PINNED_SLOTS, |pages| pages.len() / self.slot_bytes);
        let more = there.min(state.most - state.made);
        if more == 0 {
            return Ok(state); // a query has pinned the rest meanwhile
        }
        state.made += more;
        drop(state);
        let buffer = match pages {
            Some(pages) => PinnedBuffer::pin(&self.device, pages),
            None => PinnedBuffer::new(&self.device, more * self.slot_bytes),
        };
        let made = buffer.and_then(|buffer| cuda::slots(buffer, self.slot_bytes));
        let mut state = self.state();
        match made {
            Ok(slots) => state.free.extend(slots.into_iter().take(more)),
            Err(e) => {
                state.made -= more;
                state.most = state.made;
                if state.made == 0 {
                    state.most = 1; // the next query tries again
                    return Err(e);
                }
                log::warn!("{} pinned slots must do: {e}", state.made);
            }
        }
        self.changed.notify_all();
        Ok(state)
    }

    /// Takes back a slot whose copy was enqueued last.
    pub(crate) fn pushed(&self, slot: PendingSlot) {
        self.state().pushed.push_back(slot);
        self.changed.notify_one();
    }

    /// A slot is gone with its memory, and another may take its place.
    pub(crate) fn lost(&self) {
        self.state().made -= 1;
        self.changed.notify_one();
    }

    /// Takes back a slot that was not pushed.
    pub(crate) fn unused(&self, slot: Slot) {
        self.state().free.push(slot);
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use grampus_io_stack::cuda::Stream;

    use super::*;

    #[test]
    fn slots_in_use_are_bounded_and_the_last_emptied_comes_first() {
        let device = Device::host(1, 1 << 24);
        let (ring, stream) = (PinnedRing::new(&device, 4096, 8), Stream::new(&device).unwrap());
        let take = |most| ring.try_take(most).unwrap();
        let (first, second) = (take(2).unwrap(), take(2).unwrap());
        assert!(take(2).is_none(), "two are being filled");
        let address = first.address();
        let pushed = first.upload(&stream, &[]).unwrap();
        stream.synchronize().unwrap();
        ring.pushed(pushed);
        let again = take(2).unwrap();
        assert_eq!(
            again.address(),
            address,
            "the one that was emptied, and not one of those never used"
        );
        assert!(take(2).is_none());
        let third = take(3).unwrap();
        assert!(third.address() != address && third.address() != second.address());
        [again, second, third].into_iter().for_each(|slot| ring.unused(slot));
    }

    #[test]
    fn a_slot_that_is_lost_is_made_again() {
        let device = Device::host(1, 1 << 24);
        let ring = PinnedRing::new(&device, 4096, 2);
        for _ in 0..5 {
            drop(ring.try_take(1).unwrap().expect("there is one"));
            ring.lost();
        }
        let all: Vec<Slot> = std::iter::from_fn(|| ring.try_take(usize::MAX).unwrap()).collect();
        assert_eq!(all.len(), 2);
    }
}
