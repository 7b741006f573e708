//! `Machine`: controllers with namespaces over image files, and their faults, whatever implements them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use grampus_driver::host::{Device, DeviceOptions, DmaBuffer, DmaMemory, DmaPool, QueuePair};
use grampus_driver::registers::Registers;
use grampus_driver::spec::NamespaceIdentity;

/// Fault of a namespace's backend, ordered before the machine starts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Reads that touch this 512-byte sector fail.
    Read(u64),
    /// Writes that touch this 512-byte sector fail.
    Write(u64),
    /// Flushes fail.
    Flush,
    /// Of all reads, this one fails (1: the first).
    NthRead(u64),
    /// A read of this sector is held after `hold_next_read`, until others have ended or `release` is called.
    Hold(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct NamespaceSetup {
    pub(crate) bytes: u64,
    pub(crate) lba_log2: u8,
    pub(crate) faults: Vec<Fault>,
}

impl NamespaceSetup {
    pub(crate) fn new(bytes: u64, lba_log2: u8) -> Self {
        Self {
            bytes,
            lba_log2,
            faults: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ControllerSetup {
    pub(crate) namespaces: Vec<NamespaceSetup>,
    /// MDTS as log2 of 4 KiB pages; 0: no limit.
    pub(crate) mdts: u8,
    /// Number of I/O queue pairs that the controller grants.
    pub(crate) queues: u16,
}

#[derive(Debug, Clone)]
pub(crate) struct MachineSetup {
    pub(crate) controllers: Vec<ControllerSetup>,
}

impl MachineSetup {
    /// One controller with one namespace.
    pub(crate) fn one(bytes: u64, lba_log2: u8) -> Self {
        Self {
            controllers: vec![ControllerSetup {
                namespaces: vec![NamespaceSetup::new(bytes, lba_log2)],
                mdts: 5,
                queues: 16,
            }],
        }
    }

    pub(crate) fn with(mut self, faults: &[Fault]) -> Self {
        self.controllers[0].namespaces[0].faults = faults.to_vec();
        self
    }

    pub(crate) fn mdts(mut self, mdts: u8) -> Self {
        self.controllers[0].mdts = mdts;
        self
    }

    pub(crate) fn queues(mut self, queues: u16) -> Self {
        self.controllers[0].queues = queues;
        self
    }
}

/// A running machine. Images lie below `folder`, one for each controller and namespace, filled with [`byte_at`].
pub(crate) trait Machine {
    fn registers(&self, controller: usize) -> Arc<dyn Registers>;
    fn memory(&self) -> Arc<dyn DmaMemory>;
    fn folder(&self) -> &Path;
    /// Holds the next read of controller 0's first namespace.
    fn hold_next_read(&self);
    /// Lets the held read go on.
    fn release(&self);
    /// Raises a critical warning of controller 0.
    fn warn(&self, critical_warning: u8);
    /// Ends the controllers, so that images hold all that was written.
    fn stop(self: Box<Self>) -> tempfile::TempDir;
}

/// The byte at each offset of a fresh image.
pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) fn pattern(offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(byte_at).collect()
}

pub(crate) fn image_path(folder: &Path, controller: usize, namespace: usize) -> PathBuf {
    folder.join(format!("image-{controller}-{namespace}"))
}

/// Writes the images of a machine.
pub(crate) fn make_images(folder: &Path, setup: &MachineSetup) {
    for (c, controller) in setup.controllers.iter().enumerate() {
        for (n, namespace) in controller.namespaces.iter().enumerate() {
            std::fs::write(image_path(folder, c, n), pattern(0, namespace.bytes as usize)).expect("writable");
        }
    }
}

/// An open controller with its namespaces, and a model of what the first one holds.
pub(crate) struct Rig {
    pub(crate) device: Device,
    pub(crate) pool: Arc<DmaPool>,
    pub(crate) namespaces: Vec<NamespaceIdentity>,
    /// The bytes that the first namespace must hold.
    pub(crate) model: Vec<u8>,
    pub(crate) machine: Box<dyn Machine>,
}

impl Rig {
    pub(crate) fn open(machine: Box<dyn Machine>) -> Self {
        Self::open_with(machine, DeviceOptions::default())
    }

    pub(crate) fn open_with(machine: Box<dyn Machine>, options: DeviceOptions) -> Self {
        let pool = DmaPool::new(machine.memory());
        let mut device = Device::open(machine.registers(0), pool.clone(), options).expect("the controller opens");
        let namespaces = device.namespaces().expect("namespaces");
        let model = std::fs::read(image_path(machine.folder(), 0, 0)).expect("an image");
        Self {
            device,
            pool,
            namespaces,
            model,
            machine,
        }
    }

    pub(crate) fn queue(&mut self, entries: u32) -> QueuePair {
        self.device.create_queue(entries).expect("a queue")
    }

    pub(crate) fn buffer(&self, bytes: usize) -> DmaBuffer {
        self.pool.allocate(bytes).expect("memory")
    }

    /// The bytes of the first namespace, by the model.
    pub(crate) fn expected(&self, slba: u64, blocks: u32) -> &[u8] {
        let log2 = self.namespaces[0].format.lba_log2;
        let start = (slba << log2) as usize;
        &self.model[start..start + ((blocks as usize) << log2)]
    }

    /// Ends the machine and compares the first namespace's image with the model.
    pub(crate) fn finish(self) {
        let Self {
            device, machine, model, ..
        } = self;
        device.shutdown().expect("the controller shuts down");
        let folder = machine.stop();
        let image = std::fs::read(image_path(folder.path(), 0, 0)).expect("an image");
        let differs = image.iter().zip(&model).position(|(image, model)| image != model);
        assert_eq!(differs, None, "first byte of the image that differs from the model");
        assert_eq!(image.len(), model.len());
    }
}
