//! `PageStaging`: device memory in which the stored bytes of pages wait until they are decoded.

use std::sync::{Arc, Mutex, PoisonError};

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

/// Share of the bytes of the staging buffer for whole columns.
pub(crate) const PAGE_STAGING_SHARE: u64 = 4;
/// Less memory is of no use.
const MIN_PAGE_STAGING_BYTES: usize = 4 << 20;

/// The memory, taken when the first page needs it, and kept from query to query.
#[derive(Debug, Default)]
pub(crate) struct PageStaging(Mutex<Option<Arc<DeviceBuffer>>>);

impl PageStaging {
    /// The memory: `bytes`, or fewer if the device has fewer. `None`: the device has too few.
    pub(crate) fn buffer(&self, device: &Device, bytes: usize) -> Result<Option<Arc<DeviceBuffer>>, CudaError> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_some() {
            return Ok(held.clone());
        }
        let mut bytes = bytes;
        loop {
            match DeviceBuffer::new(device, bytes) {
                Ok(buffer) => *held = Some(Arc::new(buffer)),
                Err(e) if e.is_out_of_memory() && bytes / 2 >= MIN_PAGE_STAGING_BYTES => {
                    bytes /= 2;
                    continue;
                }
                Err(e) if e.is_out_of_memory() => log::warn!("the CPU decodes pages: {e}"),
                Err(e) => return Err(e),
            }
            return Ok(held.clone());
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
        let beside = PageStaging::default();
        assert!(beside.buffer(&device, 64 << 20).unwrap().is_some(), "4 MiB are left");
        assert!(PageStaging::default().buffer(&device, 64 << 20).unwrap().is_none());
    }
}
