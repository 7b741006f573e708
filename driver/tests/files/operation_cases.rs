//! Names, space, sources that change, failed commands.

use std::io::Read;
use std::ops::ControlFlow;

use grampus_driver::files::{Difference, FileError, MAX_NAME_BYTES, NamespaceFiles};
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage};

use crate::lossy_storage::LossyStorage;
use crate::random::Random;
use crate::rig::{Model, check, drive, go_on, load};

/// An empty directory on a namespace of so many bytes.
fn empty(namespace_bytes: usize) -> (LossyStorage, NamespaceFiles) {
    let storage = LossyStorage::new(vec![0; namespace_bytes], 512);
    let files = NamespaceFiles::initialize(drive(storage.clone(), 512), false).unwrap();
    (storage, files)
}

#[test]
fn names_that_are_taken_too_long_or_no_names_are_refused() {
    let (storage, mut files) = empty(1 << 20);
    let longest = "n".repeat(MAX_NAME_BYTES);
    load(&mut files, &longest, b"1").unwrap();
    load(&mut files, "a", b"22").unwrap();
    let steps = storage.steps();
    let mut refused = |name: &str| load(&mut files, name, b"333").unwrap_err().to_string();
    assert_eq!(refused("a"), "S1, namespace 1 has a file a already");
    assert!(refused(&longest).contains("already"));
    assert!(refused(&format!("{longest}n")).ends_with("has 449 bytes, and at most 448 can be stored"));
    assert_eq!(refused(""), "the file name '' is empty");
    assert!(refused("a/../b").contains("has an empty part, '.' or '..'"));
    assert_eq!(refused("a\tb"), "the file name 'a\\tb' has a control character");
    let error = load(&mut files, "b", b"").unwrap_err().to_string();
    assert!(error.contains("empty file"), "{error}");
    assert_eq!(storage.steps(), steps, "nothing was written");
    let model = Model::from([(longest, b"1".to_vec()), ("a".to_owned(), b"22".to_vec())]);
    assert_eq!(check(files, &model).len(), 2);
}

#[test]
fn full_namespace_refuses_and_takes_files_again_after_a_removal() {
    let (storage, mut files) = empty(1 << 20);
    let (all, free) = files.space();
    assert_eq!((all, free), ((1 << 20) - 2 * 20_480, all));
    let mut random = Random(3);
    let most = (all - 4096) as usize;
    let bytes = random.bytes(most);
    let error = load(&mut files, "big", &random.bytes(most + 1))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        format!(
            "S1, namespace 1 has no room for big: {} bytes in one run are needed, {all} are free, and the longest \
             run has {all}",
            all + 4096
        )
    );
    load(&mut files, "big", &bytes).unwrap();
    assert_eq!(files.space(), (all, 0));
    let steps = storage.steps();
    assert!(matches!(load(&mut files, "small", b"x"), Err(FileError::Full { .. })));
    assert!(matches!(
        files.load("huge", u64::MAX, &mut std::io::repeat(1), &mut go_on),
        Err(FileError::Full { .. })
    ));
    assert_eq!(storage.steps(), steps);
    assert!(matches!(files.remove("small"), Err(FileError::NotFound { .. })));
    assert_eq!(files.remove("big").unwrap().length_bytes, most as u64);
    load(&mut files, "small", b"x").unwrap();
    assert_eq!(
        check(files, &Model::from([("small".to_owned(), b"x".to_vec())])),
        ["small"]
    );
}

#[test]
fn directory_ends_at_its_capacity() {
    let (_, mut files) = empty(1 << 20);
    let mut model = Model::new();
    for i in 0..31 {
        let (name, bytes) = (format!("f{i}"), vec![i as u8; 1 + i * 100]);
        load(&mut files, &name, &bytes).unwrap();
        model.insert(name, bytes);
    }
    let error = load(&mut files, "one more", b"x").unwrap_err().to_string();
    assert!(
        error.ends_with("its directory holds 31 files, and all are there"),
        "{error}"
    );
    files.remove("f7").unwrap();
    load(&mut files, "one more", b"x").unwrap();
    model.remove("f7");
    model.insert("one more".to_owned(), b"x".to_vec());
    assert_eq!(check(files, &model).len(), 31);
}

