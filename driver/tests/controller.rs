//! The software controller against the host's side of the queues on CPU threads. Every byte is compared with its
//! address, rings are tiny so that they wrap all the time, and faults are injected by pattern.
#![allow(unsafe_code)]

mod support;

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use grampus_driver::controller::{Controller, ControllerOptions, Namespace};
use grampus_driver::error::ControllerError;
use grampus_driver::spec::{Status, StatusCode, SubmissionEntry};
use grampus_driver::storage::{
    CachedFile, FaultAction, FaultRule, FaultyStorage, MappedFile, MemoryStorage, NullStorage, Replicated, Storage,
    Striped,
};
use support::{Arena, HostQueue, TestBus, byte_at, pattern};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(20);
const SLOT: usize = 8192;

/// Fields drop in this order: the controller stops before the queues that it looks at are freed.
struct Rig {
    controller: Controller,
    queues: Vec<HostQueue>,
    bus: Arc<TestBus>,
}

fn rig(storage: Arc<dyn Storage>, queues: usize, depth_log2: u32, threads: usize) -> Rig {
    let arena = |slots: usize| Arc::new(Arena::new(slots * SLOT));
    let slots = queues << depth_log2;
    let bus = Arc::new(TestBus {
        host: arena(slots),
        device: arena(slots.max(64)),
        staging_bytes: 64 << 10,
    });
    let queues: Vec<_> = (0..queues).map(|_| HostQueue::new(depth_log2)).collect();
    let setups = queues.iter().enumerate().map(|(i, q)| q.setup(i as u16 + 1)).collect();
    let namespaces = vec![Namespace::new(1, storage)];
    let options = ControllerOptions { threads, depth: 16 };
    let controller = Controller::start(setups, namespaces, bus.clone(), &options).unwrap();
    controller.resume();
    Rig {
        bus,
        queues,
        controller,
    }
}

