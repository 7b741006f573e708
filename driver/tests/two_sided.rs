//! Either side of the queues against a peer that keeps to no rule: the driver against a random controller, and the
//! software controller against a random host. Neither may panic, hang, or lose memory.
//!
//! A failing case prints its seed. `GRAMPUS_TEST_SEED` replays it, `GRAMPUS_TEST_CASES` runs more cases.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use grampus_driver::controller::{Namespace, VirtualController, VirtualOptions};
use grampus_driver::host::{DataPointers, Device, DeviceOptions, DmaMemory, DmaPool, MappedMemory};
use grampus_driver::raw::SharedMemory;
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers as reg;
use grampus_driver::spec::{Opcode, SubmissionEntry};
use grampus_driver::storage::WritableFile;

const MEMORY_BYTES: usize = 2 << 20;
const BUS: u64 = 0x4_0000_0000;

/// Splitmix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn seeds(cases: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("GRAMPUS_TEST_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("GRAMPUS_TEST_CASES").unwrap_or(cases)).collect(),
    }
}

fn memory() -> Arc<MappedMemory> {
    let memory = SharedMemory::anonymous(MEMORY_BYTES).expect("memory");
    Arc::new(MappedMemory::linear(memory, BUS))
}

/// A controller that answers as a seed says: mostly so that the driver goes on, and now and then with anything.
#[derive(Debug)]
struct RandomController {
    memory: Arc<MappedMemory>,
    state: Mutex<RandomState>,
}

#[derive(Debug)]
struct RandomState {
    random: Random,
    /// One answer in so many is anything.
    wild_one_in: u64,
    cc: u32,
    asq: u64,
    acq: u64,
    admin_head: u32,
    posted: u32,
}

impl RandomController {
    fn at(&self, bus: u64, length: u64) -> Option<usize> {
        let offset = bus.checked_sub(BUS)?;
        (offset.checked_add(length)? <= MEMORY_BYTES as u64).then_some(offset as usize)
    }

    /// Answers an admin command that lies at an index of the ring.
    fn answer(&self, state: &mut RandomState, index: u32) {
        let mut entry = [0; 64];
        let Some(at) = self.at(state.asq + u64::from(index) * 64, 64) else {
            return;
        };
        self.memory.memory().read(at, &mut entry);
        let opcode = entry[0];
        let data = u64::from_le_bytes(entry[24..32].try_into().unwrap());
        if let (0x02 | 0x06, Some(to)) = (opcode, self.at(data, 4096)) {
            // Identify data and log pages: zeros, small numbers, or anything.
            let mut bytes = vec![0u8; 4096];
            match state.random.below(3) {
                0 => bytes.iter_mut().for_each(|b| *b = state.random.next() as u8),
                1 => bytes.iter_mut().for_each(|b| *b = state.random.below(3) as u8),
                _ => {}
            }
            if !state.random.one_in(state.wild_one_in) {
                bytes[512..514].copy_from_slice(&[0x66, 0x44]);
                bytes[0..8].copy_from_slice(&4096u64.to_le_bytes());
                bytes[8..16].fill(0);
                bytes[130] = 9;
            }
            self.memory.memory().write(to, &bytes);
        }
        if opcode == 0x0c || state.random.one_in(state.wild_one_in * 2) {
            return; // an event that never comes, or a command that never ends
        }
        let wild = state.random.one_in(state.wild_one_in);
        let cid = if wild {
            state.random.next() as u16
        } else {
            u16::from_le_bytes([entry[2], entry[3]])
        };
        let status = if state.random.one_in(state.wild_one_in) {
            state.random.next() as u16 & 0x7fff
        } else {
            0
        };
        let phase = (state.posted / 32).is_multiple_of(2) ^ state.random.one_in(state.wild_one_in * 4);
        let dw0 = if opcode == 0x09 && !wild {
            0x0003_0003
        } else {
            state.random.next() as u32
        };
        let mut completion = [0u8; 16];
        completion[0..4].copy_from_slice(&dw0.to_le_bytes());
        completion[8..12].copy_from_slice(&(state.random.next() as u32).to_le_bytes());
        completion[12..14].copy_from_slice(&cid.to_le_bytes());
        completion[14..16].copy_from_slice(&(status << 1 | u16::from(phase)).to_le_bytes());
        let index = state.posted % 32;
        state.posted += 1;
        if let Some(at) = self.at(state.acq + u64::from(index) * 16, 16) {
            self.memory.memory().write(at, &completion);
        }
    }
}

