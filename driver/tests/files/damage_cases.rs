//! Damaged structures, other programs' signatures, and damaged content.

use grampus_driver::files::{Difference, FileError, NamespaceFiles};
use grampus_driver::spec::StatusCode;
use grampus_driver::storage::{FaultAction, FaultRule, FaultyStorage};

use crate::lossy_storage::LossyStorage;
use crate::random::Random;
use crate::rig::{Model, check, drive, go_on, impatient_drive, load};

const NAMESPACE_BYTES: usize = 4 << 20;
/// Regions of such a namespace: a directory of 16 KiB at each end, inside a header.
const DIRECTORY_0: usize = 4096;
const DATA: usize = 20_480;
const DIRECTORY_1: usize = NAMESPACE_BYTES - 20_480;
const HEADER_1: usize = NAMESPACE_BYTES - 4096;

/// An image with two files, and its model.
fn image(block_bytes: u64) -> (Vec<u8>, Model) {
    let storage = LossyStorage::new(vec![0; NAMESPACE_BYTES], block_bytes as usize);
    let mut files = NamespaceFiles::initialize(drive(storage.clone(), block_bytes), false).unwrap();
    let mut random = Random(11);
    let model = Model::from([
        ("a.orc".to_owned(), random.bytes(100_000)),
        ("year=2019/b.orc".to_owned(), random.bytes(9_000)),
    ]);
    for (name, bytes) in &model {
        load(&mut files, name, bytes).unwrap();
    }
    drop(files);
    (storage.image(), model)
}

fn open(image: Vec<u8>, block_bytes: u64) -> Result<NamespaceFiles, FileError> {
    NamespaceFiles::open(drive(LossyStorage::new(image, block_bytes as usize), block_bytes))
}

#[test]
fn one_damaged_copy_is_reported_read_around_and_repaired() {
    let (image, model) = image(512);
    for (at, expected) in [
        (8, "copy 0 of the header, at LBA 0: its checksum is wrong"),
        (HEADER_1, "copy 1 of the header, at LBA 8184: there is no header"),
        (
            HEADER_1 + 100,
            "copy 1 of the header, at LBA 8184: its checksum is wrong",
        ),
        (DIRECTORY_0, "copy 0 of the directory, at LBA 8: there is no directory"),
        (
            DIRECTORY_0 + 30,
            "copy 0 of the directory, at LBA 8: its checksum is wrong",
        ),
        (
            DIRECTORY_1 + 600,
            "copy 1 of the directory, at LBA 8152: its checksum is wrong",
        ),
    ] {
        let mut damaged = image.clone();
        damaged[at] ^= 0x40;
        let storage = LossyStorage::new(damaged, 512);
        let files = NamespaceFiles::open(drive(storage.clone(), 512)).unwrap();
        assert_eq!(files.damages(), [expected]);
        assert_eq!(check(files, &model).len(), 2);
        let mut files = NamespaceFiles::open(drive(storage.clone(), 512)).unwrap();
        load(&mut files, "c", b"new").unwrap();
        drop(files);
        let mut model = model.clone();
        model.insert("c".to_owned(), b"new".to_vec());
        let files = NamespaceFiles::open(drive(storage, 512)).unwrap();
        assert_eq!(files.damages(), Vec::<String>::new());
        assert_eq!(check(files, &model).len(), 3);
    }
}

#[test]
fn two_damaged_copies_are_an_error_with_both_places() {
    let (image, _) = image(512);
    let error = |changes: &[(usize, u8)]| {
        let mut damaged = image.clone();
        changes.iter().for_each(|(at, bits)| damaged[*at] ^= bits);
        open(damaged, 512).unwrap_err().to_string()
    };
    assert_eq!(
        error(&[(100, 1), (HEADER_1 + 100, 1)]),
        "S1, namespace 1: the directory of files is damaged: header at LBA 0: its checksum is wrong; at LBA 8184: \
         its checksum is wrong"
    );
    assert_eq!(
        error(&[(DIRECTORY_0 + 700, 1), (DIRECTORY_1 + 1, 1)]),
        "S1, namespace 1: the directory of files is damaged: at LBA 8, its checksum is wrong; at LBA 8152, there is \
         no directory"
    );
    assert!(error(&[(0, 1)]).contains("has no directory of files: LBA 0 has data of an unknown kind"));
}

