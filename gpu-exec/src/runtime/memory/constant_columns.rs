//! `ConstantColumns`: device memory full of one value. It stands for rows that all have the value, and for validity
//! without NULLs.

use std::collections::HashMap;
use std::sync::Arc;

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer};

/// Values of one buffer; a stripe of more rows repeats it.
pub(crate) const CONSTANT_ROWS: u64 = 1 << 18;

/// One buffer per width and value.
#[derive(Debug, Default)]
pub(crate) struct ConstantColumns {
    buffers: HashMap<(u32, u64), Arc<DeviceBuffer>>,
}

/// Buffers that are cached, at most: 2 MiB each. A query may use more of them: its extents hold what they point into.
const MAX_BUFFERS: usize = 64;

impl ConstantColumns {
    /// The buffer of a value of `width` bytes, given by the low bytes of `bits`.
    pub(crate) fn get(&mut self, device: &Device, width: u32, bits: u64) -> Result<Arc<DeviceBuffer>, CudaError> {
        if let Some(buffer) = self.buffers.get(&(width, bits)) {
            return Ok(buffer.clone());
        }
        if self.buffers.len() >= MAX_BUFFERS {
            self.buffers.clear();
        }
        let value = &bits.to_le_bytes()[..width as usize];
        // Kernels load whole words of 8 bytes: one more at the end.
        let bytes = value.repeat(CONSTANT_ROWS as usize + 8);
        let buffer = Arc::new(DeviceBuffer::from_values(device, &bytes)?);
        self.buffers.insert((width, bits), buffer.clone());
        Ok(buffer)
    }
}
