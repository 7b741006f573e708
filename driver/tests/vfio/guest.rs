//! The program inside the virtual machine. It takes an NVMe controller of QEMU from the kernel, drives it over VFIO
//! and gives it back. Another controller is in use, and is refused. Files are stored on a third one. Then the first one
//! is driven with queues and data in another device's BAR, as in a GPU's memory.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use grampus_driver::binding::{
    BindingError, Change, Inventory, Kernel, LinuxKernel, NvmeController, PciAddress, System, bind, unbind,
};
use grampus_driver::files::{Drive, FileReader, NamespaceFiles};
use grampus_driver::host::{Device, DeviceOptions, DmaPool, VfioMemory};
use grampus_driver::raw::{MappedRegisters, VfioDevice};
use grampus_driver::vfio_controller::{OpenError, open_vfio};

use crate::peer;

const MEMORY_BYTES: usize = 8 << 20;
const IOVA: u64 = 0x10_0000_0000;
/// A bus address that the IOMMU maps for no device.
const UNMAPPED: u64 = 0x50_0000_0000;
/// The controller that is driven.
const FREE_SERIAL: &str = "S1";
/// The controller whose namespace is swap space.
const SWAP_SERIAL: &str = "S2";
/// The controller for files. Its namespace has zeros.
const FILES_SERIAL: &str = "S3";

pub(crate) fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The controller with a serial number.
fn controller(system: &System, serial: &str) -> Result<NvmeController> {
    let list = Inventory::read(system)?.controllers;
    let found = list.into_iter().find(|c| c.serial.as_deref() == Some(serial));
    Ok(found.ok_or_else(|| format!("no NVMe controller {serial}"))?)
}

/// Checks that binding is refused for an obstacle of a kind.
fn check_refusal(result: std::result::Result<Change, BindingError>, kind: &str) -> Result<()> {
    match result {
        Err(BindingError::Refused { obstacles, .. }) if obstacles.iter().any(|o| o.kind() == kind) => Ok(()),
        other => Err(format!("not refused as {kind}: {other:?}").into()),
    }
}

/// Takes a controller from the kernel, drives it, and gives it back.
fn run() -> Result<()> {
    let system = System::default();
    check_refusal(bind(&system, controller(&system, SWAP_SERIAL)?.address), "swap")?;
    let free = controller(&system, FREE_SERIAL)?;
    let (address, node) = (free.address, format!("/dev/{}", free.namespaces[0].name));
    let holder = LinuxKernel.open_exclusively(node.as_ref())?;
    check_refusal(bind(&system, address), "busy")?;
    drop(holder);
    if bind(&system, address)? != Change::Done || bind(&system, address)? != Change::Unchanged {
        return Err("binding twice is not one change".into());
    }
    let listed = Inventory::read(&system)?.controllers;
    let bound = listed.iter().find(|c| c.address == address).ok_or("no controller")?;
    if !bound.usable {
        return Err(format!("not usable: {:?}", bound.obstacles).into());
    }
    drive(&system, address, group_of(&system, address)?)?;
    if unbind(&system, address)? != Change::Done || unbind(&system, address)? != Change::Unchanged {
        return Err("unbinding twice is not one change".into());
    }
    await_namespace(&system)?;
    store_files(&system)?;
    peer::drive(&system, address)?;
    unbind(&system, address)?;
    await_namespace(&system)
}

/// Reads into memory that the IOMMU does not map. QEMU's controller reports success, and the kernel a fault.
fn cause_fault() -> Result<()> {
    let system = System::default();
    let address = controller(&system, FREE_SERIAL)?.address;
    bind(&system, address)?;
    let vfio = Arc::new(VfioDevice::open(group_of(&system, address)?, &address.to_string())?);
    let registers = Arc::new(MappedRegisters::new(vfio.map_bar(0)?));
    let pool = DmaPool::new(Arc::new(VfioMemory::new(&vfio, MEMORY_BYTES, IOVA)?));
    let mut device = Device::open(registers.clone(), pool.clone(), DeviceOptions::default())?;
    let namespace = device.namespaces()?.remove(0);
    let rings = [pool.allocate_contiguous(4096)?, pool.allocate_contiguous(4096)?];
    let mut queue = peer::ManualQueue::create(&mut device, registers, rings, None)?;
    queue.read(&namespace, 0, UNMAPPED)?;
    Ok(())
}

/// The number of a function's IOMMU group.
pub(crate) fn group_of(system: &System, address: PciAddress) -> Result<u32> {
    let listed = Inventory::read(system)?.controllers;
    let found = listed.iter().find(|c| c.address == address).ok_or("no controller")?;
    Ok(found.iommu_group.as_ref().ok_or("no group")?.number.parse()?)
}