/// A program that makes its own structures on the namespace leaves the end as it is. The files are lost to it.
#[test]
fn start_that_another_program_has_written_is_no_directory() {
    let (image, _) = image(512);
    for (at, bytes, expected) in [
        (1080, &[0x53, 0xef][..], "ext2, ext3 or ext4"),
        (512, b"EFI PART", "GPT"),
        (4086, b"SWAPSPACE2", "swap space"),
        (0, b"XFSB", "XFS"),
        (0, b"LUKS\xba\xbe", "LUKS"),
        (65_600, b"_BHRfS_M", "btrfs"),
    ] {
        let mut written = image.clone();
        written[at..at + bytes.len()].copy_from_slice(bytes);
        if at == 65_600 {
            written[200] ^= 1; // btrfs writes there only; its tools clear the start
        }
        let error = open(written, 512).unwrap_err();
        assert!(matches!(error, FileError::NoDirectory { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn namespace_of_another_size_or_format_is_refused() {
    let (image, _) = image(512);
    let error = open(image.clone(), 4096).unwrap_err().to_string();
    assert!(
        error.contains("in blocks of 512, and the namespace has 4194304 in blocks of 4096"),
        "{error}"
    );
    let mut longer = image;
    longer.resize(NAMESPACE_BYTES + (1 << 20), 0);
    let error = open(longer, 512).unwrap_err().to_string();
    assert!(error.contains("made for 4194304 bytes"), "{error}");
}

/// One changed byte anywhere in the structures: the files are whole, or the error says what is damaged.
#[test]
fn any_changed_byte_leaves_whole_files_or_an_error() {
    let (image, model) = image(4096);
    let mut random = Random(23);
    for _ in 0..300 {
        let mut damaged = image.clone();
        for _ in 0..1 + random.below(3) {
            let within = random.below(DATA as u64) as usize;
            let at = if random.below(2) == 0 {
                within
            } else {
                NAMESPACE_BYTES - 1 - within
            };
            damaged[at] ^= 1 << random.below(8);
        }
        match open(damaged, 4096) {
            Ok(files) => assert_eq!(check(files, &model).len(), 2),
            Err(FileError::Damaged { .. } | FileError::NoDirectory { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn verification_names_the_first_block_that_differs() {
    for block_bytes in [512, 4096] {
        let (image, _) = image(block_bytes);
        let verified = |at: usize, name: &str| {
            let mut damaged = image.clone();
            damaged[at] ^= 1;
            open(damaged, block_bytes)
                .unwrap()
                .verify(name, &mut go_on)
                .unwrap()
                .difference
        };
        // a.orc lies at the start, in 25 units, and its unit checksums behind them.
        let unit = 17usize;
        let expected = Difference::Content {
            lba: (DATA + unit * 4096) as u64 / block_bytes,
            blocks: 4096 / block_bytes,
            offset_bytes: unit as u64 * 4096,
        };
        assert_eq!(verified(DATA + unit * 4096 + 1234, "a.orc"), Some(expected.clone()));
        let text = expected.to_string();
        match block_bytes {
            512 => assert_eq!(
                text,
                "LBA 176 to 183 (byte 69632 of the file) differ from what was loaded"
            ),
            _ => assert_eq!(text, "LBA 22 (byte 69632 of the file) differs from what was loaded"),
        }
        let units = DATA + 25 * 4096;
        let lba = units as u64 / block_bytes;
        assert_eq!(verified(units + 5, "a.orc"), Some(Difference::Checksums { lba }));
        // The other file, and bytes behind the end of the content.
        assert_eq!(verified(DATA + 1234, "year=2019/b.orc"), None);
        assert_eq!(verified(DATA + 100_001, "a.orc"), None);
    }
}

#[test]
fn namespace_with_data_is_initialized_only_when_told_to_erase() {
    for (at, bytes, expected) in [
        (510, &[0x55, 0xaa][..], "LBA 0 has a partition table or a boot sector"),
        (1080, &[0x53, 0xef], "LBA 2 has a file system (ext2, ext3 or ext4)"),
        (1024, b"x", "LBA 2 has data of an unknown kind"),
        ((1 << 20) - 1, b"x", "LBA 2047 has data of an unknown kind"),
        (
            NAMESPACE_BYTES - (1 << 20),
            b"x",
            "LBA 6144 has data of an unknown kind",
        ),
        (NAMESPACE_BYTES - 1, b"x", "LBA 8191 has data of an unknown kind"),
    ] {
        let mut image = vec![0; NAMESPACE_BYTES];
        image[at..at + bytes.len()].copy_from_slice(bytes);
        let storage = LossyStorage::new(image.clone(), 512);
        assert_eq!(
            NamespaceFiles::contents(&drive(storage.clone(), 512))
                .unwrap()
                .as_deref(),
            Some(expected)
        );
        let error = NamespaceFiles::initialize(drive(storage.clone(), 512), false).unwrap_err();
        assert_eq!(error.to_string(), format!("S1, namespace 1 is not empty: {expected}"));
        assert_eq!((storage.steps(), storage.image() == image), (0, true));
        drop(NamespaceFiles::initialize(drive(storage.clone(), 512), true).unwrap());
        let erased = storage.image();
        assert_eq!(erased[(1 << 20) - 1], 0);
        assert_eq!(check(open(erased, 512).unwrap(), &Model::new()), [""; 0]);
    }
    // Bytes between the ends are those of no structure.
    let mut image = vec![0; NAMESPACE_BYTES];
    image[2 << 20] = 1;
    drop(NamespaceFiles::initialize(drive(LossyStorage::new(image, 512), 512), false).unwrap());
    // A directory of files is data too.
    let (image, _) = self::image(512);
    let error = NamespaceFiles::initialize(drive(LossyStorage::new(image, 512), 512), false).unwrap_err();
    assert!(
        error.to_string().ends_with("LBA 0 has a directory of files of Grampus"),
        "{error}"
    );
}

/// A block that the drive reports as unreadable is damage of one copy. A controller that does not answer is no damage,
/// and no reason to erase.
#[test]
fn copy_that_cannot_be_read_is_damage_and_silence_is_not() {
    let (image, model) = image(512);
    let faulty = |action| {
        let rule = FaultRule {
            bytes: DIRECTORY_0 as u64..DIRECTORY_0 as u64 + 512,
            every: 1,
            at_most: u64::MAX,
            action,
        };
        FaultyStorage::new(Box::new(LossyStorage::new(image.clone(), 512)), vec![rule])
    };
    let failing = faulty(FaultAction::Fail(StatusCode::UnrecoveredReadError));
    let files = NamespaceFiles::open(drive(failing, 512)).unwrap();
    let damages = files.damages();
    assert_eq!(damages.len(), 1);
    assert!(
        damages[0].starts_with("copy 0 of the directory, at LBA 8: read of 32 blocks at LBA 8 "),
        "{damages:?}"
    );
    assert_eq!(check(files, &model).len(), 2);
    let error = NamespaceFiles::open(impatient_drive(faulty(FaultAction::Drop))).unwrap_err();
    assert!(matches!(error, FileError::Device { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("S1, namespace 1: reading copy 0 of the directory: read of 32 blocks"),
        "{text}"
    );
    assert!(text.contains("did not end within 300ms"), "{text}");
}
