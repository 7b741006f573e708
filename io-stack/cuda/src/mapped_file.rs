//! `MappedFile`: a file's pages in the page cache, registered so that the GPU loads from them over PCIe.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cudarc::driver::sys;
use grampus_driver::raw::Mapping;

use crate::call::check;
use crate::device::Device;
use crate::error::CudaError;
use crate::host_faults::HostOperation;

/// A file mapped read-only, and registered with the GPU if possible. Registered pages are pinned until the drop.
///
/// If another process truncates the file, registered pages keep their bytes for the GPU, and kernels on host threads
/// load zeros ([`has_failed`](Self::has_failed)). The bytes may change too. A caller compares the file's length and
/// modification time after its last kernel, and before it uses the kernel's results.
#[derive(Debug)]
pub struct MappedFile {
    device: Device,
    path: PathBuf,
    map: Arc<Mapping>,
    /// The mapped file.
    file: File,
    /// The GPU's address, or why it has none.
    registered: Result<u64, CudaError>,
}

const READ_ONLY: u32 =
    sys::CU_MEMHOSTREGISTER_READ_ONLY | sys::CU_MEMHOSTREGISTER_DEVICEMAP | sys::CU_MEMHOSTREGISTER_PORTABLE;

impl MappedFile {
    /// Maps the whole file and tries to register it. A failed registration is no error:
    /// [`device_address`](Self::device_address) is then `None`, and the queued backing serves. Typical reasons are a
    /// limit on locked memory, or a file system without support.
    ///
    /// # Errors
    /// A file that cannot be opened or mapped, or that is empty.
    pub fn open(device: &Device, path: &Path) -> Result<Self, CudaError> {
        let refuse = |reason: String| CudaError::File {
            path: path.display().to_string(),
            reason,
        };
        let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
        let bytes = file.metadata().map_err(|e| refuse(e.to_string()))?.len();
        if bytes == 0 {
            return Err(refuse("the file is empty".to_owned()));
        }
        let bytes = usize::try_from(bytes).map_err(|e| refuse(e.to_string()))?;
        let map = Arc::new(Mapping::new(&file, bytes).map_err(|e| refuse(e.to_string()))?);
        let registered = register(device, &map);
        if let Err(e) = &registered {
            log::warn!(
                "{}: not registered with the GPU, reads go through queues: {e}",
                path.display()
            );
        }
        Ok(Self {
            device: device.clone(),
            path: path.to_owned(),
            map,
            file,
            registered,
        })
    }

    /// The GPU's address of byte 0.
    pub fn device_address(&self) -> Option<u64> {
        self.registered.as_ref().ok().copied()
    }

    /// Why there is no address.
    pub fn failure(&self) -> Option<&CudaError> {
        self.registered.as_ref().err()
    }

    /// Mapped bytes.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.map.is_empty()
    }

    /// Whether bytes of the mapping were lost, so that loads have returned zeros.
    pub fn has_failed(&self) -> bool {
        self.map.has_failed()
    }

    /// The mapped file, for a look at its present state.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

fn register(device: &Device, map: &Mapping) -> Result<u64, CudaError> {
    if let Some(machine) = device.as_host() {
        machine.faults().check(HostOperation::Pin)?;
        machine.pinned(map.len());
        return Ok(map.address() as u64); // its kernels use the host's addresses
    }
    device.bind()?;
    let (at, len) = (map.address().cast_mut().cast(), map.len().next_multiple_of(4096));
    let register = || {
        // SAFETY: a live mapping of whole pages, read-only for the GPU as for us; unregistered before the unmapping.
        check("cuMemHostRegister", unsafe {
            sys::cuMemHostRegister_v2(at, len, READ_ONLY)
        })
    };
    (device.gate().call(register)).map_err(|e| e.about(|| format!("{len} bytes")))?;
    let mut address = 0;
    // SAFETY: registered with DEVICEMAP by the call before.
    let answer = check("cuMemHostGetDevicePointer", unsafe {
        sys::cuMemHostGetDevicePointer_v2(&mut address, at, 0)
    });
    if answer.is_err() {
        // SAFETY: registered by this function.
        device.gate().call(|| unsafe { sys::cuMemHostUnregister(at) });
    }
    answer.map(|()| address)
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        if self.registered.is_err() {
            return;
        }
        let (device, map, path) = (self.device.clone(), self.map.clone(), self.path.clone());
        self.device.gate().give_back(move || {
            if let Some(machine) = device.as_host() {
                drop(machine.call_alone());
                machine.unpinned(map.len());
                return;
            }
            if device.bind().is_err() {
                return;
            }
            // SAFETY: registered in `open`, and still mapped.
            let answer = unsafe { sys::cuMemHostUnregister(map.address().cast_mut().cast()) };
            if let Err(e) = check("cuMemHostUnregister", answer) {
                log::warn!("{}: {e}", path.display());
            }
        });
    }
}