fn memory(len: usize) -> Arc<dyn Storage> {
    Arc::new(MemoryStorage::new(pattern(0, len)))
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// Runs `commands` reads of 1–16 blocks through one queue, with as many in flight as fit; returns the statuses of
/// failed reads.
fn hammer(q: &mut HostQueue, bus: &TestBus, first_slot: usize, depth: usize, size: u64, commands: u32) -> Vec<Status> {
    let mut seed = 0x1234_5678 + first_slot as u64;
    let mut free: Vec<usize> = (0..depth - 1).collect();
    let mut what = vec![(0u64, 0u32); depth];
    let (mut sent, mut failed, mut done) = (0, Vec::new(), 0);
    while done < commands {
        let mut batch = Vec::new();
        while sent < commands
            && let Some(slot) = free.pop()
        {
            let blocks = 1 + (random(&mut seed) % 16) as u32;
            let lba = random(&mut seed) % (size / 512 - u64::from(blocks));
            let at = bus.host.address() + ((first_slot + slot) * SLOT) as u64;
            batch.push(SubmissionEntry::read(slot as u16, 1, lba, blocks, at, at + 4096));
            what[slot] = (lba, blocks);
            sent += 1;
        }
        if !batch.is_empty() {
            q.submit(&batch);
        }
        let (cid, status) = q.reap_within(LONG).expect("a completion");
        done += 1;
        let (lba, blocks) = what[cid as usize];
        if status.is_success() {
            let got = bus
                .host
                .bytes((first_slot + cid as usize) * SLOT, blocks as usize * 512);
            assert_eq!(
                got,
                pattern(lba * 512, blocks as usize * 512),
                "lba {lba}, {blocks} blocks"
            );
        } else {
            failed.push(status);
        }
        free.push(cid as usize);
    }
    failed
}

#[test]
fn tiny_queues_wrap_on_several_threads() {
    let size = 1 << 20;
    let mut rig = rig(memory(size), 3, 2, 2);
    let bus = rig.bus.clone();
    std::thread::scope(|scope| {
        for (i, q) in rig.queues.iter_mut().enumerate() {
            let bus = &bus;
            scope.spawn(move || assert!(hammer(q, bus, i * 4, 4, size as u64, 3000).is_empty()));
        }
    });
    rig.controller.rest(SECOND).unwrap();
    let counters = rig.controller.counters();
    assert_eq!((counters.commands, counters.errors), (9000, 0));
}

/// A deadlock of a query: two warps waited for a read of one queue. Its completion stood behind one of another queue
/// with a full ring, and only the same two warps would have emptied that ring.
#[test]
fn full_completion_ring_does_not_delay_other_queues() {
    let mut rig = rig(memory(1 << 16), 2, 2, 1);
    let read = |slot: usize| {
        let at = rig.bus.host.address() + (slot * SLOT) as u64;
        SubmissionEntry::read(slot as u16, 1, 0, 1, at, at + 4096)
    };
    let (first, second) = ([read(0), read(1), read(2)], [read(3)]);
    rig.queues[0].submit(&first);
    while rig.controller.counters().commands < 3 {
        std::thread::yield_now(); // three completions are a full ring of four
    }
    rig.queues[0].submit(&second);
    while rig.controller.counters().commands < 4 {
        std::thread::yield_now();
    }
    rig.queues[1].submit(&[read(4)]);
    let (cid, status) = rig.queues[1].reap_within(LONG).expect("nothing stands before it");
    assert!(cid == 4 && status.is_success());
    for cid in 0..4 {
        assert_eq!(rig.queues[0].reap_within(LONG).expect("in order").0, cid);
    }
}

#[test]
fn namespaces_change_while_threads_run_and_while_they_rest() {
    let mut rig = rig(memory(1 << 16), 2, 3, 2);
    let bus = rig.bus.clone();
    let at = bus.host.address();
    let mut ask = |queue: usize, nsid| {
        rig.queues[queue].submit(&[SubmissionEntry::read(1, nsid, 3, 1, at, at + 4096)]);
        rig.queues[queue].reap_within(LONG).expect("a completion").1
    };
    let namespace = |nsid, seed: usize| {
        let storage = MemoryStorage::new(pattern(seed as u64, 1 << 14));
        Namespace::new(nsid, Arc::new(storage))
    };
    assert!(ask(0, 1).is_success());
    assert!(!ask(0, 2).is_success());
    rig.controller
        .set_namespaces(vec![namespace(2, 512), namespace(3, 1024)], SECOND)
        .unwrap();
    for queue in [0, 1] {
        assert!(!ask(queue, 1).is_success(), "it is gone");
        assert!(ask(queue, 2).is_success());
        assert_eq!(bus.host.bytes(0, 512), pattern(512 + 3 * 512, 512));
        assert!(ask(queue, 3).is_success());
        assert_eq!(bus.host.bytes(0, 512), pattern(1024 + 3 * 512, 512));
    }
    rig.controller.rest(SECOND).unwrap();
    rig.controller.set_namespaces(vec![namespace(4, 0)], SECOND).unwrap();
    rig.controller.rest(SECOND).unwrap();
    rig.queues.iter_mut().for_each(support::HostQueue::reset);
    rig.controller.resume();
    let mut ask = |queue: usize, nsid| {
        rig.queues[queue].submit(&[SubmissionEntry::read(1, nsid, 3, 1, at, at + 4096)]);
        rig.queues[queue].reap_within(LONG).expect("a completion").1
    };
    assert!(ask(1, 4).is_success());
    assert!(!ask(1, 3).is_success());
}

#[test]
fn sleeping_threads_wake_up_when_called_and_by_themselves() {
    let mut rig = rig(memory(1 << 16), 1, 3, 1);
    let at = rig.bus.host.address();
    for woken in [true, false] {
        std::thread::sleep(Duration::from_secs(5)); // the threads sleep after a second or more
        if woken {
            rig.controller.wake();
        }
        let began = std::time::Instant::now();
        rig.queues[0].submit(&[SubmissionEntry::read(1, 1, 3, 1, at, at + 4096)]);
        assert!(rig.queues[0].reap_within(LONG).expect("a completion").1.is_success());
        println!("woken: {woken}, {:?}", began.elapsed());
        assert!(began.elapsed() < SECOND * 5);
    }
    rig.controller.rest(SECOND).unwrap();
}

#[test]
fn reordered_delayed_and_failed_reads_reach_their_commands() {
    let rule = |every, action| FaultRule {
        bytes: 0..u64::MAX,
        every,
        at_most: u64::MAX,
        action,
    };
    let storage = FaultyStorage::new(
        Box::new(MemoryStorage::new(pattern(0, 1 << 20))),
        vec![
            rule(3, FaultAction::Reorder(5)),
            rule(7, FaultAction::Delay(Duration::from_micros(300))),
            rule(11, FaultAction::Fail(StatusCode::UnrecoveredReadError)),
            rule(13, FaultAction::Short),
        ],
    );
    let mut rig = rig(Arc::new(storage), 1, 4, 1);
    let bus = rig.bus.clone();
    let failed = hammer(&mut rig.queues[0], &bus, 0, 16, 1 << 20, 2000);
    assert!(failed.len() > 50, "rules hit: {}", failed.len());
    assert!(
        failed
            .iter()
            .all(|s| matches!((s.sct(), s.sc()), (2, 0x81) | (0, 0x04))),
        "{failed:?}"
    );
    assert!(rig.controller.take_error().unwrap().contains("injected"));
}

#[test]
fn large_reads_are_pushed_to_device_memory() {
    let mut rig = rig(memory(4 << 20), 1, 3, 1);
    // 200 KiB in one SGL data block: four staging buffers' worth, two at a time.
    let to = rig.bus.device.address() + 4096;
    let mut read = SubmissionEntry::read(5, 1, 123, 400, to, 400 * 512);
    read.flags = 0x40;
    rig.queues[0].submit(&[read]);
    assert_eq!(rig.queues[0].reap_within(LONG), Some((5, Status::SUCCESS)));
    assert_eq!(rig.bus.device.bytes(4096, 400 * 512), pattern(123 * 512, 400 * 512));
    // Memory that is neither host nor device memory: an error status, and the reason in words.
    rig.queues[0].submit(&[SubmissionEntry::read(6, 1, 0, 8, 0x4000, 0)]);
    let (_, status) = rig.queues[0].reap_within(LONG).unwrap();
    assert_eq!(status.sc(), StatusCode::DataTransferError as u8);
    assert!(rig.controller.take_error().unwrap().contains("not device memory"));
}

#[test]
fn dropped_read_leaves_the_next_query_unharmed() {
    let rule = FaultRule {
        bytes: 0..512,
        every: 1,
        at_most: 1,
        action: FaultAction::Drop,
    };
    let storage = FaultyStorage::new(Box::new(MemoryStorage::new(pattern(0, 1 << 20))), vec![rule]);
    let mut rig = rig(Arc::new(storage), 1, 2, 1);
    let at = rig.bus.host.address();
    rig.queues[0].submit(&[SubmissionEntry::read(0, 1, 0, 1, at, 0)]);
    assert_eq!(rig.queues[0].reap_within(Duration::from_millis(200)), None);
    rig.controller.rest(SECOND).unwrap();
    rig.queues[0].reset();
    rig.controller.resume();
    let bus = rig.bus.clone();
    assert!(hammer(&mut rig.queues[0], &bus, 0, 4, 1 << 20, 100).is_empty());
}

#[test]
fn stalled_storage_is_reported_within_the_time_allowed() {
    let rule = FaultRule {
        bytes: 0..u64::MAX,
        every: 1,
        at_most: 1,
        action: FaultAction::Delay(Duration::from_millis(700)),
    };
    let storage = FaultyStorage::new(Box::new(MemoryStorage::new(pattern(0, 8192))), vec![rule]);
    let mut rig = rig(Arc::new(storage), 1, 2, 1);
    let at = rig.bus.host.address();
    rig.queues[0].submit(&[SubmissionEntry::read(0, 1, 0, 1, at, 0)]);
    std::thread::sleep(Duration::from_millis(50));
    assert!(matches!(
        rig.controller.rest(Duration::from_millis(100)),
        Err(ControllerError::Stalled(_))
    ));
    rig.controller.rest(LONG).expect("the read ends after all");
}

#[test]
fn doorbell_outside_the_ring_stops_the_queue_and_is_reported() {
    let rig = rig(memory(8192), 1, 2, 1);
    rig.queues[0].ring(4);
    let words = (0..1000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(1));
        rig.controller.take_error()
    });
    assert!(words.expect("a report").contains("outside the ring"));
}

