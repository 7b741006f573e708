//! [`FuzzedController`]: registers and completions of an input's bytes. Without bytes it answers so that a driver goes
//! on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use grampus_driver::host::{DataPointers, Device, DeviceOptions, DmaMemory, DmaPool, MappedMemory};
use grampus_driver::registers::Registers;
use grampus_driver::spec::registers as reg;

use crate::bytes::Bytes;
use crate::{memory, offset_of};

/// CAP without bytes: 256 entries, contiguous rings, the NVM command set. TO stays: half a second.
const CAP_LOW: u32 = 0x0101_00ff;
const CAP_HIGH: u32 = 0x20;
/// Bits of CAP's low half that an input changes: MQES, CQR, AMS. A longer TO is a longer wait, by right.
const CAP_FUZZED: u32 = 0x0007_ffff;
/// Identify, and log page: commands with data of a page.
const IDENTIFY: u8 = 0x06;
const LOG_PAGE: u8 = 0x02;
const CREATE_SQ: u8 = 0x01;
const CREATE_CQ: u8 = 0x05;
const SET_FEATURES: u8 = 0x09;
const EVENT_REQUEST: u8 = 0x0c;

/// A queue pair: ring addresses, entries, and the positions of the controller.
#[derive(Debug, Default, Clone, Copy)]
struct Ring {
    sq: u64,
    cq: u64,
    entries: u32,
    head: u32,
    posted: u32,
}

#[derive(Debug)]
struct State {
    bytes: Bytes,
    cc: u32,
    rings: HashMap<u16, Ring>,
}

#[derive(Debug)]
struct FuzzedController {
    memory: Arc<MappedMemory>,
    state: Mutex<State>,
}

impl FuzzedController {
    fn write(&self, bus: u64, bytes: &[u8]) {
        if let Some(at) = offset_of(bus, bytes.len()) {
            self.memory.memory().write(at, bytes);
        }
    }

    /// Takes the entries up to a tail, and completes them.
    fn take(&self, state: &mut State, qid: u16, tail: u32) {
        let Some(mut ring) = state.rings.get(&qid).copied() else {
            return;
        };
        for _ in 0..ring.entries {
            if ring.head == tail % ring.entries.max(1) {
                break;
            }
            self.answer(state, qid, &mut ring);
            ring.head = (ring.head + 1) % ring.entries;
        }
        state.rings.insert(qid, ring);
    }

    /// Answers the entry at the ring's head.
    fn answer(&self, state: &mut State, qid: u16, ring: &mut Ring) {
        let mut entry = [0; 64];
        let Some(at) = offset_of(ring.sq + u64::from(ring.head) * 64, 64) else {
            return;
        };
        self.memory.memory().read(at, &mut entry);
        let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
        let data = u64::from(word(24)) | u64::from(word(28)) << 32;
        let opcode = entry[0];
        if qid == 0 {
            self.admin(state, opcode, word(40), data);
        }
        if (qid == 0 && opcode == EVENT_REQUEST) || state.bytes.is_wild() {
            return; // a command that never ends
        }
        let wild = state.bytes.is_wild();
        let cid = if wild {
            u32::from(state.bytes.u16())
        } else {
            word(0) >> 16
        };
        let status = if state.bytes.is_wild() {
            u32::from(state.bytes.u16()) & 0x7fff
        } else {
            0
        };
        let phase = u32::from((ring.posted / ring.entries).is_multiple_of(2) ^ state.bytes.is_wild());
        let result = if qid == 0 && opcode == SET_FEATURES {
            0x0003_0003
        } else {
            state.bytes.u32()
        };
        let words = [result, 0, state.bytes.u32(), cid | phase << 16 | status << 17];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.write(ring.cq + u64::from(ring.posted % ring.entries) * 16, &bytes);
        ring.posted += 1;
    }

    /// An admin command's effect: data, or a queue's ring.
    fn admin(&self, state: &mut State, opcode: u8, cdw10: u32, data: u64) {
        match opcode {
            IDENTIFY | LOG_PAGE => {
                let mut page = vec![0u8; 4096];
                page[0..8].copy_from_slice(&4096u64.to_le_bytes());
                page[130] = 9; // LBA format 0: blocks of 512
                page[512..514].copy_from_slice(&[0x66, 0x44]);
                while state.bytes.is_wild() {
                    let at = usize::from(state.bytes.u16()) % page.len();
                    page[at] = state.bytes.u8();
                }
                page[88..92].fill(0); // RTD3E: a longer one is a longer wait, by right
                self.write(data, &page);
            }
            CREATE_CQ | CREATE_SQ => {
                let ring = state.rings.entry(cdw10 as u16).or_default();
                ring.entries = (cdw10 >> 16) + 1;
                match opcode {
                    CREATE_CQ => ring.cq = data,
                    _ => ring.sq = data,
                }
            }
            _ => {}
        }
    }
}

