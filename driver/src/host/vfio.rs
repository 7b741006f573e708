//! Registers and shared memory over VFIO.

use std::io;
use std::sync::Arc;

use super::dma::{DmaMemory, MappedMemory};
use crate::error::DriverError;
use crate::raw::{DmaMapping, MappedRegisters, SharedMemory, VfioDevice};
use crate::registers::Registers;

impl Registers for MappedRegisters {
    fn length_bytes(&self) -> usize {
        self.len()
    }

    fn read32(&self, offset: usize) -> u32 {
        self.load(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.store(offset, value);
    }
}

/// Memory of this process that a device reaches under the IOMMU.
#[derive(Debug)]
pub struct VfioMemory {
    /// Dropped first: the device reaches the memory no more when it is freed.
    _mapping: DmaMapping,
    memory: MappedMemory,
}

impl VfioMemory {
    /// Maps `length_bytes` of fresh memory at `iova`, both multiples of 4,096.
    ///
    /// # Errors
    /// [`DriverError::System`].
    pub fn new(device: &Arc<VfioDevice>, length_bytes: usize, iova: u64) -> Result<Self, DriverError> {
        let failed = |source: io::Error| DriverError::System {
            what: format!("mapping {length_bytes} bytes at IOVA {iova:#x}"),
            source,
        };
        let memory = SharedMemory::anonymous(length_bytes).map_err(failed)?;
        let mapping = device.map_memory(&memory, iova).map_err(failed)?;
        Ok(Self {
            _mapping: mapping,
            memory: MappedMemory::linear(memory, iova),
        })
    }
}

impl DmaMemory for VfioMemory {
    fn pages(&self) -> usize {
        self.memory.pages()
    }

    fn bus_address(&self, page: usize) -> u64 {
        self.memory.bus_address(page)
    }

    fn memory(&self) -> &SharedMemory {
        self.memory.memory()
    }
}