/// Stores files on a controller, finds them again after it was closed and opened, and reads them over several queues.
fn store_files(system: &System) -> Result<()> {
    let address = controller(system, FILES_SERIAL)?.address;
    let open = || -> Result<Drive> {
        let device = Arc::new(Mutex::new(open_vfio(system, address)?));
        Ok(Drive::open(&address.to_string(), device, 1)?)
    };
    match open_vfio(system, address) {
        Err(OpenError::Obstacles { obstacles, .. }) if obstacles.iter().any(|o| o.contains("grampus nvme bind")) => {}
        other => return Err(format!("a controller of the kernel is not refused: {other:?}").into()),
    }
    bind(system, address)?;
    let bytes: Vec<u8> = (0..3_000_001).map(byte_at).collect();
    let mut files = NamespaceFiles::initialize(open()?, false)?;
    for name in ["a.orc", "year=2019/b.orc"] {
        let mut go_on = |_| ControlFlow::Continue(());
        files.load(name, bytes.len() as u64, &mut &bytes[..], &mut go_on)?;
    }
    drop(files);
    let mut files = NamespaceFiles::open(open()?)?;
    if files
        .verify("a.orc", &mut |_| ControlFlow::Continue(()))?
        .difference
        .is_some()
    {
        return Err("a.orc differs".into());
    }
    let reader = FileReader::new(files, 4);
    for entry in reader.entries() {
        let read = reader.read(entry, &[0..entry.length_bytes, 1_000_001..1_300_000])?;
        if read[0] != bytes || read[1] != bytes[1_000_001..1_300_000] {
            return Err(format!("{} has other bytes", entry.name).into());
        }
        println!("guest: read {}", entry.name);
    }
    drop(reader);
    unbind(system, address)?;
    Ok(())
}

/// Waits for the kernel's block device: nvme identifies a controller after its probe has returned.
fn await_namespace(system: &System) -> Result<()> {
    for _ in 0..100 {
        let found = controller(system, FREE_SERIAL).ok();
        if let Some(namespace) = found.and_then(|c| c.namespaces.into_iter().next()) {
            println!("guest: {} is back", namespace.name);
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("no namespace after unbinding".into())
}

fn drive(system: &System, address: PciAddress, group: u32) -> Result<()> {
    let vfio = Arc::new(VfioDevice::open(group, &address.to_string())?);
    check_refusal(unbind(system, address), "group_node")?;
    let registers = Arc::new(MappedRegisters::new(vfio.map_bar(0)?));
    let pool = DmaPool::new(Arc::new(VfioMemory::new(&vfio, MEMORY_BYTES, IOVA)?));
    for round in 0..2 {
        let mut device = Device::open(registers.clone(), pool.clone(), DeviceOptions::default())?;
        println!("guest: controller {}, round {round}", device.identity().serial);
        let namespace = device.namespaces()?.remove(0);
        let mut queue = device.create_queue(8)?;
        let before = device.smart_log()?;
        let buffer = pool.allocate(128 << 10)?;
        for i in 0..500u64 {
            let (slba, blocks) = (i * 37 % 1500, 1 + (i % 200) as u32);
            let range = buffer.range((i % 8 * 512) as usize, blocks as usize * 512)?;
            queue.read(&namespace, slba, blocks, &range)?;
            let got = buffer.bytes((i % 8 * 512) as usize, blocks as usize * 512);
            if got
                .iter()
                .enumerate()
                .any(|(k, b)| *b != byte_at(slba * 512 + k as u64))
            {
                return Err(format!("read {i} has other bytes than the image").into());
            }
        }
        buffer.fill(0x5a);
        queue.write(&namespace, 1900, 8, &buffer.range(0, 4096)?)?;
        queue.flush(&namespace)?;
        let log = device.smart_log()?;
        let (reads, writes) = (
            log.read_commands - before.read_commands,
            log.write_commands - before.write_commands,
        );
        if (reads, writes) != (500, 1) {
            return Err(format!("the controller counted {reads} reads and {writes} writes").into());
        }
        device.shutdown()?;
        vfio.reset()?;
    }
    Ok(())
}

/// What the machine asks for: `run`, or `fault`.
pub(crate) fn main(task: &str) {
    let result = match task {
        "fault" => cause_fault(),
        _ => run(),
    };
    match result {
        Ok(()) => println!("guest: {task} passed"),
        Err(e) => println!("guest: {task} failed: {e}"),
    }
}
