//! `ArenaSet`: the arenas that are taken from the driver, within a bound.

use std::sync::Arc;

use grampus_cuda::{CudaError, Device, DeviceBuffer};

use crate::runtime::memory::arena::{Arena, DeviceRange, MARGIN_BYTES, rounded};
use crate::runtime::memory::residency::Residency;

/// Bytes of an arena, unless more are needed at once or fewer are allowed.
const ARENA_BYTES: u64 = 2 << 30;

/// Arenas. Their positions stay.
#[derive(Debug)]
pub(crate) struct ArenaSet {
    device: Device,
    residency: Arc<Residency>,
    /// `None`: given back to the driver.
    arenas: Vec<Option<Arena>>,
    /// Bytes of all arenas together, at most, as far as the driver has them.
    bound: u64,
    /// Bytes of all arenas for which the driver had memory, when it had less than the bound.
    there: Option<u64>,
    taken: u64,
}

impl ArenaSet {
    /// No arena is taken. Plans learn the bound from `residency`.
    pub(crate) fn new(device: &Device, residency: &Arc<Residency>, capacity: u64) -> Self {
        residency.set_capacity(capacity, None);
        Self {
            device: device.clone(),
            residency: residency.clone(),
            arenas: Vec::new(),
            bound: capacity,
            there: None,
            taken: 0,
        }
    }

    /// Bytes of all arenas together, at most.
    pub(crate) fn capacity(&self) -> u64 {
        self.there.map_or(self.bound, |there| there.min(self.bound))
    }

    /// Whether the driver has less than the bound.
    pub(crate) fn is_short(&self) -> bool {
        self.there.is_some()
    }

    /// Lowers the bound, for another use of the memory.
    pub(crate) fn lower(&mut self, bytes: u64) {
        self.bound = self.bound.saturating_sub(bytes);
        self.there = self.there.map(|there| there.saturating_sub(bytes));
        self.publish();
    }

    /// Raises the bound again.
    pub(crate) fn raise(&mut self, bytes: u64) {
        self.bound = self.bound.saturating_add(bytes);
        self.there = self.there.map(|there| there.saturating_add(bytes));
        self.publish();
    }

    /// If the driver had less memory than the bound, asks how much it has now: other processes may have ended.
    pub(crate) fn look_again(&mut self) {
        let free = self.there.and_then(|_| self.device.free_bytes().ok());
        let Some(free) = free else { return };
        if self.taken.saturating_add(free) >= self.bound {
            self.there = None;
        } else {
            // What queries need beside their columns is left, as when the device was opened.
            self.there = Some(self.taken + free / 4 * 3);
        }
        self.publish();
    }

    fn publish(&self) {
        self.residency.set_capacity(self.bound, self.there);
    }

    /// Bytes of all arenas.
    pub(crate) fn taken(&self) -> u64 {
        self.taken
    }

    /// All positions.
    pub(crate) fn all(&self) -> impl Iterator<Item = Option<&Arena>> {
        self.arenas.iter().map(Option::as_ref)
    }

    /// Takes an arena out of the set. Nothing of it is given out.
    pub(crate) fn remove(&mut self, at: usize) -> Option<Arena> {
        let arena = self.arenas.get_mut(at)?.take()?;
        self.taken -= arena.buffer.len() as u64;
        Some(arena)
    }

    /// Takes arenas out of the set of which nothing is given out. Dropping them gives them back to the driver.
    pub(crate) fn take_free(&mut self) -> Vec<Arena> {
        let is_free = |arena: &Arena| arena.free_bytes() + 2 * MARGIN_BYTES as u64 == arena.buffer.len() as u64;
        let all = self.arenas.iter().enumerate();
        let free = all.filter(|(_, arena)| arena.as_ref().is_some_and(is_free));
        let free: Vec<usize> = free.map(|(at, _)| at).collect();
        free.into_iter().filter_map(|at| self.remove(at)).collect()
    }

    /// A free range; `None`: no arena has one.
    pub(crate) fn take(&mut self, len: usize) -> Option<DeviceRange> {
        let rounded = rounded(len);
        self.arenas.iter_mut().enumerate().find_map(|(arena, free)| {
            let free = free.as_mut()?;
            let offset = free.take(rounded)?;
            Some(DeviceRange {
                buffer: free.buffer.clone(),
                offset,
                len,
                arena,
            })
        })
    }

    /// Returns a range of [`take`](Self::take).
    pub(crate) fn give_back(&mut self, range: &DeviceRange) {
        if let Some(Some(arena)) = self.arenas.get_mut(range.arena) {
            arena.give_back(range.offset, rounded(range.len));
        }
    }

    /// Takes an arena of `bytes` from the driver, if more than [`ARENA_BYTES`] of them are not free.
    pub(crate) fn expect(&mut self, bytes: u64) -> Result<(), CudaError> {
        let more = bytes.saturating_sub(self.arenas.iter().flatten().map(Arena::free_bytes).sum());
        if more > ARENA_BYTES {
            self.grow(more as usize)?;
        }
        Ok(())
    }