impl Registers for RandomController {
    fn length_bytes(&self) -> usize {
        0x1000 + 4096
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut state = self.state.lock().unwrap();
        let chance = state.wild_one_in * 8;
        if state.random.one_in(chance) {
            return state.random.next() as u32;
        }
        match offset {
            reg::CAP => 0x0101_00ff,
            0x04 => 0x20,
            reg::CC => state.cc,
            reg::CSTS => state.cc & 1 | if state.cc >> 14 & 3 != 0 { 2 << 2 } else { 0 },
            _ => state.random.next() as u32,
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        let mut state = self.state.lock().unwrap();
        match offset {
            reg::CC => {
                state.cc = value;
                (state.admin_head, state.posted) = (0, 0);
            }
            reg::ASQ => state.asq = u64::from(value),
            0x2c => state.asq |= u64::from(value) << 32,
            reg::ACQ => state.acq = u64::from(value),
            0x34 => state.acq |= u64::from(value) << 32,
            0x1000 => {
                while state.admin_head != value % 32 {
                    let index = state.admin_head;
                    self.answer(&mut state, index);
                    state.admin_head = (index + 1) % 32;
                }
            }
            // A doorbell of an I/O queue: completions out of nowhere, anywhere in the memory.
            _ => {
                for _ in 0..state.random.below(4) {
                    let at = state.random.below(MEMORY_BYTES as u64 / 16) as usize * 16;
                    let words = [state.random.next(), state.random.next()];
                    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                    self.memory.memory().write(at, &bytes);
                }
            }
        }
    }
}

/// Everything that the driver does, until the controller's answers end it.
fn drive(registers: Arc<dyn Registers>, pool: &Arc<DmaPool>, random: &mut Random) -> Result<(), String> {
    let options = DeviceOptions {
        pointers: if random.one_in(2) {
            DataPointers::Sgl
        } else {
            DataPointers::Prp
        },
        queues: random.below(5) as u16,
        command_timeout: Some(Duration::from_millis(3)),
    };
    let open = Device::open(registers, pool.clone(), options);
    let mut device = open.map_err(|e| e.to_string())?;
    let mut failures = Vec::new();
    let namespaces = device.namespaces().unwrap_or_default();
    failures.extend(device.watch_events().err());
    failures.extend(device.smart_log().err());
    for _ in 0..random.below(4) {
        match device.create_queue(2 + random.below(200) as u32) {
            Err(e) => failures.push(e),
            Ok(mut queue) => {
                queue.set_timeout(Duration::from_millis(1));
                let buffer = pool.allocate(32 << 10).map_err(|e| e.to_string())?;
                for namespace in &namespaces {
                    let blocks = 1 + random.below(8) as u32;
                    let bytes = (blocks as usize) << namespace.format.lba_log2.min(12);
                    let range = buffer.range(0, bytes).map_err(|e| e.to_string())?;
                    failures.extend(queue.read(namespace, random.below(5000), blocks, &range).err());
                    failures.extend(queue.flush(namespace).err());
                }
                failures.extend(queue.poll().err());
                if random.one_in(2) {
                    failures.extend(device.delete_queue(queue).err());
                }
            }
        }
        failures.extend(device.events().err());
        if random.one_in(3) {
            failures.extend(device.recover().err());
        }
    }
    // Every failure has words.
    assert!(failures.iter().all(|e| !e.to_string().is_empty()));
    if random.one_in(2) {
        device.shutdown().map_err(|e| e.to_string())?;
    }
    Ok(())
}

#[test]
fn driver_survives_any_controller() {
    let mut opened = 0;
    for seed in seeds(150) {
        let began = Instant::now();
        println!("seed {seed}");
        let mut random = Random(seed);
        let memory = memory();
        let pool = DmaPool::new(memory.clone());
        let controller = Arc::new(RandomController {
            memory,
            state: Mutex::new(RandomState {
                wild_one_in: [1 << 40, 30, 8, 3][random.below(4) as usize],
                random: Random(seed * 31),
                cc: 0,
                asq: 0,
                acq: 0,
                admin_head: 0,
                posted: 0,
            }),
        });
        match drive(controller.clone(), &pool, &mut random) {
            Ok(()) => opened += 1,
            Err(e) => println!("{e}"),
        }
        println!("{:?}", began.elapsed());
    }
    assert!(opened > 0, "some controllers must get as far as the end");
}

/// Set by a panic of any thread.
static PANICKED: AtomicBool = AtomicBool::new(false);

#[test]
fn software_controller_survives_any_host() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICKED.store(true, Ordering::SeqCst);
        before(info);
    }));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("image");
    let commands = AtomicU64::new(0);
    for seed in seeds(60) {
        println!("seed {seed}");
        std::fs::write(&path, vec![7u8; 1 << 20]).expect("writable");
        let mut random = Random(seed);
        let memory = memory();
        let storage = Arc::new(WritableFile::open(&path).expect("an image"));
        let options = VirtualOptions {
            serial: "fuzz".into(),
            queues: 3,
            mdts: random.below(8) as u8,
        };
        let controller = VirtualController::new(options, vec![Namespace::new(1, storage)], memory.clone());
        // The first pages hold rings at known addresses, the others anything.
        let bus = |random: &mut Random| match random.below(8) {
            0 => random.next(),
            1 => BUS + random.below(MEMORY_BYTES as u64 + 8192),
            _ => BUS + random.below(MEMORY_BYTES as u64 / 4096) * 4096,
        };
        for offset in (0..MEMORY_BYTES).step_by(8) {
            // PRP lists and SGLs of addresses that exist, mostly.
            let word = if random.one_in(2) {
                bus(&mut random)
            } else {
                random.next() >> random.below(64)
            };
            memory.memory().write(offset, &word.to_le_bytes());
        }
        controller.write32(reg::AQA, 31 << 16 | 31);
        controller.write64(reg::ASQ, BUS);
        controller.write64(reg::ACQ, BUS + 4096);
        controller.write32(reg::CC, reg::CC_SETTINGS | reg::CC_ENABLE);
        let mut tails = [0u32; 4];
        for _ in 0..300 {
            let qid = random.below(4) as usize;
            let depth = if qid == 0 { 32 } else { 16 };
            let mut entry = SubmissionEntry::io(Opcode::Read, 1, random.below(2100), 1 + random.below(64) as u32);
            entry.opc = match (qid, random.below(6)) {
                (_, 0) => random.next() as u8,
                (0, _) => [0, 1, 2, 4, 5, 6, 9, 10, 12][random.below(9) as usize],
                _ => [0, 1, 2, 8][random.below(4) as usize],
            };
            entry.cid = random.next() as u16;
            entry.flags = [0, 0, 0x40, 0x80, 1][random.below(5) as usize];
            (entry.prp1, entry.prp2) = (bus(&mut random), bus(&mut random));
            if random.one_in(3) {
                entry.prp2 = [0u64, 2, 3, 9][random.below(4) as usize] << 60 | random.below(5000);
            }
            if qid == 0 && matches!(entry.opc, 1 | 5) {
                // Queues of 16 entries at known places, mostly.
                let id = 1 + random.below(3);
                let size = if random.one_in(8) { random.below(70_000) } else { 15 };
                let rest = if entry.opc == 1 { 1 | id << 16 } else { 1 };
                entry.slba = id | size << 16 | rest << 32;
                entry.prp1 = BUS + 8192 * id + if entry.opc == 5 { 4096 } else { 0 };
            }
            let ring = if qid == 0 { 0 } else { 8192 * qid };
            memory
                .memory()
                .write(ring + tails[qid] as usize * 64, zerocopy::IntoBytes::as_bytes(&entry));
            tails[qid] = (tails[qid] + 1) % depth;
            let value = if random.one_in(20) {
                random.next() as u32
            } else {
                tails[qid]
            };
            controller.write32(reg::sq_doorbell(qid as u16, 0), value);
            if random.one_in(2) {
                controller.write32(reg::cq_doorbell(qid as u16, 0), random.below(u64::from(depth)) as u32);
            }
            if random.one_in(150) {
                controller.write32(random.below(0x2000) as usize, random.next() as u32);
            }
            commands.fetch_add(1, Ordering::Relaxed);
        }
        // A host that keeps to the rules finds a controller that works.
        let pool = DmaPool::new(memory);
        let mut device = Device::open(Arc::new(controller), pool.clone(), DeviceOptions::default()).expect("it opens");
        let namespace = device.namespaces().expect("namespaces").remove(0);
        let mut queue = device.create_queue(8).expect("a queue");
        let buffer = pool.allocate(4096).expect("memory");
        let range = buffer.range(0, 4096).expect("inside");
        buffer.fill(seed as u8);
        queue.write(&namespace, 8, 8, &range).expect("a write");
        buffer.fill(0);
        queue.read(&namespace, 8, 8, &range).expect("a read");
        assert_eq!(buffer.bytes(0, 4096), vec![seed as u8; 4096], "seed {seed}");
        device.shutdown().expect("it shuts down");
        assert!(!PANICKED.load(Ordering::SeqCst), "seed {seed}: a thread panicked");
    }
    println!("{} commands", commands.load(Ordering::Relaxed));
}
