//! The software controller against a host whose registers, entries and memory are an input's bytes.

use std::path::Path;
use std::sync::Arc;

use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::host::{Device, DeviceOptions, DmaMemory, DmaPool};
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers as reg;
use grampus_driver::storage::WritableFile;

use crate::bytes::Bytes;
use crate::{BUS, MEMORY_BYTES, memory};

/// Bytes of the namespace.
const IMAGE_BYTES: usize = 64 << 10;
/// Operations of a host: more make an input slow.
const MAX_OPERATIONS: usize = 400;
/// Each queue's rings lie in two pages of their own: submissions, then completions.
const RINGS: u64 = 2 * 4096;

/// A host's operations, one after the other.
fn operate(controller: &VirtualController, memory: &dyn DmaMemory, bytes: &mut Bytes) {
    let mut tails = [0u32; 4];
    for _ in 0..MAX_OPERATIONS {
        if bytes.is_empty() {
            return;
        }
        match bytes.u8() % 8 {
            0 => controller.write32(usize::from(bytes.u16()) % 0x2000, bytes.u32()),
            1 => {
                let _ = controller.read32(usize::from(bytes.u16()) % 0x2000 / 4 * 4);
            }
            2 => {
                let at = bytes.u32() as usize % (MEMORY_BYTES - 8);
                memory.memory().write(at, &bytes.u64().to_le_bytes());
            }
            3 => {
                let head = u32::from(bytes.u8());
                controller.write32(reg::cq_doorbell(u16::from(bytes.u8() % 4), 0), head);
            }
            _ => submit(controller, memory, bytes, &mut tails),
        }
    }
}

/// Writes an entry of the input's bytes, mostly with addresses that exist, and rings.
fn submit(controller: &VirtualController, memory: &dyn DmaMemory, bytes: &mut Bytes, tails: &mut [u32; 4]) {
    let qid = usize::from(bytes.u8() % 4);
    let depth = if qid == 0 { 32 } else { 16 };
    let mut entry = [0u8; 64];
    entry[0] = bytes.u8();
    entry[1] = bytes.u8();
    entry[2..4].copy_from_slice(&bytes.u16().to_le_bytes());
    entry[4] = bytes.u8();
    let near = bytes.u8();
    let bus = |bytes: &mut Bytes, near: bool| match near {
        true => BUS + u64::from(bytes.u32()) % MEMORY_BYTES as u64,
        false => bytes.u64(),
    };
    let (prp1, prp2) = (bus(bytes, near & 3 != 0), bus(bytes, near & 12 != 0));
    entry[24..32].copy_from_slice(&prp1.to_le_bytes());
    entry[32..40].copy_from_slice(&prp2.to_le_bytes());
    for word in entry[40..64].chunks_exact_mut(4) {
        word.copy_from_slice(&bytes.u32().to_le_bytes());
    }
    if qid == 0 && near & 16 == 0 && matches!(entry[0], 1 | 5) {
        // A queue of 16 entries at its known place.
        let id = 1 + u64::from(entry[4] % 3);
        let (ring, cdw11) = match entry[0] {
            5 => (BUS + RINGS * id + 4096, 1),
            _ => (BUS + RINGS * id, 1 | (id as u32) << 16),
        };
        entry[24..32].copy_from_slice(&ring.to_le_bytes());
        entry[40..44].copy_from_slice(&(id as u32 | 15 << 16).to_le_bytes());
        entry[44..48].copy_from_slice(&cdw11.to_le_bytes());
    }
    memory
        .memory()
        .write(qid * RINGS as usize + tails[qid] as usize * 64, &entry);
    tails[qid] = (tails[qid] + 1) % depth;
    controller.write32(reg::sq_doorbell(qid as u16, 0), tails[qid]);
}

/// A host that keeps to the rules finds a controller that works.
fn check(controller: VirtualController, pool: &Arc<DmaPool>, byte: u8) {
    let mut device = Device::open(Arc::new(controller), pool.clone(), DeviceOptions::default()).expect("it opens");
    let namespace = device.namespaces().expect("namespaces").remove(0);
    let mut queue = device.create_queue(8).expect("a queue");
    let buffer = pool.allocate(4096).expect("memory");
    let range = buffer.range(0, 4096).expect("inside");
    buffer.fill(byte);
    queue.write(&namespace, 8, 8, &range).expect("a write");
    buffer.fill(!byte);
    queue.read(&namespace, 8, 8, &range).expect("a read");
    assert_eq!(buffer.bytes(0, 4096), vec![byte; 4096], "the bytes written");
    device.shutdown().expect("it shuts down");
}

fn run(data: &[u8], image: &Path) {
    let mut bytes = Bytes::new(data);
    let memory = memory();
    let storage = Arc::new(WritableFile::open(image).expect("an image"));
    let options = VirtualOptions {
        serial: "fuzz".into(),
        queues: 3,
        mdts: bytes.u8() % 8,
    };
    let byte = bytes.u8();
    let controller = VirtualController::new(options, vec![Namespace::new(1, storage)], memory.clone());
    controller.write32(reg::AQA, 31 << 16 | 31);
    controller.write64(reg::ASQ, BUS);
    controller.write64(reg::ACQ, BUS + 4096);
    controller.write32(reg::CC, reg::CC_SETTINGS | reg::CC_ENABLE);
    operate(&controller, &*memory, &mut bytes);
    check(controller, &DmaPool::new(memory), byte);
}

/// The software controller against a host of the input's bytes. Afterwards another host must find it working.
///
/// # Panics
/// If the controller does not, or the image cannot be written.
pub fn any_host(data: &[u8]) {
    let image = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(image.path(), vec![7u8; IMAGE_BYTES]).expect("writable");
    run(data, image.path());
}
