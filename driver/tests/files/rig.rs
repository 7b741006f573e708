//! A software controller with one namespace, opened by the driver; and files with their expected bytes.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::files::{Drive, FileError, NamespaceFiles};
use grampus_driver::host::{Device, DeviceOptions, DmaPool, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::storage::Storage;

const MEMORY_BYTES: usize = 7 << 20;
/// Bus addresses are not host addresses.
const FIRST_BUS_ADDRESS: u64 = 0x12_3400_0000;

/// Opens namespace 1 of a new controller over a storage.
pub(crate) fn drive(storage: impl Storage + 'static, block_bytes: u64) -> Drive {
    drive_with(storage, block_bytes, DeviceOptions::default())
}

/// Like [`drive`], for a storage that does not always answer.
pub(crate) fn impatient_drive(storage: impl Storage + 'static) -> Drive {
    let options = DeviceOptions {
        command_timeout: Some(Duration::from_millis(300)),
        ..DeviceOptions::default()
    };
    drive_with(storage, 512, options)
}

fn drive_with(storage: impl Storage + 'static, block_bytes: u64, device_options: DeviceOptions) -> Drive {
    let namespace = Namespace {
        nsid: 1,
        storage: Arc::new(storage),
        lba_log2: block_bytes.trailing_zeros() as u8,
    };
    open(namespace, device_options, |registers| registers)
}

/// Like [`drive`], through other registers.
pub(crate) fn drive_over<R: Registers + 'static>(
    storage: impl Storage + 'static,
    device_options: DeviceOptions,
    through: impl FnOnce(Arc<dyn Registers>) -> Arc<R>,
) -> (Drive, Arc<R>) {
    let mut used = None;
    let through = |registers| {
        let registers: Arc<R> = through(registers);
        used = Some(registers.clone());
        registers as Arc<dyn Registers>
    };
    let drive = open(Namespace::new(1, Arc::new(storage)), device_options, through);
    (drive, used.unwrap())
}

fn open(
    namespace: Namespace,
    device_options: DeviceOptions,
    through: impl FnOnce(Arc<dyn Registers>) -> Arc<dyn Registers>,
) -> Drive {
    let memory = SharedMemory::anonymous(MEMORY_BYTES).unwrap();
    let memory = Arc::new(MappedMemory::linear(memory, FIRST_BUS_ADDRESS));
    let options = VirtualOptions {
        serial: "S1".to_owned(),
        queues: 4,
        mdts: 5,
    };
    let controller = VirtualController::new(options, vec![namespace], memory.clone());
    let registers = through(Arc::new(controller));
    let device = Device::open(registers, DmaPool::new(memory), device_options).unwrap();
    Drive::open("S1", Arc::new(Mutex::new(device)), 1).unwrap()
}

pub(crate) fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Loads bytes under a name.
pub(crate) fn load(files: &mut NamespaceFiles, name: &str, bytes: &[u8]) -> Result<(), FileError> {
    let loaded = files.load(name, bytes.len() as u64, &mut &bytes[..], &mut go_on);
    loaded.map(|entry| assert_eq!(entry.length_bytes, bytes.len() as u64))
}

/// The files that a namespace must hold.
pub(crate) type Model = BTreeMap<String, Vec<u8>>;

/// The names of the files, in order. Each file's bytes are compared with the model's, and with their checksums.
pub(crate) fn check(files: NamespaceFiles, model: &Model) -> Vec<String> {
    let mut files = files;
    let names: Vec<String> = files.entries().iter().map(|entry| entry.name.clone()).collect();
    for name in &names {
        let verified = files.verify(name, &mut go_on).unwrap();
        assert_eq!(verified.difference, None, "{name}");
    }
    let reader = grampus_driver::files::FileReader::new(files, 1);
    for entry in reader.entries() {
        let wanted = model
            .get(&entry.name)
            .unwrap_or_else(|| panic!("{} is no file", entry.name));
        let read = reader
            .read(entry, std::slice::from_ref(&(0..entry.length_bytes)))
            .unwrap();
        assert!(read[0] == *wanted, "{} has other bytes", entry.name);
    }
    let mut names = names;
    names.sort();
    names
}