#[test]
fn files_stripes_and_replicas_hold_the_same_bytes() {
    let size = 300_000; // not a multiple of anything
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bytes");
    std::fs::File::create(&path)
        .unwrap()
        .write_all(&pattern(0, size))
        .unwrap();
    let expected = |offset: u64| if offset < size as u64 { byte_at(offset) } else { 0 };
    let open = || Box::new(CachedFile::open(&path).unwrap()) as Box<dyn Storage>;

    // Three members in units of 4 KiB, each holding every third unit.
    let member = |m: u64| -> Box<dyn Storage> {
        let unit = |u: u64| (0..4096).map(move |i| expected((u * 3 + m) * 4096 + i));
        let units = (0..25u64).flat_map(unit).collect::<Vec<_>>();
        Box::new(MemoryStorage::new(units))
    };
    let striped = Striped::new((0..3).map(member).collect(), 4096).unwrap();
    let flaky = FaultyStorage::new(
        open(),
        vec![FaultRule {
            bytes: 0..u64::MAX,
            every: 2,
            at_most: u64::MAX,
            action: FaultAction::Fail(StatusCode::UnrecoveredReadError),
        }],
    );
    let mut storages: Vec<(&str, Arc<dyn Storage>)> = vec![
        ("page cache", Arc::new(CachedFile::open(&path).unwrap())),
        ("mapping", Arc::new(MappedFile::open(&path).unwrap())),
        ("striped", Arc::new(striped)),
        (
            "replicated, one flaky",
            Arc::new(Replicated::new(vec![Box::new(flaky), open()]).unwrap()),
        ),
    ];
    #[cfg(target_os = "linux")]
    match grampus_driver::storage::DirectFile::open(&path) {
        Ok(direct) => storages.push(("direct", Arc::new(direct))),
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::DirectIo, e),
    }
    for (name, storage) in storages {
        let end = storage.size_bytes();
        assert_eq!(end % 4096, 0, "{name}");
        let mut rig = rig(storage, 1, 3, 1);
        let at = rig.bus.host.address();
        for (i, start) in [0, 4096 * 7, end - 8192, end - 512].into_iter().enumerate() {
            let blocks = ((end - start).min(8192) / 512) as u32;
            rig.queues[0].submit(&[SubmissionEntry::read(i as u16, 1, start / 512, blocks, at, at + 4096)]);
            assert_eq!(
                rig.queues[0].reap_within(LONG),
                Some((i as u16, Status::SUCCESS)),
                "{name} at {start}"
            );
            let got = rig.bus.host.bytes(0, blocks as usize * 512);
            assert!(
                got.iter().enumerate().all(|(k, &b)| b == expected(start + k as u64)),
                "{name} at {start}"
            );
        }
    }
}

#[test]
fn null_storage_answers_without_touching_memory() {
    let mut rig = rig(Arc::new(NullStorage::new(1 << 30)), 1, 3, 1);
    rig.bus.host.put(0, &[0xaa; 512]);
    rig.queues[0].submit(&[SubmissionEntry::read(1, 1, 7, 1, rig.bus.host.address(), 0)]);
    assert_eq!(rig.queues[0].reap_within(LONG), Some((1, Status::SUCCESS)));
    assert_eq!(rig.bus.host.bytes(0, 512), vec![0xaa; 512]);
}
