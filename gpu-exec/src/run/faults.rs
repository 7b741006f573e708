//! The list in pinned memory in which kernels write the pages that they miss, while the host reads what is there already. What a number
//! means is pages.rs's business.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_io_stack::cuda::{CudaError, Device, PinnedBuffer};

/// The list.
#[derive(Debug)]
pub(crate) struct Faults {
    device: Device,
    /// Entries: what is missed beyond is missed again by the next pass.
    capacity: usize,
    /// And whether a query left entries in it.
    kept: Mutex<Option<(Arc<PinnedBuffer>, bool)>>,
}

impl Faults {
    pub(crate) fn new(device: &Device, capacity: usize) -> Self {
        Self {
            device: device.clone(),
            capacity,
            kept: Mutex::new(None),
        }
    }

    /// The list, all zeros, for a query that has to [say](Self::is_clean) that it leaves it so.
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
    pub(crate) fn is_clean(&self) {
        if let Some((_, dirty)) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *dirty = false;
        }
    }

    /// Pins it before it is needed, if no query has needed it yet. That it fails is found out again by who needs it.
    pub(crate) fn pin(&self) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_some() {
            return; // a query's kernels may be writing to it
        }
        match self.pinned() {
            Ok(list) => *kept = Some((list, false)),
            Err(e) => log::warn!("pinned memory for missed pages: {e}"),
        }
    }

    fn pinned(&self) -> Result<Arc<PinnedBuffer>, CudaError> {
        Ok(Arc::new(PinnedBuffer::new(&self.device, 4 * self.capacity)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_left_in_the_list_is_not_seen_by_the_next() {
        let faults = Faults::new(&Device::host(1, 1 << 20), 1024);
        let list = faults.take().unwrap();
        list.write(0, &[1, 0, 0, 0]).unwrap();
        assert_eq!(faults.take().unwrap().peek_u32(0), 0);
        list.write(0, &[1, 0, 0, 0]).unwrap();
        faults.is_clean();
        assert_eq!(faults.take().unwrap().peek_u32(0), 1, "it was said to be clean");
    }

    #[test]
    fn pinning_ahead_leaves_a_list_alone_that_a_query_already_has() {
        let faults = Faults::new(&Device::host(1, 1 << 20), 1024);
        let list = faults.take().unwrap();
        list.write(0, &[1, 0, 0, 0]).unwrap();
        faults.pin();
        assert_eq!(list.peek_u32(0), 1, "what the query's kernels missed");
        assert_eq!(faults.take().unwrap().peek_u32(0), 0, "what it left");
    }
}
