//! Cases of errors, events, resets and shutdown.

use std::time::Duration;

use grampus_driver::error::DriverError;
use grampus_driver::host::{Device, DeviceOptions, QueuePair};
use grampus_driver::spec::registers as reg;
use grampus_driver::spec::{AsyncEvent, Opcode, StatusCode, SubmissionEntry};

use crate::Start;
use crate::machine::{Fault, MachineSetup, Rig};

const MIB: u64 = 1 << 20;

/// The status of a failed command, and its message.
fn failure(result: Result<(), DriverError>) -> (u16, String) {
    let error = result.unwrap_err();
    let message = error.to_string();
    match error {
        DriverError::Command { status, .. } => (status.0 & 0x7ff, message),
        other => panic!("not a status: {other}"),
    }
}

pub(crate) fn failed_reads_writes_and_flushes_name_the_command(start: Start) {
    let faults = [Fault::Read(40), Fault::Write(80), Fault::Flush];
    let Some(machine) = start(MachineSetup::one(MIB, 9).with(&faults)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(8192);
    let range = buffer.range(0, 8192).unwrap();
    let (code, message) = failure(queue.read(&namespace, 32, 16, &range));
    assert_eq!(code, StatusCode::UnrecoveredReadError as u16);
    let expected = "read of 16 blocks at LBA 32 of namespace 1 (queue 1, command id 0x";
    assert!(message.starts_with(expected), "{message}");
    assert!(message.contains("Unrecovered Read Error (SCT 2h, SC 81h"), "{message}");
    let (code, message) = failure(queue.write(&namespace, 80, 16, &range));
    assert_eq!(code, StatusCode::WriteFault as u16, "{message}");
    assert!(
        message.starts_with("write of 16 blocks at LBA 80 of namespace 1"),
        "{message}"
    );
    let (code, message) = failure(queue.flush(&namespace));
    assert_ne!(code, 0);
    assert!(message.starts_with("flush of namespace 1 (queue 1"), "{message}");
    // The queue goes on.
    queue.read(&namespace, 48, 16, &range).unwrap();
    assert!(buffer.bytes(0, 8192) == *rig.expected(48, 16));
    queue.write(&namespace, 60, 16, &range).unwrap();
    let (from, to) = (48 * 512, 60 * 512);
    rig.model.copy_within(from..from + 8192, to);
    rig.finish();
}

pub(crate) fn nth_read_fails_alone(start: Start) {
    const NTH: u64 = 13;
    let Some(machine) = start(MachineSetup::one(MIB, 9).with(&[Fault::NthRead(NTH)])) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(512);
    let range = buffer.range(0, 512).unwrap();
    let failed: Vec<u64> = (1..40)
        .filter(|n| match queue.read(&namespace, *n, 1, &range) {
            Ok(()) => {
                assert!(buffer.bytes(0, 512) == *rig.expected(*n, 1));
                false
            }
            Err(e) => {
                assert_eq!(failure(Err(e)).0, StatusCode::UnrecoveredReadError as u16);
                true
            }
        })
        .collect();
    assert_eq!(failed, [NTH]);
    rig.finish();
}

/// Sends an entry as it is, and returns the status.
fn raw(queue: &mut QueuePair, entry: SubmissionEntry) -> u16 {
    let cid = queue.submit(entry, None).unwrap();
    queue.wait_for(cid).unwrap().status.0 & 0x7ff
}

pub(crate) fn bad_commands_are_refused_with_their_status(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(4096);
    let good = SubmissionEntry {
        prp1: buffer.bus_address(0),
        ..SubmissionEntry::io(Opcode::Read, 1, 0, 8)
    };
    assert_eq!(raw(&mut queue, good), 0);
    for opcode in [Opcode::Read, Opcode::Write] {
        let entry = SubmissionEntry {
            prp1: buffer.bus_address(0),
            ..SubmissionEntry::io(opcode, 1, namespace.blocks - 7, 8)
        };
        assert_eq!(raw(&mut queue, entry), StatusCode::LbaOutOfRange as u16, "{opcode:?}");
        let entry = SubmissionEntry {
            slba: u64::MAX - 3,
            ..entry
        };
        assert_eq!(
            raw(&mut queue, entry),
            StatusCode::LbaOutOfRange as u16,
            "{opcode:?} wraps"
        );
    }
    let entry = SubmissionEntry { opc: 0x7f, ..good };
    assert_eq!(raw(&mut queue, entry), StatusCode::InvalidOpcode as u16);
    let entry = SubmissionEntry { nsid: 9, ..good };
    assert!([StatusCode::InvalidNamespace as u16, StatusCode::InvalidField as u16].contains(&raw(&mut queue, entry)));
    // 16 blocks in two pages, and the second one has an offset.
    let entry = SubmissionEntry {
        prp2: buffer.bus_address(0) + 8,
        cdw12: 15,
        ..good
    };
    assert_eq!(raw(&mut queue, entry), StatusCode::InvalidPrpOffset as u16);
    // More than MDTS.
    let entry = SubmissionEntry { cdw12: 256, ..good };
    assert_eq!(raw(&mut queue, entry), StatusCode::InvalidField as u16);
    // The driver itself refuses what it can see.
    let range = buffer.range(0, 4096).unwrap();
    for (slba, blocks) in [(namespace.blocks - 7, 8), (u64::MAX, 8), (0, 0)] {
        let refused = queue.submit_read(&namespace, slba, blocks, &range).unwrap_err();
        assert!(matches!(refused, DriverError::BlockRange { .. }), "{refused}");
    }
    let refused = queue.submit_read(&namespace, 0, 7, &range).unwrap_err();
    assert!(matches!(refused, DriverError::DataLength { .. }), "{refused}");
    let long = rig.buffer(257 * 512);
    let refused = queue
        .submit_read(&namespace, 0, 257, &long.range(0, 257 * 512).unwrap())
        .unwrap_err();
    assert!(matches!(refused, DriverError::DataLength { .. }), "{refused}");
    assert!(buffer.range(1, 4096).is_err());
    queue.read(&namespace, 16, 8, &range).unwrap();
    assert!(buffer.bytes(0, 4096) == *rig.expected(16, 8));
    rig.finish();
}

pub(crate) fn reset_with_commands_in_flight(start: Start) {
    const HELD: u64 = 100;
    let Some(machine) = start(MachineSetup::one(MIB, 9).with(&[Fault::Hold(HELD)])) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let free = rig.pool.free_pages();
    let namespace = rig.namespaces[0].clone();
    {
        let mut queue = rig.queue(8);
        let buffer = rig.buffer(4096);
        rig.machine.hold_next_read();
        queue
            .submit_read(&namespace, HELD, 1, &buffer.range(0, 512).unwrap())
            .unwrap();
        for i in 1..7 {
            queue
                .submit_read(&namespace, i, 1, &buffer.range(i as usize * 512, 512).unwrap())
                .unwrap();
        }
        queue.ring();
        queue.wait().unwrap().result().unwrap();
        // A controller's reset waits for its backend: QEMU drains it.
        rig.machine.release();
        rig.device.reset().unwrap();
        let gone = queue.poll().unwrap_err();
        assert!(matches!(gone, DriverError::QueueGone { qid: 1 }), "{gone}");
        assert!(queue.submit(SubmissionEntry::io(Opcode::Flush, 1, 0, 0), None).is_err());
    }
    assert_eq!(rig.pool.free_pages(), free, "a reset frees queues and data");
    let mut queue = rig.queue(8);
    let buffer = rig.buffer(4096);
    for i in 0..100 {
        queue
            .read(&namespace, i * 8, 8, &buffer.range(0, 4096).unwrap())
            .unwrap();
        assert!(buffer.bytes(0, 4096) == *rig.expected(i * 8, 8));
    }
    rig.finish();
}

fn wait_for_events(device: &mut Device) -> Vec<AsyncEvent> {
    for _ in 0..2000 {
        let events = device.events().unwrap();
        if !events.is_empty() {
            return events;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("no event");
}

pub(crate) fn bad_doorbells_are_reported_as_events(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    rig.device.watch_events().unwrap();
    let mut queue = rig.queue(8);
    let registers = rig.machine.registers(0);
    assert_eq!(rig.device.events().unwrap(), []);
    // An index outside the ring.
    registers.write32(reg::sq_doorbell(1, 0), 8);
    let kinds = |events: Vec<AsyncEvent>| events.iter().map(|e| e.kind()).collect::<Vec<_>>();
    assert_eq!(
        kinds(wait_for_events(&mut rig.device)),
        [AsyncEvent::INVALID_DOORBELL_VALUE]
    );
    // A queue that does not exist.
    registers.write32(reg::sq_doorbell(7, 0), 1);
    assert_eq!(
        kinds(wait_for_events(&mut rig.device)),
        [AsyncEvent::INVALID_DOORBELL_REGISTER]
    );
    registers.write32(reg::cq_doorbell(1, 0), 8);
    assert_eq!(
        kinds(wait_for_events(&mut rig.device)),
        [AsyncEvent::INVALID_DOORBELL_VALUE]
    );
    // The queue goes on: wrong values changed nothing.
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(4096);
    for i in 0..20 {
        queue.read(&namespace, i, 8, &buffer.range(0, 4096).unwrap()).unwrap();
        assert!(buffer.bytes(0, 4096) == *rig.expected(i, 8));
    }
    rig.finish();
}

pub(crate) fn fatal_controller_recovers(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let options = DeviceOptions {
        command_timeout: Some(Duration::from_secs(20)),
        ..Default::default()
    };
    let mut rig = Rig::open_with(machine, options);
    rig.device.watch_events().unwrap();
    assert!(!rig.device.recover().unwrap(), "a sound controller is left alone");
    let mut queue = rig.queue(8);
    let namespace = rig.namespaces[0].clone();
    let buffer = rig.buffer(4096);
    let range = buffer.range(0, 4096).unwrap();
    queue.read(&namespace, 0, 8, &range).unwrap();
    // Another agent enables the controller with a ring at an address that is not aligned: a fatal error.
    let registers = rig.machine.registers(0);
    registers.write32(reg::CC, 0);
    registers.write64(reg::ASQ, 0x1001);
    registers.write32(reg::CC, reg::CC_SETTINGS | reg::CC_ENABLE);
    assert!(rig.device.status().unwrap().is_fatal());
    let failed = queue.read(&namespace, 0, 8, &range).unwrap_err();
    assert!(matches!(failed, DriverError::Fatal { .. }), "{failed}");
    assert!(
        failed.to_string().contains("during read of 8 blocks at LBA 0"),
        "{failed}"
    );
    assert!(rig.device.recover().unwrap());
    assert!(matches!(queue.poll(), Err(DriverError::QueueGone { qid: 1 })));
    let mut queue = rig.queue(8);
    queue.read(&namespace, 8, 8, &range).unwrap();
    assert!(buffer.bytes(0, 4096) == *rig.expected(8, 8));
    rig.finish();
}

pub(crate) fn health_warning_is_reported_as_an_event(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    rig.device.watch_events().unwrap();
    assert_eq!(rig.device.smart_log().unwrap().critical_warning, 0);
    rig.machine.warn(4);
    let events = wait_for_events(&mut rig.device);
    assert_eq!(
        (events[0].kind().0, events[0].log_page()),
        (1, 2),
        "a SMART event and its page"
    );
    assert_eq!(rig.device.smart_log().unwrap().critical_warning, 4);
    rig.finish();
}

pub(crate) fn shutdown_leaves_a_controller_that_opens_again(start: Start) {
    let Some(machine) = start(MachineSetup::one(MIB, 9)) else {
        return;
    };
    let mut rig = Rig::open(machine);
    let namespace = rig.namespaces[0].clone();
    for round in 0..3u64 {
        let mut queue = rig.queue(8);
        let buffer = rig.buffer(4096);
        buffer.fill(round as u8);
        queue
            .write(&namespace, round * 8, 8, &buffer.range(0, 4096).unwrap())
            .unwrap();
        rig.model[round as usize * 4096..][..4096].fill(round as u8);
        let Rig {
            device, machine, model, ..
        } = rig;
        device.shutdown().unwrap();
        let status = reg::ControllerStatus(machine.registers(0).read32(reg::CSTS));
        assert!(!status.is_ready());
        rig = Rig::open(machine);
        rig.model = model;
    }
    rig.finish();
}
