//! Controllers with one namespace over an image file.

use std::path::Path;
use std::sync::{Arc, Mutex};

use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::files::Drive;
use grampus_driver::host::{Device, DeviceOptions, DmaPool, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage, WritableFile};
use grampus_test_support::qemu::Qemu;

use crate::qtest_registers::{QtestRegisters, memory};

/// The controller's address in URLs and errors. The transports of these tests have no PCI addresses.
pub(crate) const ADDRESS: &str = "0000:01:00.0";
/// RAM of QEMU's machine in MiB.
const QEMU_MIB: u64 = 16;
/// Memory that the software controller's host gives to queues and data.
const SOFTWARE_BYTES: usize = 7 << 20;

/// A namespace with blocks of 512 bytes.
pub(crate) struct Setup<'a> {
    pub(crate) image: &'a Path,
    /// Reads that touch this block fail.
    pub(crate) bad_lba: Option<u64>,
    /// I/O queues that the controller grants.
    pub(crate) queues: u16,
}

/// QEMU's controller, or `None` after a report that there is no QEMU.
pub(crate) fn qemu(setup: &Setup<'_>) -> Option<Drive> {
    let rule = setup.bad_lba.map(|lba| {
        format!(r#","inject-error":[{{"event":"none","iotype":"read","sector":{lba},"errno":5,"once":false}}]"#)
    });
    let arguments = [
        "-blockdev".to_owned(),
        format!(
            concat!(
                r#"{{"driver":"raw","node-name":"d","file":{{"driver":"blkdebug","#,
                r#""image":{{"driver":"file","filename":"{}"}}{}}}}}"#
            ),
            setup.image.display(),
            rule.unwrap_or_default()
        ),
        "-device".to_owned(),
        format!("nvme,addr=1,serial=S1,drive=d,max_ioqpairs={}", setup.queues),
    ];
    let qemu = Arc::new(Qemu::start(QEMU_MIB, &arguments)?);
    let pool = DmaPool::new(memory(&qemu));
    Some(drive(Arc::new(QtestRegisters::new(&qemu, 1)), pool))
}

/// The software controller of this process.
pub(crate) fn software(setup: &Setup<'_>) -> Drive {
    let file = WritableFile::open(setup.image).unwrap();
    let rule = setup.bad_lba.map(|lba| FaultRule {
        // The controller reads a page of eight blocks at a time: the pages of a command's data lie apart on the bus.
        bytes: (lba - 7) * 512..(lba + 1) * 512,
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Fail(StatusCode::UnrecoveredReadError),
    });
    let storage = FaultyStorage::new(Box::new(file), rule.into_iter().collect());
    let memory = SharedMemory::anonymous(SOFTWARE_BYTES).unwrap();
    let memory = Arc::new(MappedMemory::linear(memory, 0x12_3400_0000));
    let options = VirtualOptions {
        serial: "S1".to_owned(),
        queues: setup.queues,
        mdts: 7,
    };
    let namespaces = vec![Namespace::new(1, Arc::new(storage))];
    let controller = VirtualController::new(options, namespaces, memory.clone());
    drive(Arc::new(controller), DmaPool::new(memory))
}

fn drive(registers: Arc<dyn Registers>, pool: Arc<DmaPool>) -> Drive {
    let device = Device::open(registers, pool, DeviceOptions::default()).unwrap();
    Drive::open(ADDRESS, Arc::new(Mutex::new(device)), 1).unwrap()
}
