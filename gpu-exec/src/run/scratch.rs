//! Device memory for what one query needs beside its columns, kept and grown from query to query: allocating costs more than a launch.

use grampus_io_stack::cuda::{CudaError, Device, DeviceBuffer, Stream};

/// Everything begins at multiples of this.
const GRAIN_BYTES: usize = 256;

/// Three buffers: one that the host writes, one that starts as zeros, one that does not care.
#[derive(Debug)]
pub(crate) struct Scratch {
    device: Device,
    written: Option<DeviceBuffer>,
    zeroed: Option<DeviceBuffer>,
    other: Option<DeviceBuffer>,
}

/// What a query asks for, and where it will be. Offsets are those of its buffer.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    bytes: Vec<u8>,
    zeroed: usize,
    other: usize,
}

impl Wanted {
    /// Bytes to be copied to the device.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> usize {
        let at = self.bytes.len().next_multiple_of(GRAIN_BYTES);
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(bytes);
        at
    }

    /// Zeros.
    pub(crate) fn zeros(&mut self, len: usize) -> usize {
        let at = self.zeroed;
        self.zeroed = (at + len.max(1)).next_multiple_of(GRAIN_BYTES);
        at
    }

    /// Anything.
    pub(crate) fn any(&mut self, len: usize) -> usize {
        let at = self.other;
        self.other = (at + len.max(1)).next_multiple_of(GRAIN_BYTES);
        at
    }
}

/// The buffers of a query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) written: &'a DeviceBuffer,
    pub(crate) zeroed: &'a DeviceBuffer,
    pub(crate) other: &'a DeviceBuffer,
    /// Bytes of the second that are zeros at first.
    zeros: usize,
}

impl Given<'_> {
    /// Clears again what was zeros at first, before what is put into the stream next.
    pub(crate) fn clear(&self, stream: &Stream) -> Result<(), CudaError> {
        stream.fill(self.zeroed, 0, self.zeros, 0)
    }
}

impl Scratch {
    pub(crate) fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            written: None,
            zeroed: None,
            other: None,
        }
    }

    /// Makes room, copies and clears, before what is put into the stream next. No kernel uses what was given before.
    pub(crate) fn give(&mut self, wanted: &Wanted, stream: &Stream) -> Result<Given<'_>, CudaError> {
        let written = room(&self.device, &mut self.written, wanted.bytes.len())?;
        written.write(0, &wanted.bytes)?;
        let zeroed = room(&self.device, &mut self.zeroed, wanted.zeroed)?;
        let other = room(&self.device, &mut self.other, wanted.other)?;
        let given = Given {
            written,
            zeroed,
            other,
            zeros: wanted.zeroed,
        };
        given.clear(stream)?;
        Ok(given)
    }
}

fn room<'a>(device: &Device, buffer: &'a mut Option<DeviceBuffer>, len: usize) -> Result<&'a DeviceBuffer, CudaError> {
    if buffer.as_ref().is_none_or(|b| b.len() < len) {
        *buffer = None; // its memory first
        let bytes = len
            .max(GRAIN_BYTES)
            .next_power_of_two()
            .min(len.max(GRAIN_BYTES) + (64 << 20));
        return Ok(buffer.insert(DeviceBuffer::new(device, bytes)?));
    }
    // Borrowed anew: the checker does not see that the branch above returns.
    buffer
        .as_ref()
        .ok_or_else(|| CudaError::NoDriver("no scratch memory".to_owned()))
}