    /// Takes another arena from the driver, large enough for `len` bytes, if the bound allows it. If the driver has
    /// less than the bound, its memory is the bound until it is [asked again](Self::look_again).
    pub(crate) fn grow(&mut self, len: usize) -> Result<bool, CudaError> {
        let need = (len + 2 * MARGIN_BYTES) as u64;
        let left = self.capacity().saturating_sub(self.taken);
        if left < need {
            return Ok(false);
        }
        let mut bytes = ARENA_BYTES.clamp(need, left);
        loop {
            match DeviceBuffer::new(&self.device, bytes as usize) {
                Ok(buffer) => {
                    self.taken += bytes;
                    let arena = Some(Arena::new(buffer));
                    match self.arenas.iter_mut().find(|known| known.is_none()) {
                        Some(place) => *place = arena,
                        None => self.arenas.push(arena),
                    }
                    return Ok(true);
                }
                Err(e) if e.is_out_of_memory() && bytes > need => bytes = (bytes / 2).max(need),
                Err(e) if e.is_out_of_memory() => {
                    let there = self.taken + need - 1;
                    self.there = Some(there);
                    self.publish();
                    log::warn!("{there} bytes for columns must do, {} were allowed: {e}", self.bound);
                    return Ok(false);
                }
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use grampus_cuda::HostFaults;

    use super::*;
    use crate::runtime::memory::residency::Limits;

    fn set(memory: u64, capacity: u64) -> ArenaSet {
        let limits = Limits {
            capacity: 0,
            pin_bytes: 0,
            block_shared_bytes: 0,
        };
        ArenaSet::new(&Device::host(1, memory), &Arc::new(Residency::new(limits)), capacity)
    }

    #[test]
    fn expected_bytes_are_one_arena_if_they_are_many_and_none_if_they_are_free() {
        // Addresses only: the memory is not touched.
        let mut arenas = set(4 << 30, 3 << 30);
        arenas.expect(1 << 30).unwrap();
        assert!(
            arenas.arenas.is_empty(),
            "less than an arena is taken when it is needed"
        );
        arenas.expect(5 << 29).unwrap();
        let taken = (5 << 29) + 2 * MARGIN_BYTES as u64;
        assert_eq!((arenas.arenas.len(), arenas.taken), (1, taken));
        let half = arenas.take(5 << 28).unwrap();
        arenas.expect(5 << 28).unwrap();
        arenas.expect(5 << 29).unwrap();
        assert_eq!(
            (arenas.arenas.len(), arenas.taken),
            (1, taken),
            "it is there; it is not allowed"
        );
        assert!(arenas.take(5 << 28).is_some());
        assert_eq!((arenas.arenas.len(), half.arena), (1, 0));
    }

    #[test]
    fn small_arenas_that_are_free_make_way_for_a_large_one() {
        let mut arenas = set(1 << 20, 100_000);
        assert!(arenas.grow(99_000).unwrap());
        drop(arenas.remove(0));
        arenas.lower(50_000);
        assert!(arenas.grow(40_000).unwrap());
        arenas.raise(50_000);
        assert!(arenas.grow(40_000).unwrap());
        assert!(arenas.take(60_000).is_none() && !arenas.grow(60_000).unwrap());
        assert!(!arenas.take_free().is_empty() && arenas.grow(60_000).unwrap());
        assert!(arenas.take(60_000).is_some());
    }

    #[test]
    fn an_arena_that_was_given_back_leaves_its_place_to_another() {
        let mut arenas = set(1 << 20, 1 << 19);
        assert!(arenas.grow(100_000).unwrap());
        let first = arenas.remove(0).unwrap();
        assert_eq!((arenas.taken(), arenas.take(8).is_none()), (0, true));
        drop(first);
        assert!(arenas.grow(100_000).unwrap());
        assert_eq!(arenas.take(8).unwrap().arena, 0);
    }

    /// Another process takes the device's memory for a while.
    #[test]
    fn a_shortage_lowers_the_bound_until_it_is_over() {
        let faults = Arc::new(HostFaults::default());
        let residency = Arc::new(Residency::new(Limits {
            capacity: 0,
            pin_bytes: 0,
            block_shared_bytes: 0,
        }));
        let device = Device::faulty_host(1, 1 << 20, faults.clone());
        let mut arenas = ArenaSet::new(&device, &residency, 600_000);
        assert!(arenas.grow(100_000).unwrap());
        faults.hold(1 << 20);
        assert!(!arenas.grow(600_000).unwrap(), "more than is allowed");
        assert_eq!(arenas.capacity(), 600_000);
        // All of the bound was taken at once.
        assert!(!arenas.take_free().is_empty() && !arenas.grow(100_000).unwrap());
        assert!(arenas.capacity() < 200_000 && residency.known().capacity() == arenas.capacity());
        arenas.look_again();
        assert_eq!(arenas.capacity(), 0, "nothing is free");
        faults.hold((1 << 20) - 400_000);
        arenas.look_again();
        assert_eq!(arenas.capacity(), 300_000, "three quarters of what is free");
        arenas.lower(100_000);
        assert_eq!(arenas.capacity(), 200_000);
        arenas.raise(100_000);
        assert!(arenas.grow(200_000).unwrap());
        faults.hold(0);
        arenas.look_again();
        assert_eq!((arenas.capacity(), residency.known().capacity()), (600_000, 600_000));
    }
}
