//! The first process of a small virtual machine, which drives QEMU's NVMe device over VFIO and prints the result.
//! `driver/tests/vfio_guest.sh` builds the machine.

use std::sync::Arc;

use grampus_driver::host::{Device, DeviceOptions, DmaPool, VfioMemory};
use grampus_driver::raw::{MappedRegisters, VfioDevice};

const MEMORY_BYTES: usize = 8 << 20;
const IOVA: u64 = 0x10_0000_0000;

fn byte_at(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// PCI address of the NVMe controller (class 01 08 02).
fn controller() -> Result<String> {
    for entry in std::fs::read_dir("/sys/bus/pci/devices")? {
        let entry = entry?;
        if std::fs::read_to_string(entry.path().join("class"))?.trim() == "0x010802" {
            return Ok(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Err("no NVMe controller".into())
}

fn drive() -> Result<()> {
    let address = controller()?;
    let folder = format!("/sys/bus/pci/devices/{address}");
    std::fs::write(format!("{folder}/driver_override"), "vfio-pci")?;
    std::fs::write("/sys/bus/pci/drivers_probe", &address)?;
    let group = std::fs::read_link(format!("{folder}/iommu_group"))?;
    let group: u32 = group.file_name().ok_or("a group")?.to_string_lossy().parse()?;
    let vfio = Arc::new(VfioDevice::open(group, &address)?);
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

fn main() {
    match drive() {
        Ok(()) => println!("guest: passed"),
        Err(e) => println!("guest: failed: {e}"),
    }
}
