//! `PinnedRing`: slots of pinned memory that bytes pass through on their way to the device. Reader threads fill slots,
//! and the copy engine empties them. Slots are pinned as they are needed, and kept.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use grampus_cuda::{self as cuda, CudaError, Device, PendingSlot, PinnedBuffer, Slot};
use grampus_driver::raw::HostPages;

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
    /// Slots at most, as far as memory may be locked for them.
    wanted: usize,
    /// Slots at most until the query has ended: no more memory could be locked.
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
                wanted: most.max(1),
                most: most.max(1),
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A query begins: memory that could not be locked for another one may be there.
    pub(crate) fn renew(&self) {
        let mut state = self.state();
        state.most = state.wanted;
    }

    /// Frees the slots of a ring that no query uses. They are pinned again when they are needed.
    pub(crate) fn release(&self) {
        let mut state = self.state();
        let emptied = |slot: &PendingSlot| slot.reached().unwrap_or(false);
        let mut gone = Vec::new();
        while state.pushed.front().is_some_and(emptied) {
            gone.extend(state.pushed.pop_front().and_then(|slot| slot.finish().ok()));
            state.made -= 1;
        }
        state.made -= state.free.len();
        gone.append(&mut state.free);
        drop(state);
        drop(gone); // freeing memory waits for kernels
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
    /// memory may be locked, the ring stays smaller until the next query.
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
        let slots = |buffer| cuda::slots(buffer, self.slot_bytes);
        let made = buffer.and_then(slots).or_else(|e| {
            let one = || PinnedBuffer::new(&self.device, self.slot_bytes).and_then(slots);
            log::warn!("{more} pinned slots more cannot be had: {e}");
            if more > 1 && e.is_out_of_memory() {
                one()
            } else {
                Err(e)
            }
        });
        let mut state = self.state();
        let (made, failure) = match made {
            Ok(slots) => (slots, None),
            Err(e) => (Vec::new(), Some(e)),
        };
        let missing = more.saturating_sub(made.len());
        state.free.extend(made.into_iter().take(more));
        state.made -= missing;
        if missing > 0 {
            state.most = state.made.max(1); // as long as this query runs
        }
        if let Some(e) = failure.filter(|_| state.made == 0) {
            return Err(e);
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
    use std::sync::Arc;

    use grampus_cuda::{HostFault, HostFaults, HostOperation, Stream};

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

    #[test]
    fn memory_that_cannot_be_locked_makes_the_ring_smaller_for_one_query() {
        let faults = Arc::new(HostFaults::default());
        let device = Device::faulty_host(1, 1 << 24, faults.clone());
        let ring = PinnedRing::new(&device, 4096, 8);
        let all = || std::iter::from_fn(|| ring.try_take(usize::MAX).ok().flatten()).collect::<Vec<Slot>>();
        let back = |slots: Vec<Slot>| slots.into_iter().for_each(|slot| ring.unused(slot));
        let fail = |first, count| {
            faults.set(Some(HostFault {
                count,
                ..HostFault::out_of_memory(HostOperation::Pin, first)
            }));
        };
        fail(0, u64::MAX);
        assert!(ring.try_take(usize::MAX).is_err(), "not even one");
        ring.renew();
        fail(0, 1);
        let few = all();
        assert_eq!(few.len(), 1, "four at once could not be had");
        back(few);
        ring.renew();
        fail(1, u64::MAX);
        let some = all();
        assert_eq!(some.len(), 5, "the last three could not be had");
        back(some);
        faults.set(None);
        assert_eq!(all().len(), 5, "the query goes on as it is");
        ring.renew();
        assert_eq!(all().len(), 3, "the others are in use");
    }

    #[test]
    fn slots_that_are_freed_are_pinned_again() {
        let faults = Arc::new(HostFaults::default());
        let device = Device::faulty_host(1, 1 << 24, faults.clone());
        let (ring, stream) = (PinnedRing::new(&device, 4096, 8), Stream::new(&device).unwrap());
        let mut all: Vec<Slot> = std::iter::from_fn(|| ring.try_take(usize::MAX).unwrap()).collect();
        ring.pushed(all.pop().unwrap().upload(&stream, &[]).unwrap());
        all.into_iter().for_each(|slot| ring.unused(slot));
        assert_eq!(faults.in_use().pinned_bytes, 8 * 4096);
        ring.release();
        assert_eq!(faults.in_use().pinned_bytes, 0);
        assert_eq!(std::iter::from_fn(|| ring.try_take(usize::MAX).unwrap()).count(), 8);
    }
}
