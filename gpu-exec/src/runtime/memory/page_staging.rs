//! `PageStaging`: device memory in which the stored bytes of pages wait until they are decoded.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_cuda::{CudaError, Device, DeviceBuffer};

/// Less memory is of no use.
const MIN_PAGE_STAGING_BYTES: usize = 4 << 20;

/// The memory, taken when the first page needs it, and kept from query to query. If the device had less than was asked
/// for, the next query asks again.
#[derive(Debug)]
pub(crate) struct PageStaging {
    max_bytes: usize,
    held: Mutex<HeldStaging>,
}

#[derive(Debug, Default)]
struct HeldStaging {
    buffer: Option<Arc<DeviceBuffer>>,
    /// The device had less than was asked for, or too little.
    is_short: bool,
}

impl PageStaging {
    /// Memory of at most so many bytes.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            held: Mutex::default(),
        }
    }

    /// The memory: all its bytes, or fewer if the device has fewer. `None`: the device has too few.
    pub(crate) fn buffer(&self, device: &Device) -> Result<Option<Arc<DeviceBuffer>>, CudaError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if held.buffer.is_some() || held.is_short {
            return Ok(held.buffer.clone());
        }
        let mut bytes = self.max_bytes;
        loop {
            match DeviceBuffer::new(device, bytes) {
                Ok(buffer) => held.buffer = Some(Arc::new(buffer)),
                Err(e) if e.is_out_of_memory() => {
                    held.is_short = true;
                    bytes /= 2;
                    if bytes >= MIN_PAGE_STAGING_BYTES {
                        continue;
                    }
                    log::warn!("the CPU decodes pages: {e}");
                }
                Err(e) => return Err(e),
            }
            return Ok(held.buffer.clone());
        }
    }

    /// A query begins: the device may have more memory than it had.
    pub(crate) fn renew(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        if held.is_short {
            *held = HeldStaging::default();
        }
    }

    /// Frees the memory.
    pub(crate) fn free(&mut self) {
        *self.held.get_mut().unwrap_or_else(PoisonError::into_inner) = HeldStaging::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_is_less_where_the_device_has_less() {
        let device = Device::host(1, 20 << 20);
        let staging = PageStaging::new(64 << 20);
        let first = staging.buffer(&device).unwrap().expect("16 MiB fit");
        assert_eq!(first.len(), 16 << 20);
        let again = staging.buffer(&device).unwrap().expect("it is kept");
        assert_eq!(again.address(), first.address());
        let mut beside = PageStaging::new(16 << 20);
        assert!(beside.buffer(&device).unwrap().is_some(), "4 MiB are left");
        assert!(PageStaging::new(64 << 20).buffer(&device).unwrap().is_none());
        drop((first, again, staging));
        beside.renew();
        let more = beside.buffer(&device).unwrap().expect("16 MiB fit again");
        beside.renew();
        let same = beside.buffer(&device).unwrap().expect("all that was asked for");
        assert_eq!((more.len(), same.address()), (16 << 20, more.address()));
        drop((more, same));
        beside.free();
        let whole = PageStaging::new(20 << 20);
        assert!(whole.buffer(&device).unwrap().is_some_and(|all| all.len() == 20 << 20));
    }
}
