//! Queues and data in the BAR of another device, which stands for a GPU's memory: QEMU's ivshmem, whose BAR 2 is a file
//! of the host. The IOMMU maps the BAR for the controller.

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_driver::binding::{PciAddress, System, bind};
use grampus_driver::host::{
    Device, DeviceOptions, DmaBuffer, DmaPool, MappedMemory, QueuePlace, QueueTicket, VfioMemory,
};
use grampus_driver::raw::{MappedRegisters, VfioDevice};
use grampus_driver::registers::Registers;
use grampus_driver::spec::{NamespaceIdentity, SubmissionEntry};
use zerocopy::IntoBytes;

use crate::guest::{Result, byte_at};

const BAR_IOVA: u64 = 0x20_0000_0000;
const HOST_IOVA: u64 = 0x10_0000_0000;
/// Entries of a queue that is driven by hand: a page of submissions.
const ENTRIES: u32 = 64;
/// Bytes that a read by hand asks for.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// MSI-X vector of the queue in the BAR.
const VECTOR: u16 = 1;
/// Longest wait for a completion.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ivshmem device, which the machine's first process has bound to vfio-pci.
fn open_peer() -> Result<VfioDevice> {
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let folder = entry?.path();
        let is = |file: &str, id: &str| fs::read_to_string(folder.join(file)).is_ok_and(|text| text.trim() == id);
        if is("vendor", "0x1af4") && is("device", "0x1110") {
            let group = fs::read_link(folder.join("iommu_group"))?;
            let group = group
                .file_name()
                .and_then(|name| name.to_str())
                .ok_or("no group")?
                .parse()?;
            let address = folder.file_name().and_then(|name| name.to_str()).ok_or("no address")?;
            return Ok(VfioDevice::open(group, address)?);
        }
    }
    Err("the machine has no ivshmem device".into())
}

/// A queue pair of [`Device::create_queue_at`], driven by this program with one command at a time.
pub(crate) struct ManualQueue {
    registers: Arc<dyn Registers>,
    ticket: QueueTicket,
    rings: [DmaBuffer; 2],
    /// Commands so far.
    count: u32,
}

impl ManualQueue {
    /// Creates the pair with its rings in these buffers, each of a page.
    pub(crate) fn create(
        device: &mut Device,
        registers: Arc<dyn Registers>,
        rings: [DmaBuffer; 2],
        vector: Option<u16>,
    ) -> Result<Self> {
        let ticket = device.create_queue_at(QueuePlace {
            sq_bus: rings[0].bus_address(0),
            cq_bus: rings[1].bus_address(0),
            entries: ENTRIES,
            vector,
        })?;
        Ok(Self {
            registers,
            ticket,
            rings,
            count: 0,
        })
    }

    /// Reads [`BLOCK_BYTES`] at an LBA to a bus address, and waits for the completion.
    pub(crate) fn read(&mut self, namespace: &NamespaceIdentity, slba: u64, bus: u64) -> Result<()> {
        let blocks = (BLOCK_BYTES >> namespace.format.lba_log2) as u32;
        let (slot, cid) = ((self.count % ENTRIES) as usize, self.count as u16);
        let entry = SubmissionEntry::read(cid, namespace.nsid, slba, blocks, bus, 0);
        self.rings[0].write(slot * 64, entry.as_bytes());
        self.count += 1;
        self.registers.write32(self.ticket.sq_doorbell, self.count % ENTRIES);
        let phase = ((self.count - 1) / ENTRIES + 1) & 1;
        let began = Instant::now();
        loop {
            let word = self.rings[1].load_acquire(slot * 16 + 12);
            if word >> 16 & 1 == phase {
                self.registers.write32(self.ticket.cq_doorbell, self.count % ENTRIES);
                return match (word >> 17, word as u16) {
                    (0, found) if found == cid => Ok(()),
                    (status, found) => Err(format!("command {cid}: status {status:#x} of command {found}").into()),
                };
            }
            if began.elapsed() > PATIENCE {
                return Err(format!("command {cid} has no completion").into());
            }
            std::thread::yield_now();
        }
    }
}

