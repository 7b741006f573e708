//! Corrupt files and streams end in errors, never in a panic, a hang or an array that breaks Arrow's rules. The tests
//! run the code of the fuzz targets on a bounded set of mutations. `GRAMPUS_TEST_SEED=<seed>` replays a failure;
//! `GRAMPUS_TEST_CASES` sets the number of mutations.
#![allow(unreachable_pub)] // the modules are public in the fuzz crate

#[path = "../fuzz/src/one_column_file.rs"]
mod one_column_file;
#[path = "../fuzz/src/peer.rs"]
mod peer;
#[path = "../fuzz/src/read_file.rs"]
mod read_file;
#[path = "../fuzz/src/rle.rs"]
mod rle;
#[path = "../fuzz/src/seeds.rs"]
mod seeds;
#[path = "../fuzz/src/write.rs"]
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use read_file::read_file;

/// No mutation of a few kilobytes takes longer than this, even unoptimised.
const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn seeds_read_without_error() {
    for (name, bytes) in seeds::seeds() {
        let values = read_file(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(values > 0 || name == "empty", "{name}: nothing was read");
    }
}

#[test]
fn prefixes_of_a_file_are_refused() {
    for (name, bytes) in seeds::seeds() {
        for length in (0..bytes.len()).step_by(7) {
            assert!(
                read_file(&bytes[..length]).is_err(),
                "{name} cut to {length} bytes was read"
            );
        }
    }
}

#[test]
fn mutations_end_in_values_or_errors() {
    check_mutations(&seeds::seeds(), 1_500);
}

/// Files of other writers have encodings, versions and oddities that our files never have.
#[test]
fn mutations_of_other_writers_files_end_in_values_or_errors() {
    let Some(folder) = grampus_test_support::data("orc") else {
        return;
    };
    let files = small_corpus_files(folder);
    check_mutations(&files, 1_500);
}

#[test]
fn run_length_seeds_can_be_read() {
    for (name, bytes) in rle::seeds() {
        assert!(rle::rle(&bytes), "{name}");
    }
}

#[test]
fn mutated_runs_end_in_values_or_errors() {
    check(&rle::seeds(), 3_000, rle::rle);
}

#[test]
fn random_tables_are_read_back_by_two_readers() {
    check(&write::seeds(), 400, |bytes| {
        write::write(bytes);
        true
    });
}

fn check_mutations(seeds: &[(String, Vec<u8>)], cases: u64) {
    check(seeds, cases, |bytes| read_file(bytes).is_ok());
}

fn check(seeds: &[(String, Vec<u8>)], cases: u64, read: impl Fn(&[u8]) -> bool) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("GRAMPUS_TEST_CASES").unwrap_or(cases);
    let first = number("GRAMPUS_TEST_SEED");
    for case in first.unwrap_or(0)..first.map_or(cases, |seed| seed + 1) {
        let mut random = Random(case.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (name, bytes) = &seeds[random.below(seeds.len())];
        let mutated = mutate(bytes, &mut random);
        let start = Instant::now();
        let end = catch_unwind(AssertUnwindSafe(|| read(&mutated)));
        assert!(end.is_ok(), "{name} panics with GRAMPUS_TEST_SEED={case}");
        assert!(
            start.elapsed() < LIMIT,
            "{name} takes {:?} with GRAMPUS_TEST_SEED={case}",
            start.elapsed()
        );
    }
}

/// The corpus's files below 20 kB, by name.
fn small_corpus_files(folder: PathBuf) -> Vec<(String, Vec<u8>)> {
    let (mut folders, mut files) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
        {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "orc") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: PathBuf| {
        Some((
            path.file_name()?.to_string_lossy().into_owned(),
            std::fs::read(&path).ok()?,
        ))
    };
    files
        .into_iter()
        .filter_map(read)
        .filter(|(_, bytes)| (1..20_000).contains(&bytes.len()))
        .collect()
}

/// One to four changes, more often near the end, where the footers are.
fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = match random.below(3) {
            0 => random.below(bytes.len()),
            _ => bytes.len() - 1 - random.below(bytes.len().min(900)),
        };
        match random.below(7) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
            3 => bytes[at] = bytes[at].wrapping_add(1),
            4 => {
                let end = (at + 1 + random.below(10)).min(bytes.len());
                bytes[at..end].fill(0xFF);
            }
            5 => bytes.insert(at, random.below(256) as u8),
            _ if bytes.len() > 16 => {
                bytes.remove(at);
            }
            _ => {}
        }
    }
    bytes
}

/// Xorshift: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound.max(1)
    }
}
