//! `FaultBuffer`: a list in pinned memory. Kernels write the pages that they miss, while host threads read
//! (`FaultReader`).

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use grampus_cuda::{CudaError, Device, PinnedBuffer};
use grampus_driver::raw::HostPages;

use crate::error::RunError;

/// The list, kept from query to query.
#[derive(Debug)]
pub(crate) struct FaultBuffer {
    device: Device,
    /// Entries. A page missed beyond is missed again by the next pass.
    capacity: usize,
    /// The list, and whether a query left entries in it.
    kept: Mutex<Option<(Arc<PinnedBuffer>, bool)>>,
}

impl FaultBuffer {
    pub(crate) fn new(device: &Device, capacity: usize) -> Self {
        Self {
            device: device.clone(),
            capacity,
            kept: Mutex::new(None),
        }
    }

    /// The list, all zeros. A query that leaves it so [declares it clean](Self::mark_clean).
    pub(crate) fn take(&self) -> Result<Arc<PinnedBuffer>, CudaError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let (list, dirty) = match kept.take() {
            Some(kept) => kept,
            None => (self.pinned()?, false),
        };
        if dirty {
            list.zero();
        }
        *kept = Some((list.clone(), true));
        Ok(list)
    }

    /// Every entry was read, and no kernel writes any more.
    pub(crate) fn mark_clean(&self) {
        if let Some((_, dirty)) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *dirty = false;
        }
    }

    /// Pins the list before it is needed, in these pages if they are as long. A list that a query has stays. If this
    /// fails, the first query that needs the list finds out again.
    pub(crate) fn pin(&self, pages: Option<HostPages>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_some() {
            return; // a query's kernels may be writing to it
        }
        let pages = pages.filter(|pages| pages.len() == Self::bytes_of(self.capacity));
        let pinned = match pages {
            Some(pages) => PinnedBuffer::pin(&self.device, pages).map(Arc::new),
            None => self.pinned(),
        };
        match pinned {
            Ok(list) => *kept = Some((list, false)),
            Err(e) => log::warn!("pinned memory for missed pages: {e}"),
        }
    }

    fn pinned(&self) -> Result<Arc<PinnedBuffer>, CudaError> {
        Ok(Arc::new(PinnedBuffer::new(
            &self.device,
            Self::bytes_of(self.capacity),
        )?))
    }

    /// Length of a list of so many entries.
    pub(crate) fn bytes_of(capacity: usize) -> usize {
        (4 * capacity).next_multiple_of(4096)
    }
}

/// Entries taken at once, at most: so many that neighbouring pages, which are missed at about the same time, are read
/// together.
const MAX_TAKEN_PAGES: usize = 16 << 10;

/// The entries, as a query's threads take them, pass after pass.
#[derive(Debug)]
pub(crate) struct FaultReader {
    list: Arc<PinnedBuffer>,
    /// While kernels run, fewer entries are not worth taking.
    few: usize,
    threads: usize,
    taken: Mutex<usize>,
}

impl FaultReader {
    pub(crate) fn new(list: Arc<PinnedBuffer>, few: usize, threads: usize) -> Self {
        Self {
            list,
            few,
            threads: threads.max(1),
            taken: Mutex::new(0),
        }
    }

    /// Page numbers; none if there are too few, or if another thread is taking some. `listed`: the entries of the pass,
    /// once its kernels have ended. The pass is over when all of them are placed.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: an entry is unexpectedly empty.
    pub(crate) fn take(&self, listed: impl FnOnce() -> Option<usize>) -> Result<Vec<u32>, RunError> {
        let mut taken = match self.taken.try_lock() {
            Ok(taken) => taken,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(Vec::new()),
        };
        let listed = listed(); // with the lock: no further pass begins meanwhile
        let most = match listed {
            // Divided among the threads.
            Some(all) => {
                let left = all.saturating_sub(*taken);
                left.min(left.div_ceil(self.threads).max(64))
            }
            None if self.list.peek_u32(*taken + self.few - 1) != 0 => MAX_TAKEN_PAGES,
            None => 0,
        };
        let mut words = self.list.take_u32s(*taken, most.min(MAX_TAKEN_PAGES));
        *taken += words.len();
        if words.is_empty() && listed.is_some_and(|all| *taken < all) {
            let what = format!("entry {taken} of the list of missed pages is empty");
            return Err(RunError::Invalid(what));
        }
        words.iter_mut().for_each(|word| *word -= 1);
        Ok(words)
    }

    /// A pass is over and all its entries were taken: the next one's entries begin at the beginning.
    pub(crate) fn again(&self) {
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_a_query_are_not_seen_by_the_next() {
        let faults = FaultBuffer::new(&Device::host(1, 1 << 20), 1024);
        let list = faults.take().unwrap();
        list.write(0, &[1, 0, 0, 0]).unwrap();
        assert_eq!(faults.take().unwrap().peek_u32(0), 0);
        list.write(0, &[1, 0, 0, 0]).unwrap();
        faults.mark_clean();
        assert_eq!(faults.take().unwrap().peek_u32(0), 1, "it was said to be clean");
    }

    #[test]
    fn pinning_ahead_leaves_a_list_alone_that_a_query_already_has() {
        let faults = FaultBuffer::new(&Device::host(1, 1 << 20), 1024);
        let list = faults.take().unwrap();
        list.write(0, &[1, 0, 0, 0]).unwrap();
        faults.pin(None);
        assert_eq!(list.peek_u32(0), 1, "what the query's kernels missed");
        assert_eq!(faults.take().unwrap().peek_u32(0), 0, "what it left");
    }

    #[test]
    fn entries_are_taken_once_and_shared_out_when_kernels_have_ended() {
        let faults = FaultBuffer::new(&Device::host(1, 1 << 20), 1024);
        let list = faults.take().unwrap();
        let write = |range: std::ops::Range<u32>| {
            let words: Vec<u8> = range.clone().flat_map(|page| (page + 1).to_le_bytes()).collect();
            list.write(4 * range.start as usize, &words).unwrap();
        };
        let entries = FaultReader::new(list.clone(), 16, 2);
        write(0..15);
        assert!(entries.take(|| None).unwrap().is_empty(), "too few");
        write(15..20);
        assert_eq!(entries.take(|| None).unwrap(), (0..20).collect::<Vec<u32>>());
        assert!(entries.take(|| None).unwrap().is_empty());
        write(20..320);
        let halves = [entries.take(|| Some(320)).unwrap(), entries.take(|| Some(320)).unwrap()];
        assert_eq!(halves, [(20..170).collect::<Vec<u32>>(), (170..245).collect()]);
        // A thread that finds another one taking entries does not wait.
        let meanwhile = entries.take(|| {
            assert!(entries.take(|| Some(320)).unwrap().is_empty());
            Some(320)
        });
        assert_eq!(meanwhile.unwrap(), (245..309).collect::<Vec<u32>>());
        assert_eq!(entries.take(|| Some(320)).unwrap().len(), 11);
        assert!(entries.take(|| Some(320)).unwrap().is_empty());
        let missing = entries.take(|| Some(321)).unwrap_err().to_string();
        assert!(missing.contains("entry 320"), "{missing}");
        entries.again();
        write(0..3);
        assert_eq!(entries.take(|| Some(3)).unwrap(), [0, 1, 2]);
    }
}
