//! The software controller behind registers, in this process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::host::{DmaMemory, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage, WritableFile};

use crate::machine::{Fault, Machine, MachineSetup, image_path, make_images};

/// Shared memory in bytes, and the bus address of its first byte: bus addresses are not host addresses.
const MEMORY_BYTES: usize = 48 << 20;
const FIRST_BUS_ADDRESS: u64 = 0x12_3400_0000;

struct SoftwareMachine {
    controllers: Vec<Arc<VirtualController>>,
    memory: Arc<MappedMemory>,
    folder: tempfile::TempDir,
    /// Of the first namespace.
    gates: Vec<Arc<AtomicBool>>,
}

fn with_faults(file: WritableFile, faults: &[Fault]) -> FaultyStorage {
    let sector = |sector: u64| sector * 512..(sector + 1) * 512;
    let fail = FaultAction::Fail(StatusCode::UnrecoveredReadError);
    let rules = faults.iter().filter_map(|fault| {
        let (bytes, every, at_most, action) = match fault {
            // A read of up to 16 blocks that touches the sector starts at most 15 blocks before it.
            Fault::Read(at) => (sector(*at).start - 15 * 512..sector(*at).end, 1, u64::MAX, fail),
            Fault::NthRead(n) => (0..u64::MAX, *n, 1, fail),
            Fault::Hold(at) => (sector(*at), 1, 1, FaultAction::Hold),
            Fault::Write(_) | Fault::Flush => return None,
        };
        Some(FaultRule {
            bytes,
            every,
            at_most,
            action,
        })
    });
    let mut storage = FaultyStorage::new(Box::new(file), rules.collect());
    for fault in faults {
        storage = match fault {
            Fault::Write(at) => storage.failing_write(sector(*at)),
            Fault::Flush => storage.failing_flushes(),
            _ => storage,
        };
    }
    storage
}

pub(crate) fn start(setup: MachineSetup) -> Option<Box<dyn Machine>> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_images(folder.path(), &setup);
    let memory = SharedMemory::anonymous(MEMORY_BYTES).expect("memory");
    let memory = Arc::new(MappedMemory::linear(memory, FIRST_BUS_ADDRESS));
    let mut gates = Vec::new();
    let controllers = setup.controllers.iter().enumerate().map(|(c, controller)| {
        let namespaces = controller.namespaces.iter().enumerate().map(|(n, namespace)| {
            let file = WritableFile::open(&image_path(folder.path(), c, n)).expect("an image");
            let storage = with_faults(file, &namespace.faults);
            gates.push(storage.gate());
            Namespace {
                nsid: n as u32 + 1,
                storage: Arc::new(storage),
                lba_log2: namespace.lba_log2,
            }
        });
        let options = VirtualOptions {
            serial: format!("S{c}"),
            queues: controller.queues,
            mdts: controller.mdts,
        };
        Arc::new(VirtualController::new(options, namespaces.collect(), memory.clone()))
    });
    let controllers = controllers.collect();
    Some(Box::new(SoftwareMachine {
        controllers,
        memory,
        folder,
        gates,
    }))
}

impl Machine for SoftwareMachine {
    fn registers(&self, controller: usize) -> Arc<dyn Registers> {
        self.controllers[controller].clone()
    }

    fn memory(&self) -> Arc<dyn DmaMemory> {
        self.memory.clone()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn hold_next_read(&self) {}

    fn release(&self) {
        self.gates.iter().for_each(|gate| gate.store(true, Ordering::Release));
    }

    fn warn(&self, critical_warning: u8) {
        self.controllers[0].raise_warning(critical_warning);
    }

    fn stop(self: Box<Self>) -> tempfile::TempDir {
        self.folder
    }
}