/// Drives the controller with memory in the BAR.
pub(crate) fn drive(system: &System, address: PciAddress) -> Result<()> {
    bind(system, address)?;
    let peer = open_peer()?;
    let vfio = Arc::new(VfioDevice::open(
        crate::guest::group_of(system, address)?,
        &address.to_string(),
    )?);
    let bar = peer.map_bar(2)?;
    let _mapping = vfio.map_memory(&bar, BAR_IOVA)?;
    let registers = Arc::new(MappedRegisters::new(vfio.map_bar(0)?));
    let pool =
        || -> Result<Arc<DmaPool>> { Ok(DmaPool::new(Arc::new(MappedMemory::linear(peer.map_bar(2)?, BAR_IOVA)))) };
    rings_in_bar(&vfio, &registers, &pool()?)?;
    everything_in_bar(&registers, &pool()?)
}

/// I/O queues and data in the BAR, the admin queue in memory of this process.
fn rings_in_bar(vfio: &Arc<VfioDevice>, registers: &Arc<MappedRegisters>, peer: &Arc<DmaPool>) -> Result<()> {
    let host = DmaPool::new(Arc::new(VfioMemory::new(vfio, 1 << 20, HOST_IOVA)?));
    let mut device = Device::open(registers.clone(), host, DeviceOptions::default())?;
    let namespace = device.namespaces()?.remove(0);
    let rings = [peer.allocate_contiguous(4096)?, peer.allocate_contiguous(4096)?];
    // Before the queue: a controller refuses vectors while MSI-X is off.
    let mut interrupts = vfio.interrupt(u32::from(VECTOR))?;
    let mut queue = ManualQueue::create(&mut device, registers.clone(), rings, Some(VECTOR))?;
    let data = peer.allocate(BLOCK_BYTES)?;
    for i in 0..3 * u64::from(ENTRIES) {
        let slba = i * 29 % 1500;
        queue.read(&namespace, slba, data.bus_address(0))?;
        let got = data.bytes(0, BLOCK_BYTES);
        if let Some(at) = got
            .iter()
            .zip(slba * 512..)
            .position(|(found, at)| *found != byte_at(at))
        {
            return Err(format!("read {i} into the BAR: byte {at} differs").into());
        }
    }
    // A message for each completion; the kernel adds them up. The controller may join some.
    let mut messages = [0; 8];
    interrupts.read_exact(&mut messages)?;
    println!(
        "guest: {} reads by queues in another device's BAR, {} interrupts",
        queue.count,
        u64::from_ne_bytes(messages)
    );
    device.shutdown()?;
    Ok(())
}

/// All queues and data in the BAR, by the driver's own queues.
fn everything_in_bar(registers: &Arc<MappedRegisters>, pool: &Arc<DmaPool>) -> Result<()> {
    let mut device = Device::open(registers.clone(), pool.clone(), DeviceOptions::default())?;
    let namespace = device.namespaces()?.remove(0);
    let mut queue = device.create_queue(8)?;
    let buffer = pool.allocate(64 << 10)?;
    for i in 0..100u64 {
        let (slba, blocks) = (i * 41 % 1500, 1 + (i % 100) as u32);
        queue.read(&namespace, slba, blocks, &buffer.range(0, blocks as usize * 512)?)?;
        let got = buffer.bytes(0, blocks as usize * 512);
        if got.iter().zip(slba * 512..).any(|(found, at)| *found != byte_at(at)) {
            return Err(format!("read {i} with all memory in the BAR differs").into());
        }
    }
    buffer.fill(0xa5);
    queue.write(&namespace, 1950, 8, &buffer.range(0, 4096)?)?;
    queue.flush(&namespace)?;
    device.shutdown()?;
    Ok(())
}
