//! Concurrent reads of byte ranges.

use grampus_driver::files::{FileError, FileReader, NamespaceFiles};
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage};

use crate::lossy_storage::LossyStorage;
use crate::random::Random;
use crate::rig::{drive, impatient_drive, load};

fn image(files: &[(&str, &[u8])]) -> LossyStorage {
    let storage = LossyStorage::new(vec![0; 8 << 20], 512);
    let mut loaded = NamespaceFiles::initialize(drive(storage.clone(), 512), false).unwrap();
    for (name, bytes) in files {
        load(&mut loaded, name, bytes).unwrap();
    }
    drop(loaded);
    storage
}

#[test]
fn threads_read_any_ranges_over_all_queues() {
    let mut random = Random(1);
    let (a, b) = (random.bytes(3_000_001), random.bytes(70_000));
    let storage = image(&[("a", &a), ("b", &b)]);
    let opened = NamespaceFiles::open(drive(storage, 512)).unwrap();
    let before = {
        let device = opened.drive().device().clone();
        device.lock().unwrap().smart_log().unwrap().read_commands
    };
    let submitted_before = opened.drive().counts().reads();
    // Six are wanted, and the controller grants four.
    let reader = FileReader::new(opened, 6);
    std::thread::scope(|scope| {
        for thread in 0..6u64 {
            let (reader, a, b) = (&reader, &a, &b);
            scope.spawn(move || {
                let mut random = Random(thread + 100);
                for _ in 0..60 {
                    let (name, bytes) = if random.below(4) == 0 { ("b", b) } else { ("a", a) };
                    let entry = reader.entry(name).unwrap();
                    let mut range = || {
                        let start = random.below(bytes.len() as u64);
                        let longest = (bytes.len() as u64 - start).min(400_000);
                        start..start + random.below(longest + 1)
                    };
                    let ranges = [range(), range(), range()];
                    let read = reader.read(entry, &ranges).unwrap();
                    for (read, range) in read.iter().zip(&ranges) {
                        assert!(
                            *read == bytes[range.start as usize..range.end as usize],
                            "{name} {range:?}"
                        );
                    }
                }
            });
        }
    });
    let after = reader
        .drive()
        .device()
        .lock()
        .unwrap()
        .smart_log()
        .unwrap()
        .read_commands;
    let submitted = reader.drive().counts().reads() - submitted_before;
    assert_eq!(after - before, u128::from(submitted));
    assert!(after - before > 6 * 60 * 3);
}

#[test]
fn ranges_outside_a_file_and_unknown_names_are_refused() {
    let storage = image(&[("a", b"0123456789")]);
    let reader = FileReader::new(NamespaceFiles::open(drive(storage, 512)).unwrap(), 2);
    let entry = reader.entry("a").unwrap();
    assert_eq!(
        reader.read(entry, &[2..4, 10..10]).unwrap(),
        [b"23".to_vec(), Vec::new()]
    );
    let error = reader.read(entry, &[2..4, 9..11]).unwrap_err();
    assert_eq!(error.to_string(), "a has 10 bytes: 9..11 do not lie inside it");
    assert!(matches!(error, FileError::Range { .. }));
    assert!(reader.entry("b").is_none());
}

#[test]
fn failed_read_names_the_lba_and_the_queue_serves_the_next_one() {
    let bytes = Random(2).bytes(1_000_000);
    let rule = FaultRule {
        // Reads that begin there.
        bytes: 1039 * 512..1041 * 512,
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Fail(StatusCode::UnrecoveredReadError),
    };
    let storage = FaultyStorage::new(Box::new(image(&[("a", &bytes)])), vec![rule]);
    let reader = FileReader::new(NamespaceFiles::open(drive(storage, 512)).unwrap(), 1);
    let entry = reader.entry("a").unwrap();
    for _ in 0..20 {
        let error = reader
            .read(entry, &[511_999..512_100, 0..900_000])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("S1, namespace 1: reading a: read of "), "{error}");
        assert!(error.contains("at LBA 1039 of namespace 1"), "{error}");
        let read = reader.read(entry, std::slice::from_ref(&(600_000..900_000))).unwrap();
        assert!(read[0] == bytes[600_000..900_000]);
    }
}

/// A command that never ends takes its queue with it. The next read has another one; when the controller has no more,
/// it is reset.
#[test]
fn command_without_an_answer_takes_its_queue_out_of_service() {
    let bytes = Random(3).bytes(600_000);
    let rule = FaultRule {
        bytes: 40 * 512..41 * 512,
        every: 1,
        at_most: 6,
        action: FaultAction::Drop,
    };
    let storage = FaultyStorage::new(Box::new(image(&[("a", &bytes)])), vec![rule]);
    let reader = FileReader::new(NamespaceFiles::open(impatient_drive(storage)).unwrap(), 2);
    let entry = reader.entry("a").unwrap();
    let read = |start: u64| reader.read(entry, std::slice::from_ref(&(start..start + 100)));
    for round in 0..6 {
        assert!(read(500_000).unwrap()[0] == bytes[500_000..500_100], "round {round}");
        let error = read(0).unwrap_err().to_string();
        assert!(
            error.contains("at LBA 40 of namespace 1") && error.contains("did not end within 300ms"),
            "round {round}: {error}"
        );
    }
    assert!(read(0).unwrap()[0] == bytes[..100]);
}
