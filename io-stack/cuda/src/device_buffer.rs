//! `DeviceBuffer`: device memory with one owner.
//!
//! The GPU may write the memory at any time. Contents are therefore copied in and out, and never lent as references.

use cudarc::driver::sys;

use crate::call::check;
use crate::device::Device;
use crate::error::CudaError;
use crate::host_faults::HostOperation;
use crate::plain::Plain;

/// Address and length of plain values.
fn bytes_of<T: Plain>(values: &[T]) -> (*const std::ffi::c_void, usize) {
    (values.as_ptr().cast(), size_of_val(values))
}

/// Waits for the default stream: our streams do not. Clearing memory may go on when the call has returned, and so may
/// the last piece of a copy from pageable memory (CUDA Driver API, "API synchronization behavior").
fn settle() -> Result<(), CudaError> {
    // SAFETY: a context is current; null is the default stream.
    check("cuStreamSynchronize", unsafe {
        sys::cuStreamSynchronize(std::ptr::null_mut())
    })
}

fn allocate(device: &Device, len: usize) -> Result<u64, CudaError> {
    device.gate().call(|| {
        if let Some(machine) = device.as_host() {
            return machine.allocate(len);
        }
        device.bind()?;
        let mut at = 0;
        // SAFETY: a context is current; `at` is writable; the driver does not allow length 0, and none is asked for.
        check("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut at, len.max(16)) })?;
        Ok(at)
    })
}

/// Device memory. The driver aligns it to at least 256 bytes, and buffers of 2 MiB and more to 2 MiB. It is freed on
/// drop, or when no kernel runs any more that waits for the host.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Device,
    at: u64,
    len: usize,
}

impl DeviceBuffer {
    /// Allocates `len` bytes, not initialised.
    ///
    /// # Errors
    /// Mostly: out of device memory.
    pub fn new(device: &Device, len: usize) -> Result<Self, CudaError> {
        let at = allocate(device, len).map_err(|e| e.about(|| format!("{len} bytes of device memory")))?;
        Ok(Self {
            device: device.clone(),
            at,
            len,
        })
    }

    /// Allocates `len` bytes, all of them `byte`.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn filled(device: &Device, len: usize, byte: u8) -> Result<Self, CudaError> {
        let buffer = Self::new(device, len)?;
        buffer.fill(byte)?;
        Ok(buffer)
    }

    /// Allocates memory for `values` and copies them there.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn from_values<T: Plain>(device: &Device, values: &[T]) -> Result<Self, CudaError> {
        let buffer = Self::new(device, size_of_val(values))?;
        buffer.write(0, values)?;
        Ok(buffer)
    }

    /// Address on the device.
    pub fn address(&self) -> u64 {
        self.at
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// A failed call, mostly an earlier kernel's.
    pub fn fill(&self, byte: u8) -> Result<(), CudaError> {
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            // SAFETY: our own memory. As on a GPU, the caller ensures that no kernel works on it.
            unsafe { (self.at as *mut u8).write_bytes(byte, self.len) };
            return Ok(());
        }
        self.device.gate().call(|| {
            self.device.bind()?;
            // SAFETY: our own memory.
            check("cuMemsetD8", unsafe { sys::cuMemsetD8_v2(self.at, byte, self.len) })?;
            settle()
        })
    }

    /// Copies values to byte `offset`.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call.
    pub fn write<T: Plain>(&self, offset: usize, values: &[T]) -> Result<(), CudaError> {
        let (from, len) = bytes_of(values);
        self.inside(offset, len)?;
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            // SAFETY: inside our memory, by the check; the source is a live slice.
            unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), (self.at as *mut u8).add(offset), len) };
            return Ok(());
        }
        self.device.bind()?;
        // SAFETY: inside our memory, by the check; the source is a live slice.
        check("cuMemcpyHtoD", unsafe {
            sys::cuMemcpyHtoD_v2(self.at + offset as u64, from, len)
        })?;
        settle()
    }

    /// Copies `count` values from byte `offset`.
    ///
    /// # Errors
    /// A range outside the buffer, or a failed call, mostly an earlier kernel's.
    pub fn read<T: Plain + Default>(&self, offset: usize, count: usize) -> Result<Vec<T>, CudaError> {
        let mut values = vec![T::default(); count];
        let len = size_of_val(values.as_slice());
        self.inside(offset, len)?;
        self.device.begins(HostOperation::Copy)?;
        if self.device.is_host() {
            let from = (self.at as *const u8).wrapping_add(offset);
            // SAFETY: inside our memory; the target is as long; every bit pattern is a `Plain` value.
            unsafe { std::ptr::copy_nonoverlapping(from, values.as_mut_ptr().cast::<u8>(), len) };
            return Ok(values);
        }
        self.device.bind()?;
        // SAFETY: inside our memory; the target is as long; every bit pattern is a `Plain` value.
        check("cuMemcpyDtoH", unsafe {
            sys::cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.at + offset as u64, len)
        })?;
        Ok(values)
    }

    fn inside(&self, offset: usize, len: usize) -> Result<(), CudaError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(CudaError::Arguments {
                kernel: "copy".to_owned(),
                reason: format!("{len} bytes at {offset} of a buffer of {}", self.len),
            }),
        }
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let (device, at, len) = (self.device.clone(), self.at, self.len);
        self.device.gate().give_back(move || {
            if let Some(machine) = device.as_host() {
                machine.free(at, len);
            } else if device.bind().is_ok() {
                // SAFETY: allocated in `new`, freed once. The driver waits for kernels that still run.
                let _ = unsafe { sys::cuMemFree_v2(at) };
            }
        });
    }
}
