//! `PageStaging`: device memory in which the stored bytes of pages wait until they are decoded.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_cuda::{CudaError, Device, DeviceBuffer};

/// Share of the bytes of the staging buffer for whole columns.
pub(crate) const PAGE_STAGING_SHARE: u64 = 4;
/// Less memory is of no use.
const MIN_PAGE_STAGING_BYTES: usize = 4 << 20;

/// The memory, taken when the first page needs it, and kept from query to query. If the device had less than was asked
/// for, the next query asks again.
#[derive(Debug, Default)]
pub(crate) struct PageStaging(Mutex<HeldStaging>);

#[derive(Debug, Default)]
struct HeldStaging {
    buffer: Option<Arc<DeviceBuffer>>,
    /// The device had less than was asked for, or too little.
    is_short: bool,
}

impl PageStaging {
    /// The memory: `bytes`, or fewer if the device has fewer. `None`: the device has too few.
    pub(crate) fn buffer(&self, device: &Device, bytes: usize) -> Result<Option<Arc<DeviceBuffer>>, CudaError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.buffer.is_some() || held.is_short {
            return Ok(held.buffer.clone());
        }
        let mut bytes = bytes;
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
        let held = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if held.is_short {
            *held = HeldStaging::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_is_less_where_the_device_has_less() {
        let device = Device::host(1, 20 << 20);
        let staging = PageStaging::default();
        let first = staging.buffer(&device, 64 << 20).unwrap().expect("16 MiB fit");
        assert_eq!(first.len(), 16 << 20);
        let again = staging.buffer(&device, 64 << 20).unwrap().expect("it is kept");
        assert_eq!(again.address(), first.address());
        let mut beside = PageStaging::default();
        assert!(beside.buffer(&device, 64 << 20).unwrap().is_some(), "4 MiB are left");
        assert!(PageStaging::default().buffer(&device, 64 << 20).unwrap().is_none());
        drop((first, again, staging));
        beside.renew();
        let more = beside.buffer(&device, 16 << 20).unwrap().expect("16 MiB fit again");
        beside.renew();
        let same = beside
            .buffer(&device, 16 << 20)
            .unwrap()
            .expect("all that was asked for");
        assert_eq!((more.len(), same.address()), (16 << 20, more.address()));
    }
}
