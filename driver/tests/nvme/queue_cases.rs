//! Cases of rings, queue limits and order.

use std::collections::HashMap;

use grampus_driver::error::DriverError;
use grampus_driver::host::QueuePair;

use crate::Start;
use crate::machine::{Fault, MachineSetup, Rig};
use crate::random::Random;

const MIB: u64 = 1 << 20;

/// A command in flight: its buffer's slot, first block, blocks, and the bytes of a write.
struct Flight {
    slot: usize,
    slba: u64,
    blocks: u32,
    written: Option<Vec<u8>>,
}

/// Reads and writes at random with as many in flight as fit, in blocks of `part` of the namespace (of `parts`). Reads
/// are compared with the model. No two commands in flight touch the same blocks if one of them writes.
fn load(rig: &mut Rig, queue: &mut QueuePair, commands: usize, (part, parts): (u64, u64)) {
    const MAX_BLOCKS: u64 = 24;
    const SLOT: usize = 16 << 10;
    let namespace = rig.namespaces[0].clone();
    let slots = (queue.depth() as usize - 1).min(256);
    let buffer = rig.buffer(slots * SLOT);
    let (first, size) = (namespace.blocks / parts * part, namespace.blocks / parts);
    let mut free: Vec<usize> = (0..slots).collect();
    let mut flights: HashMap<u16, Flight> = HashMap::new();
    let mut random = Random(11 + part);
    let (mut sent, mut done) = (0, 0);
    while done < commands {
        while sent < commands && !free.is_empty() {
            let slba = first + random.below(size - MAX_BLOCKS);
            let blocks = 1 + random.below(MAX_BLOCKS) as u32;
            let writes = random.below(3) == 0;
            let overlaps = |f: &Flight| f.slba < slba + u64::from(blocks) && slba < f.slba + u64::from(f.blocks);
            if flights.values().any(|f| (writes || f.written.is_some()) && overlaps(f)) {
                break;
            }
            let slot = free.pop().unwrap();
            let offset = slot * SLOT + random.below(1024) as usize * 4;
            let range = buffer.range(offset, blocks as usize * 512).unwrap();
            let mut flight = Flight {
                slot: offset,
                slba,
                blocks,
                written: None,
            };
            let cid = if writes {
                let bytes: Vec<u8> = (0..range.length_bytes).map(|i| (sent * 7 + i * 3) as u8).collect();
                buffer.write(offset, &bytes);
                flight.written = Some(bytes);
                queue.submit_write(&namespace, slba, blocks, &range)
            } else {
                queue.submit_read(&namespace, slba, blocks, &range)
            };
            assert!(flights.insert(cid.unwrap(), flight).is_none(), "a command id in use");
            sent += 1;
        }
        queue.ring();
        let completed = queue.wait().unwrap();
        completed.result().unwrap();
        let flight = flights.remove(&completed.command.cid).expect("an outstanding command");
        let at = flight.slba as usize * 512;
        let length = flight.blocks as usize * 512;
        match flight.written {
            Some(bytes) => rig.model[at..at + length].copy_from_slice(&bytes),
            None => assert!(
                buffer.bytes(flight.slot, length) == rig.model[at..at + length],
                "{} blocks at {}",
                flight.blocks,
                flight.slba
            ),
        }
        free.push(flight.slot / SLOT);
        done += 1;
    }
    assert_eq!((queue.outstanding(), queue.stale_completions()), (0, 0));
}

