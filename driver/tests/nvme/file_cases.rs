//! Cases of files on a namespace: the directory, reads over several queues, damage and failed commands.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use grampus_driver::files::{Difference, Drive, FileError, FileReader, NamespaceFiles};
use grampus_driver::host::{Device, DeviceOptions, DmaPool};

use crate::Start;
use crate::machine::{Fault, Machine, MachineSetup, image_path, pattern};
use crate::random::Random;

const NAMESPACE_BYTES: u64 = 8 << 20;
/// Where the first file of such a namespace begins: behind a header and a directory of 16 KiB.
const FIRST_FILE: u64 = 20_480;

fn open(machine: &dyn Machine) -> Drive {
    let pool = DmaPool::new(machine.memory());
    let device = Device::open(machine.registers(0), pool, DeviceOptions::default()).expect("it opens");
    Drive::open("S0", Arc::new(Mutex::new(device)), 1).expect("a namespace")
}

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn load(files: &mut NamespaceFiles, name: &str, bytes: &[u8]) {
    files
        .load(name, bytes.len() as u64, &mut &bytes[..], &mut go_on)
        .expect("it is loaded");
}

/// Ends the machine and returns the namespace's bytes.
fn image(machine: Box<dyn Machine>) -> Vec<u8> {
    let folder = machine.stop();
    std::fs::read(image_path(folder.path(), 0, 0)).expect("an image")
}

pub(crate) fn files_are_loaded_found_again_and_read_over_several_queues(start: Start) {
    for lba_log2 in [9, 12] {
        let Some(machine) = start(MachineSetup::one(NAMESPACE_BYTES, lba_log2)) else {
            return;
        };
        // Images hold a pattern: a namespace that is not empty.
        let error = NamespaceFiles::initialize(open(&*machine), false).expect_err("data");
        assert!(matches!(error, FileError::NotEmpty { .. }), "{error}");
        let contents = [("a.orc", pattern(1, 3_000_001)), ("b/c.orc", pattern(7, 4096))];
        let mut files = NamespaceFiles::initialize(open(&*machine), true).expect("a directory");
        for (name, bytes) in &contents {
            load(&mut files, name, bytes);
        }
        drop(files);

        let files = NamespaceFiles::open(open(&*machine)).expect("a directory");
        assert_eq!(files.damages(), Vec::<String>::new());
        let counts = files.drive().counts().clone();
        let device = files.drive().device().clone();
        let reads = || {
            device
                .lock()
                .expect("no panic")
                .smart_log()
                .expect("a log")
                .read_commands
        };
        let (reads_before, submitted_before) = (reads(), counts.reads());
        let reader = FileReader::new(files, 4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (reader, contents) = (&reader, &contents);
                scope.spawn(move || {
                    let mut random = Random(thread + 1);
                    for _ in 0..25 {
                        let (name, bytes) = &contents[random.below(5).min(1) as usize ^ 1];
                        let mut range = || {
                            let start = random.below(bytes.len() as u64);
                            start..start + random.below((bytes.len() as u64 - start).min(300_000)) + 1
                        };
                        let ranges = [range(), range()];
                        let read = reader
                            .read(reader.entry(name).expect("a file"), &ranges)
                            .expect("bytes");
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
        assert_eq!(reads() - reads_before, u128::from(counts.reads() - submitted_before));
        drop((reader, device));
        let image = image(machine);
        let first = &image[FIRST_FILE as usize..][..contents[0].1.len()];
        assert!(first == contents[0].1, "the image has the first file's bytes");
    }
}

pub(crate) fn failed_file_reads_and_writes_name_the_lba(start: Start) {
    // In the middle of the first file: content from LBA 40 on, in commands of 256 blocks.
    let (bad, command) = (40 + 700u64, 40 + 512u64);
    let bytes = pattern(3, 1_000_000);
    let Some(machine) = start(MachineSetup::one(NAMESPACE_BYTES, 9).with(&[Fault::Write(bad)])) else {
        return;
    };
    // Zeros are written there too, so this namespace cannot be made ready by `erase`.
    let error = NamespaceFiles::initialize(open(&*machine), true)
        .expect_err("a failed write")
        .to_string();
    assert!(
        error.starts_with("S0, namespace 1: initializing the namespace: write of "),
        "{error}"
    );
    drop(machine);

    let Some(machine) = start(MachineSetup::one(NAMESPACE_BYTES, 9).with(&[Fault::Read(bad)])) else {
        return;
    };
    let mut files = NamespaceFiles::initialize(open(&*machine), true).expect("a directory");
    let error = files
        .load("a.orc", bytes.len() as u64, &mut &bytes[..], &mut go_on)
        .expect_err("it is read back")
        .to_string();
    assert!(
        error.contains(&format!("read of 256 blocks at LBA {command} of namespace 1")),
        "{error}"
    );
    assert!(files.entries().is_empty());
    // The queue goes on.
    load(&mut files, "b.orc", &bytes[..100_000]);
    assert_eq!(files.verify("b.orc", &mut go_on).expect("a result").difference, None);
    drop(files);
    drop(machine);
}

pub(crate) fn changed_bytes_of_a_file_are_found(start: Start) {
    let Some(machine) = start(MachineSetup::one(NAMESPACE_BYTES, 9)) else {
        return;
    };
    let mut files = NamespaceFiles::initialize(open(&*machine), true).expect("a directory");
    load(&mut files, "a.orc", &pattern(3, 1_000_000));
    let namespace = files.drive().namespace().clone();
    {
        let device = files.drive().device().clone();
        let mut device = device.lock().expect("no panic");
        let mut queue = device.create_queue(4).expect("a queue");
        let buffer = device.pool().clone().allocate(512).expect("memory");
        queue
            .write(&namespace, 1001, 1, &buffer.range(0, 512).expect("inside"))
            .expect("a write");
    }
    let difference = files.verify("a.orc", &mut go_on).expect("a result").difference;
    // The unit of 4 KiB with LBA 1001 begins at LBA 1000.
    let expected = Difference::Content {
        lba: 1000,
        blocks: 8,
        offset_bytes: (1000 - 40) * 512,
    };
    assert_eq!(difference, Some(expected));
}
