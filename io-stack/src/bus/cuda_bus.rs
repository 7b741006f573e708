//! `CudaBus`: CUDA's memory as a software controller reaches it.
//!
//! The controller writes bounce slots itself, and device memory through staging buffers and the copy engine. The ranges
//! of both are fixed when the stack is built.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use grampus_cuda::{CudaError, Device, PinnedBuffer, Stream};
use grampus_driver::bus::{BusMemory, Uploader};
use grampus_driver::raw::HostMemory;

use super::copy_engine::{CopyEngine, StagingOptions};

/// The memory that commands may point at.
#[derive(Debug)]
pub(crate) struct CudaBus {
    device: Device,
    bounce: Option<Arc<PinnedBuffer>>,
    device_ranges: Vec<Range<u64>>,
    staging: StagingOptions,
    /// One stream for all threads: with several, the copy engine would change channels, which takes time.
    stream: OnceLock<Arc<Stream>>,
    /// Why a thread has no copy engine: the controller reports it in words alone.
    failure: Mutex<Option<CudaError>>,
}

impl CudaBus {
    /// The controller may write `bounce`, and the copy engine `device_ranges`; neither may write anything else.
    pub(crate) fn new(
        device: &Device,
        bounce: Option<Arc<PinnedBuffer>>,
        device_ranges: Vec<Range<u64>>,
        staging: StagingOptions,
    ) -> Self {
        Self {
            device: device.clone(),
            bounce,
            device_ranges,
            staging,
            stream: OnceLock::new(),
            failure: Mutex::default(),
        }
    }

    /// Why the controller could not start, if a call of the driver failed.
    pub(crate) fn take_failure(&self) -> Option<CudaError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn stream(&self) -> Result<Arc<Stream>, CudaError> {
        if let Some(stream) = self.stream.get() {
            return Ok(stream.clone());
        }
        let made = Arc::new(Stream::new(&self.device)?);
        Ok(self.stream.get_or_init(|| made).clone())
    }
}

impl BusMemory for CudaBus {
    fn host_memory(&self, bus_address: u64, length: u64) -> Option<HostMemory> {
        let bounce = self.bounce.as_ref()?;
        let offset = bus_address.checked_sub(bounce.address())?;
        // SAFETY: this bus keeps the buffer, and the protocol gives a bounce slot to the command that holds it
        // (PROTOCOL.md, "What a controller must do", 3).
        unsafe { bounce.lend(usize::try_from(offset).ok()?, usize::try_from(length).ok()?) }
    }

    fn prp_list(&self, _: u64, _: usize) -> Option<Vec<u64>> {
        None // transfers of more than two pages carry an SGL data block
    }

    fn uploader(&self) -> Result<Option<Box<dyn Uploader>>, String> {
        if self.device_ranges.is_empty() {
            return Ok(None);
        }
        self.stream()
            .and_then(|stream| CopyEngine::new(&self.device, stream, self.staging, self.device_ranges.clone()))
            .map(|engine| Some(Box::new(engine) as Box<dyn Uploader>))
            .map_err(|e| {
                let words = e.to_string();
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(e);
                words
            })
    }
}