#[test]
fn source_that_changes_or_fails_leaves_the_directory() {
    struct Failing(usize);
    impl Read for Failing {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::other("the disk is gone"));
            }
            let length = self.0.min(out.len());
            self.0 -= length;
            Ok(length)
        }
    }
    let (_, mut files) = empty(4 << 20);
    load(&mut files, "a", b"old").unwrap();
    let bytes = Random(5).bytes(1 << 20);
    let mut failed =
        |length: u64, source: &mut dyn Read| files.load("b", length, source, &mut go_on).unwrap_err().to_string();
    let long = bytes.len() as u64;
    assert_eq!(
        failed(long + 1, &mut &bytes[..]),
        "b: the file shrank while it was loaded; load it again"
    );
    assert_eq!(
        failed(long - 1, &mut &bytes[..]),
        "b: the file grew while it was loaded; load it again"
    );
    assert_eq!(failed(long, &mut Failing(300_000)), "b: the disk is gone");
    // Ended by the caller, while writing and while reading back.
    for limit in [500_000, 1_500_000] {
        let mut moved = 0;
        let mut until = |bytes: u64| {
            moved += bytes;
            if moved < limit {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let error = files.load("b", long, &mut &bytes[..], &mut until).unwrap_err();
        assert!(matches!(error, FileError::Ended { .. }), "{error}");
    }
    load(&mut files, "b", &bytes).unwrap();
    let model = Model::from([("a".to_owned(), b"old".to_vec()), ("b".to_owned(), bytes)]);
    assert_eq!(check(files, &model), ["a", "b"]);
}

#[test]
fn progress_counts_the_bytes_written_and_read_back() {
    let (_, mut files) = empty(4 << 20);
    let bytes = Random(6).bytes(700_001);
    let mut moved = 0;
    let mut count = |bytes: u64| {
        moved += bytes;
        ControlFlow::Continue(())
    };
    files.load("a", 700_001, &mut &bytes[..], &mut count).unwrap();
    assert_eq!(moved, 2 * 700_001);
}

/// The blocks from `at` on fail, or return other bytes than were written.
#[test]
fn failed_commands_name_drive_and_lba_and_leave_the_directory() {
    let image = {
        let (storage, mut files) = empty(4 << 20);
        load(&mut files, "a", &Random(8).bytes(50_000)).unwrap();
        storage.image()
    };
    let storage = || Box::new(LossyStorage::new(image.clone(), 512));
    // The second file begins behind the first one's 13 units and their checksums.
    let second = 20_480 + 14 * 4096u64;
    let bytes = Random(9).bytes(600_000);
    let failing = FaultyStorage::new(storage(), Vec::new()).failing_write(second + 200_000..second + 200_001);
    let mut files = NamespaceFiles::open(drive(failing, 512)).unwrap();
    let error = load(&mut files, "b", &bytes).unwrap_err().to_string();
    let lba = (second + (128 << 10)) / 512;
    assert!(
        error.starts_with(&format!(
            "S1, namespace 1: writing b: write of 256 blocks at LBA {lba} of namespace 1"
        )),
        "{error}"
    );
    assert_eq!(files.entries().len(), 1);
    drop(files);

    let rule = FaultRule {
        bytes: second..second + (128 << 10),
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Fail(StatusCode::UnrecoveredReadError),
    };
    let failing = FaultyStorage::new(storage(), vec![rule.clone()]);
    let mut files = NamespaceFiles::open(drive(failing, 512)).unwrap();
    let error = load(&mut files, "b", &bytes).unwrap_err().to_string();
    assert!(
        error.contains("b cannot be read back: read of 256 blocks at LBA 152 "),
        "{error}"
    );
    assert_eq!(files.entries().len(), 1);
    drop(files);

    // A file that cannot be read any more: verification names the blocks, and goes on with the next file.
    let rule = FaultRule {
        bytes: 20_480..20_481,
        ..rule
    };
    let mut files = NamespaceFiles::open(drive(FaultyStorage::new(storage(), vec![rule]), 512)).unwrap();
    match files.verify("a", &mut go_on).unwrap().difference {
        Some(Difference::Unreadable(error)) => assert!(error.contains("at LBA 40 of namespace 1"), "{error}"),
        other => panic!("{other:?}"),
    }
    drop(files);

    let failing = FaultyStorage::new(storage(), Vec::new()).failing_flushes();
    let mut files = NamespaceFiles::open(drive(failing, 512)).unwrap();
    let error = load(&mut files, "b", &bytes).unwrap_err().to_string();
    assert!(
        error.starts_with("S1, namespace 1: writing b: flush of namespace 1"),
        "{error}"
    );
    assert_eq!(files.entries().len(), 1);
}

#[test]
fn missing_namespace_is_named_with_those_there_are() {
    let drive = drive(LossyStorage::new(vec![0; 1 << 20], 512), 512);
    let error = grampus_driver::files::Drive::open("0000:01:00.0", drive.device().clone(), 2).unwrap_err();
    assert_eq!(
        error.to_string(),
        "0000:01:00.0, namespace 2: there is none; the controller has 1"
    );
    let small = self::drive_of(40 << 10);
    let error = NamespaceFiles::initialize(small, false).unwrap_err().to_string();
    assert!(error.contains("40960 bytes are too few"), "{error}");
}

fn drive_of(bytes: usize) -> grampus_driver::files::Drive {
    drive(LossyStorage::new(vec![0; bytes], 512), 512)
}
