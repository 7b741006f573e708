//! `StatusBlock`: what kernels are told of the I/O stack when no column is read by command: where to raise a status.

use grampus_cuda::{CudaError, Device, DeviceBuffer, PinnedBuffer};
use grampus_io_stack::abi::{CacheDesc, IoStack, Stats, Status};
use grampus_io_stack::error::{DeviceError, Reason};
use grampus_io_stack::stack::StackError;

/// Status and counters of a query without queues.
#[derive(Debug)]
pub(crate) struct StatusBlock {
    status: DeviceBuffer,
    stats: DeviceBuffer,
    abort: PinnedBuffer,
}

impl StatusBlock {
    pub(crate) fn new(device: &Device) -> Result<Self, CudaError> {
        Ok(Self {
            status: DeviceBuffer::filled(device, size_of::<Status>(), 0)?,
            stats: DeviceBuffer::filled(device, size_of::<Stats>(), 0)?,
            abort: PinnedBuffer::new(device, 4096)?,
        })
    }

    pub(crate) fn begin(&self) -> Result<(), CudaError> {
        self.status.fill(0)
    }

    pub(crate) fn io(&self) -> IoStack {
        IoStack {
            status: self.status.address(),
            stats: self.stats.address(),
            host_abort: self.abort.address(),
            cache: CacheDesc::default(),
            ..IoStack::default()
        }
    }

    /// After the kernels: why they gave up, if they did.
    pub(crate) fn finish(&self) -> Result<(), StackError> {
        let status: Status = self.status.read(0, 1)?.pop().unwrap_or_default();
        let Some(reason) = Reason::of(&status) else {
            return Ok(());
        };
        Err(StackError::Device(DeviceError {
            reason,
            storage: None,
            offset: None,
            queue: None,
            cid: None,
            bytes: status.bytes,
            waited_ns: status.waited_ns,
            controller: None,
        }))
    }
}
