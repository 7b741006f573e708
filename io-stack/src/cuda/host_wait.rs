//! `HostWait`: while kernels wait for the host, nothing is given back to the driver.
//!
//! `cuMemFree` and its like wait for all kernels of the context, and hold a lock of the driver meanwhile. A kernel that
//! reads by command waits for the controller's threads, and their copies wait for that lock: nothing would go on until
//! the kernel's timeout. What is dropped meanwhile is therefore kept, and given back when no such kernel runs.
//!
//! **Invariant:** no kernel that waits for the host is launched while something is given back.

use std::sync::Arc;

use super::device::Device;
use super::releases::Releases;

/// Kernels of a device may run that wait for the host: from before their launch until they have ended.
#[derive(Debug)]
pub struct HostWait(Arc<Releases>);

impl HostWait {
    /// Begins before such a kernel is launched. Waits for what is being given back.
    pub fn begin(device: &Device) -> Self {
        let releases = device.releases().clone();
        releases.hold();
        Self(releases)
    }

    /// Whether something is kept that the end of all waits gives back.
    pub fn is_in_the_way(&self) -> bool {
        self.0.are_kept()
    }
}

impl Drop for HostWait {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::super::device_buffer::DeviceBuffer;
    use super::*;

    #[test]
    fn what_is_dropped_while_kernels_wait_is_given_back_when_none_does() {
        let device = Device::host(1, 1 << 20);
        let given_back = Arc::new(AtomicUsize::new(0));
        let give_back = || {
            let counter = given_back.clone();
            device.releases().give_back(move || {
                counter.fetch_add(1, Ordering::SeqCst);
            });
            given_back.load(Ordering::SeqCst)
        };
        assert_eq!(give_back(), 1, "nothing waits");
        assert!(!device.releases().wait(Duration::from_secs(60)));

        let (first, second) = (HostWait::begin(&device), HostWait::begin(&device.clone()));
        assert!(!first.is_in_the_way());
        assert_eq!(give_back(), 1);
        assert!(first.is_in_the_way());
        drop(first);
        assert_eq!(give_back(), 1, "the other one waits");
        assert!(!device.releases().wait(Duration::from_millis(1)));
        drop(second);
        assert_eq!((given_back.load(Ordering::SeqCst), give_back()), (3, 4));
    }

    #[test]
    fn memory_that_is_kept_is_waited_for_and_not_refused() {
        let device = Device::host(1, 1 << 20);
        let all = DeviceBuffer::new(&device, 1 << 20).unwrap();
        let wait = HostWait::begin(&device);
        drop(all);
        assert_eq!(device.facts().unwrap().free_bytes, 0);
        std::thread::scope(|scope| {
            let next = scope.spawn(|| DeviceBuffer::new(&device, 1 << 20));
            std::thread::sleep(Duration::from_millis(20)); // so that it most likely waits
            drop(wait);
            assert!(next.join().unwrap().is_ok());
        });
        assert_eq!(device.facts().unwrap().free_bytes, 1 << 20);
    }
}
