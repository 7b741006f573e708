//! `QtestRegisters`: BAR 0 of a device of QEMU, over the qtest socket.

use std::fs::File;
use std::sync::Arc;

use grampus_driver::host::{DmaMemory, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers::REMOVED;
use grampus_test_support::qemu::{FIRST_FREE_BYTE, Qemu};

/// One controller's registers.
#[derive(Debug)]
pub(crate) struct QtestRegisters {
    qemu: Arc<Qemu>,
    base: u64,
    length: usize,
}

impl QtestRegisters {
    /// Places the BAR of the device in a PCI slot.
    pub(crate) fn new(qemu: &Arc<Qemu>, slot: u8) -> Self {
        let (base, length) = qemu.enable_bar0(slot);
        Self {
            qemu: qemu.clone(),
            base,
            length,
        }
    }
}

impl Registers for QtestRegisters {
    fn length_bytes(&self) -> usize {
        self.length
    }

    fn read32(&self, offset: usize) -> u32 {
        self.qemu.read32(self.base + offset as u64).unwrap_or(REMOVED)
    }

    fn write32(&self, offset: usize, value: u32) {
        // QEMU reads memory after it has read the line, so everything written before is visible to it.
        let _ = self.qemu.write32(self.base + offset as u64, value);
    }
}

/// The machine's RAM above its firmware: a bus address is an offset in the RAM.
pub(crate) fn memory(qemu: &Qemu) -> Arc<dyn DmaMemory> {
    let ram = File::options()
        .read(true)
        .write(true)
        .open(qemu.ram())
        .expect("QEMU's memory");
    let length = (qemu.memory_bytes() - FIRST_FREE_BYTE) as usize;
    let memory = SharedMemory::map_file(&ram, FIRST_FREE_BYTE, length).expect("QEMU's memory");
    Arc::new(MappedMemory::linear(memory, FIRST_FREE_BYTE))
}