pub(crate) fn rings_of_eight_entries_wrap_over_thousands_of_commands(start: Start) {
    let Some(machine) = start(MachineSetup::one(4 * MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let before = rig.device.smart_log().unwrap();
    load(&mut rig, &mut queue, 5000, (0, 1));
    let after = rig.device.smart_log().unwrap();
    let counted = |log: &grampus_driver::spec::SmartLog| log.read_commands + log.write_commands;
    assert_eq!(counted(&after) - counted(&before), 5000);
    rig.device.delete_queue(queue).unwrap();
    rig.finish();
}

pub(crate) fn sixteen_queue_pairs_carry_their_own_commands(start: Start) {
    let Some(machine) = start(MachineSetup::one(8 * MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queues: Vec<_> = (0..16).map(|i| rig.queue([4, 16, 64, 2][i % 4])).collect();
    assert_eq!(
        queues.iter().map(QueuePair::id).collect::<Vec<_>>(),
        (1..=16).collect::<Vec<_>>()
    );
    let namespace = rig.namespaces[0].clone();
    let buffers: Vec<_> = queues.iter().map(|_| rig.buffer(4096)).collect();
    // One command in each queue at once, taken back to front.
    for round in 0..50u64 {
        let cids: Vec<_> = queues
            .iter_mut()
            .enumerate()
            .map(|(q, queue)| {
                let slba = (round * 16 + q as u64) * 8;
                let cid = queue
                    .submit_read(&namespace, slba, 8, &buffers[q].range(0, 4096).unwrap())
                    .unwrap();
                queue.ring();
                cid
            })
            .collect();
        for q in (0..16).rev() {
            queues[q].wait_for(cids[q]).unwrap().result().unwrap();
            let slba = (round * 16 + q as u64) * 8;
            assert!(buffers[q].bytes(0, 4096) == *rig.expected(slba, 8), "queue {q}");
        }
    }
    for (q, queue) in queues.iter_mut().enumerate() {
        load(&mut rig, queue, 200, (q as u64, 16));
    }
    rig.finish();
}

pub(crate) fn queues_end_at_the_granted_number_and_come_back(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9).queues(3)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let free = rig.pool.free_pages();
    let mut queues: Vec<_> = (0..3).map(|_| rig.queue(64)).collect();
    let refused = rig.device.create_queue(64).unwrap_err();
    assert!(matches!(refused, DriverError::NoQueue { granted: 3 }), "{refused}");
    let second = queues.remove(1);
    rig.device.delete_queue(second).unwrap();
    let mut again = rig.queue(8);
    assert_eq!(again.id(), 2);
    load(&mut rig, &mut again, 100, (0, 1));
    queues.push(again);
    for queue in queues {
        rig.device.delete_queue(queue).unwrap();
    }
    assert_eq!(rig.pool.free_pages(), free, "queues give their memory back");
    rig.finish();
}

pub(crate) fn queues_longer_than_a_page_fill_up(start: Start) {
    let Some(machine) = start(MachineSetup::one(4 * MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    // A page holds 64 submissions or 256 completions.
    for entries in [65, 512, 1000, 2048] {
        let mut queue = rig.queue(entries);
        let namespace = rig.namespaces[0].clone();
        let buffer = rig.buffer(entries as usize * 512);
        for round in 0..3 {
            let mut asked = HashMap::new();
            for i in 0..entries as usize - 1 {
                let slba = (i as u64 * 37 + round * 11) % 8192;
                let range = buffer.range(i * 512, 512).unwrap();
                asked.insert(queue.submit_read(&namespace, slba, 1, &range).unwrap(), (i, slba));
            }
            queue.ring();
            while queue.outstanding() > 0 {
                let done = queue.wait().unwrap();
                done.result().unwrap();
                let (i, slba) = asked.remove(&done.command.cid).expect("asked for once");
                assert!(buffer.bytes(i * 512, 512) == *rig.expected(slba, 1));
            }
        }
        rig.device.delete_queue(queue).unwrap();
    }
    for entries in [0, 1, 2049, u32::MAX] {
        let refused = rig.device.create_queue(entries).unwrap_err();
        assert!(matches!(refused, DriverError::QueueSize { max: 2048, .. }), "{refused}");
    }
    rig.finish();
}

pub(crate) fn full_queue_refuses_and_recovers(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(4);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(4096);
    let range = |i: usize| buffer.range(i * 512, 512).unwrap();
    for i in 0..3 {
        queue.submit_read(&namespace, i, 1, &range(i as usize)).unwrap();
    }
    let refused = queue.submit_read(&namespace, 3, 1, &range(3)).unwrap_err();
    assert!(
        matches!(refused, DriverError::QueueFull { qid: 1, slots: 3 }),
        "{refused}"
    );
    queue.wait().unwrap().result().unwrap();
    queue.submit_read(&namespace, 3, 1, &range(3)).unwrap();
    for _ in 0..3 {
        queue.wait().unwrap().result().unwrap();
    }
    assert!(matches!(queue.wait(), Err(DriverError::NothingOutstanding { qid: 1 })));
    assert!(buffer.bytes(0, 2048) == *rig.expected(0, 4));
    rig.finish();
}

pub(crate) fn held_command_is_overtaken(start: Start) {
    const HELD: u64 = 100;
    let Some(machine) = start(MachineSetup::one(MIB, 9).with(&[Fault::Hold(HELD)])) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(8 * 512);
    rig.machine.hold_next_read();
    let held = queue
        .submit_read(&namespace, HELD, 1, &buffer.range(0, 512).unwrap())
        .unwrap();
    queue.ring();
    // Others pass it, through rings that wrap while it stays.
    for i in 0..30u64 {
        let slot = 1 + i as usize % 6;
        queue
            .read(&namespace, i, 1, &buffer.range(slot * 512, 512).unwrap())
            .unwrap();
        assert!(buffer.bytes(slot * 512, 512) == *rig.expected(i, 1));
        if i < 10 {
            assert_eq!(queue.outstanding(), 1, "the held read is still outstanding");
        }
    }
    rig.machine.release();
    queue.wait_for(held).unwrap().result().unwrap();
    assert!(buffer.bytes(0, 512) == *rig.expected(HELD, 1));
    rig.finish();
}
