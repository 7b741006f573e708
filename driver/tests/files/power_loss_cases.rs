//! Loss of power after each block that is written and after each flush. A random choice of the unflushed blocks stays.

use grampus_driver::files::{FileError, NamespaceFiles};

use crate::lossy_storage::LossyStorage;
use crate::random::Random;
use crate::rig::{Model, check, drive, load};

const NAMESPACE_BYTES: usize = 256 << 10;

/// A change of the directory.
#[derive(Debug, Clone, Copy)]
enum Step {
    Load(&'static str, usize),
    Remove(&'static str),
}

/// The bytes of a file of this length; two loads of one name have different lengths.
fn content(length: usize) -> Vec<u8> {
    Random(length as u64 * 77 + 1).bytes(length)
}

fn apply(files: &mut NamespaceFiles, step: Step) -> Result<(), FileError> {
    match step {
        Step::Load(name, length) => load(files, name, &content(length)),
        Step::Remove(name) => files.remove(name).map(|_| ()),
    }
}

fn apply_to_model(model: &mut Model, step: Step) {
    match step {
        Step::Load(name, length) => drop(model.insert(name.to_owned(), content(length))),
        Step::Remove(name) => drop(model.remove(name)),
    }
}

fn names(model: &Model) -> Vec<String> {
    model.keys().cloned().collect()
}

/// Files that take the places of removed ones, so that a stale directory would name overwritten bytes.
const STEPS: [Step; 8] = [
    Step::Load("a", 30_000),
    Step::Load("b", 5_000),
    Step::Remove("a"),
    Step::Load("c", 20_000),
    Step::Load("a", 4_096),
    Step::Remove("c"),
    Step::Remove("b"),
    Step::Load("b", 24_577),
];

/// Loses the power at each point of `step`, and checks what is left: the files before the step, or those after.
/// Returns the number of points.
fn lose_power_everywhere(image: &[u8], block_bytes: u64, before: &Model, step: Step, random: &mut Random) -> u64 {
    let mut after = before.clone();
    apply_to_model(&mut after, step);
    let mut all = before.clone();
    all.extend(after.clone());
    for point in 0.. {
        let storage = LossyStorage::new(image.to_vec(), block_bytes as usize);
        let mut files = NamespaceFiles::open(drive(storage.clone(), block_bytes)).unwrap();
        storage.lose_power_after(point);
        let result = apply(&mut files, step);
        drop(files);
        let left = LossyStorage::new(storage.after_loss(random), block_bytes as usize);
        let files = NamespaceFiles::open(drive(left.clone(), block_bytes)).unwrap();
        let found: Vec<String> = check_names(&files);
        let model = if found == names(&after) { &after } else { before };
        assert_eq!(
            check(files, model),
            names(model),
            "{step:?}, power lost after {point} steps"
        );
        if result.is_ok() {
            assert_eq!(found, names(&after), "{step:?} had returned");
            return point;
        }
        // The next change repairs what the loss left.
        let mut files = NamespaceFiles::open(drive(left.clone(), block_bytes)).unwrap();
        load(&mut files, "later", &content(9_000)).unwrap();
        drop(files);
        let mut model = model.clone();
        apply_to_model(&mut model, Step::Load("later", 9_000));
        let files = NamespaceFiles::open(drive(left, block_bytes)).unwrap();
        assert_eq!(files.damages(), Vec::<String>::new());
        assert_eq!(check(files, &model), names(&model));
    }
    unreachable!("a step ends")
}

fn check_names(files: &NamespaceFiles) -> Vec<String> {
    let mut names: Vec<String> = files.entries().iter().map(|entry| entry.name.clone()).collect();
    names.sort();
    names
}

fn every_change_survives(block_bytes: u64) {
    let mut random = Random(block_bytes + 1);
    let storage = LossyStorage::new(vec![0; NAMESPACE_BYTES], block_bytes as usize);
    let files = NamespaceFiles::initialize(drive(storage.clone(), block_bytes), false).unwrap();
    drop(files);
    let (mut image, mut model, mut points) = (storage.image(), Model::new(), 0);
    for step in STEPS {
        points += lose_power_everywhere(&image, block_bytes, &model, step, &mut random);
        let storage = LossyStorage::new(image, block_bytes as usize);
        apply(
            &mut NamespaceFiles::open(drive(storage.clone(), block_bytes)).unwrap(),
            step,
        )
        .unwrap();
        apply_to_model(&mut model, step);
        image = storage.image();
    }
    let least = 8 * 30_000 / 4096;
    assert!(points > least, "{points} points");
}

#[test]
fn power_loss_leaves_the_old_or_the_new_directory_in_blocks_of_512() {
    every_change_survives(512);
}

#[test]
fn power_loss_leaves_the_old_or_the_new_directory_in_blocks_of_4096() {
    every_change_survives(4096);
}

/// An interrupted initialization leaves the old directory, an empty one, or none. Never old files beside new ones.
#[test]
fn power_loss_during_initialization_leaves_one_directory_or_none() {
    let block_bytes = 4096;
    let first = LossyStorage::new(vec![0; NAMESPACE_BYTES], 4096);
    let mut files = NamespaceFiles::initialize(drive(first.clone(), block_bytes), false).unwrap();
    load(&mut files, "old", &content(10_000)).unwrap();
    let old_uuid = files.uuid();
    drop(files);
    let (mut random, mut outcomes) = (Random(5), [0; 3]);
    for point in 0.. {
        let storage = LossyStorage::new(first.image(), 4096);
        let drive_before = drive(storage.clone(), block_bytes);
        storage.lose_power_after(point);
        let result = NamespaceFiles::initialize(drive_before, true);
        let done = result.is_ok();
        drop(result);
        let left = LossyStorage::new(storage.after_loss(&mut random), 4096);
        match NamespaceFiles::open(drive(left, block_bytes)) {
            Ok(files) if files.uuid() == old_uuid => {
                outcomes[0] += 1;
                assert_eq!(check_names(&files), ["old"], "after {point} steps");
            }
            Ok(files) => {
                outcomes[2] += 1;
                assert_eq!(check_names(&files), [""; 0], "after {point} steps");
            }
            Err(FileError::NoDirectory { .. }) => outcomes[1] += 1,
            Err(error) => panic!("after {point} steps: {error}"),
        }
        if done {
            break;
        }
    }
    assert!(outcomes.iter().all(|count| *count > 0), "{outcomes:?}");
}

/// Copies of a directory that one change has left different: if the newer copy is lost then, the older one's files are
/// whole.
#[test]
fn loss_of_the_newer_copy_after_an_interrupted_change_leaves_the_older_files() {
    let block_bytes = 4096u64;
    let storage = LossyStorage::new(vec![0; NAMESPACE_BYTES], 4096);
    let mut files = NamespaceFiles::initialize(drive(storage.clone(), block_bytes), false).unwrap();
    load(&mut files, "a", &content(10_000)).unwrap();
    drop(files);
    // The last two steps of a removal store the second copy. Without them, the copies differ.
    let whole = LossyStorage::new(storage.image(), 4096);
    let mut files = NamespaceFiles::open(drive(whole.clone(), block_bytes)).unwrap();
    files.remove("a").unwrap();
    drop(files);
    let interrupted = LossyStorage::new(storage.image(), 4096);
    let mut files = NamespaceFiles::open(drive(interrupted.clone(), block_bytes)).unwrap();
    interrupted.lose_power_after(whole.steps() - 2);
    assert!(files.remove("a").is_err());
    drop(files);
    // A load that comes next must not write over the file before both copies have left it.
    let model = Model::from([("a".to_owned(), content(10_000)), ("b".to_owned(), content(9_999))]);
    let mut found = Vec::new();
    for point in 0..12 {
        let again = LossyStorage::new(interrupted.image(), 4096);
        let mut files = NamespaceFiles::open(drive(again.clone(), block_bytes)).unwrap();
        assert_eq!(check_names(&files), [""; 0]);
        assert_eq!(files.damages().len(), 1);
        again.lose_power_after(point);
        // The content takes the place of the removed file: there is no smaller run.
        found.push(load(&mut files, "b", &content(9_999)).is_ok());
        drop(files);
        let mut image = again.image();
        image[4096..8192].fill(0); // the newer copy is lost
        let files = NamespaceFiles::open(drive(LossyStorage::new(image, 4096), block_bytes)).unwrap();
        check(files, &model);
    }
    assert_eq!((found[0], found[11]), (false, true));
}