impl Registers for FuzzedController {
    fn length_bytes(&self) -> usize {
        0x1000 + 4096
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wild = state.bytes.is_wild();
        match (offset, wild) {
            (reg::CAP, true) => CAP_LOW & !CAP_FUZZED | state.bytes.u32() & CAP_FUZZED,
            (_, true) => state.bytes.u32(),
            (reg::CAP, _) => CAP_LOW,
            (0x04, _) => CAP_HIGH,
            (reg::CC, _) => state.cc,
            (reg::CSTS, _) => state.cc & 1 | if state.cc >> 14 & 3 != 0 { 2 << 2 } else { 0 },
            _ => 0,
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let admin = state.rings.entry(0).or_default();
        match offset {
            reg::CC => {
                state.cc = value;
                let (sq, cq, entries) = (state.rings[&0].sq, state.rings[&0].cq, state.rings[&0].entries);
                state.rings.clear();
                let ring = Ring {
                    sq,
                    cq,
                    entries,
                    ..Ring::default()
                };
                state.rings.insert(0, ring);
            }
            reg::AQA => admin.entries = (value & 0xfff) + 1,
            reg::ASQ => admin.sq = u64::from(value),
            0x2c => admin.sq |= u64::from(value) << 32,
            reg::ACQ => admin.cq = u64::from(value),
            0x34 => admin.cq |= u64::from(value) << 32,
            // Tails are at even places of the doorbells. The stride is 4 unless an input has changed CAP.
            _ if offset >= reg::DOORBELLS && (offset - reg::DOORBELLS).is_multiple_of(8) => {
                let qid = ((offset - reg::DOORBELLS) / 8) as u16;
                self.take(&mut state, qid, value);
            }
            _ => {}
        }
    }
}

/// Everything that the driver does, until the controller's answers end it.
fn drive(registers: Arc<dyn Registers>, pool: &Arc<DmaPool>, choices: u8) -> Option<()> {
    let options = DeviceOptions {
        pointers: match choices & 1 {
            0 => DataPointers::Prp,
            _ => DataPointers::Sgl,
        },
        queues: u16::from(choices >> 1 & 3),
        command_timeout: Some(Duration::from_millis(1)),
    };
    let mut device = Device::open(registers, pool.clone(), options).ok()?;
    let namespaces = device.namespaces().unwrap_or_default();
    let _ = (device.watch_events(), device.smart_log());
    for entries in [2, 8, 200] {
        if let Ok(mut queue) = device.create_queue(entries) {
            queue.set_timeout(Duration::from_millis(1));
            let buffer = pool.allocate(32 << 10).ok()?;
            for namespace in namespaces.iter().take(3) {
                let bytes = 8usize << namespace.format.lba_log2.min(12);
                let range = buffer.range(0, bytes).ok()?;
                for slba in [0, 7, 4096] {
                    let _ = queue.read(namespace, slba, 8, &range);
                    let _ = queue.write(namespace, slba, 8, &range);
                }
                let _ = queue.flush(namespace);
            }
            let _ = queue.poll();
            if choices & 8 != 0 {
                let _ = device.delete_queue(queue);
            }
        }
        let _ = device.events();
        if choices & 16 != 0 {
            let _ = device.recover();
        }
    }
    device.shutdown().ok()
}

/// The driver against a controller whose answers are the input's bytes. The first byte chooses what the driver does.
///
/// # Panics
/// If the driver loses pages of the shared memory, or an input without bytes does not get to its end.
pub fn any_controller(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let choices = bytes.u8();
    let plain = bytes.is_empty();
    let memory = memory();
    let pool = DmaPool::new(memory.clone());
    let state = Mutex::new(State {
        bytes,
        cc: 0,
        rings: HashMap::new(),
    });
    let reached_end = drive(Arc::new(FuzzedController { memory, state }), &pool, choices).is_some();
    if plain {
        assert!(reached_end, "a controller that answers well");
        assert_eq!(pool.free_pages(), pool.memory().pages(), "pages are lost");
    }
}
