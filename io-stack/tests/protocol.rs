//! The queue and cache protocol on CPU threads, by tests/cpp/protocol.cc.
//!
//! 1. Threads under ThreadSanitizer.
//! 2. Interleavings of a seeded scheduler.
//! 3. Mutants: known mistakes that must be found.
//! 4. Runs in which the N-th command fails: a prefetch fails no reader.
//! 5. Faults that must end in time.
//!
//! The first four with warps of one lane and of 32.

mod common;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Compiles the test program; `None` without a compiler, or without one that has the requested sanitizer.
fn program(name: &str, flags: &[&str]) -> Option<PathBuf> {
    let compiler = common::compiler()?;
    let folder = common::scratch(&format!("protocol-{name}"));
    // Each test may run in its own process, and all build the same files. A process replaces files that another one
    // reads or runs, and never writes to them.
    let mine = |name: &str| folder.join(format!("{name}.{}", std::process::id()));
    let (asserts, binary) = (mine("asserts"), folder.join("protocol"));
    std::fs::write(&asserts, grampus_io_stack::abi::static_asserts()).expect("writable");
    std::fs::rename(asserts, folder.join("layout_asserts.h")).expect("writable");
    let built = mine("built");
    let path = built.to_string_lossy().into_owned();
    let arguments: Vec<&str> = ["protocol.cc", "-o", &path].iter().chain(flags).copied().collect();
    let out = common::compile(&compiler, &folder, &arguments);
    if !out.status.success() {
        let complaint = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            flags.iter().any(|f| f.contains("sanitize")) && complaint.contains("tsan"),
            "{complaint}"
        );
        grampus_test_support::missing(grampus_test_support::Resource::Sanitizers, compiler);
        return None;
    }
    std::fs::rename(built, &binary).expect("writable");
    Some(binary)
}

/// A build of the test program. Warps have one lane, or 32, which are fibers.
#[derive(Clone, Copy)]
enum Build {
    Plain,
    Sanitized,
    Lanes,
    SanitizedLanes,
}

/// The program, built once for each process.
fn built(build: Build) -> Option<&'static PathBuf> {
    static BUILT: [OnceLock<Option<PathBuf>>; 4] = [const { OnceLock::new() }; 4];
    let (name, flags): (&str, &[&str]) = match build {
        Build::Plain => ("plain", &[]),
        Build::Sanitized => ("tsan", &["-fsanitize=thread"]),
        Build::Lanes => ("lanes", &["-DGRAMPUS_LANES"]),
        Build::SanitizedLanes => ("tsan-lanes", &["-DGRAMPUS_LANES", "-fsanitize=thread"]),
    };
    BUILT[build as usize].get_or_init(|| program(name, flags)).as_ref()
}

/// Runs the program; returns whether it succeeded, and its output.
fn run(binary: &PathBuf, arguments: &[&str]) -> (bool, String) {
    let out = Command::new(binary)
        .args(arguments)
        .env("TSAN_OPTIONS", "halt_on_error=1 exitcode=66")
        .output()
        .expect("a program just built runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    (out.status.success(), said)
}

fn succeeds(build: Build, arguments: &[&str]) {
    let Some(binary) = built(build) else { return };
    let (content, said) = run(binary, arguments);
    assert!(content, "replay with: protocol {} SEED 1\n{said}", arguments[0]);
    println!("{said}");
}

#[test]
fn threads_under_thread_sanitizer() {
    succeeds(Build::Sanitized, &["threads", "1", "21"]);
}

/// Each lane counts as a thread: memory that lanes share is ordered by `sync_warp` alone.
#[test]
fn threads_of_32_lanes_under_thread_sanitizer() {
    succeeds(Build::SanitizedLanes, &["threads", "1", "7"]);
}

#[test]
fn interleavings_by_seed() {
    succeeds(Build::Plain, &["fibers", "1", "600"]);
}

#[test]
fn interleavings_of_32_lanes_by_seed() {
    succeeds(Build::Lanes, &["fibers", "1", "100"]);
}

#[test]
fn failed_prefetch_fails_no_reader_and_a_failed_fill_ends_the_run() {
    succeeds(Build::Plain, &["nth", "1", "40"]);
    succeeds(Build::Lanes, &["nth", "1", "8"]);
}

#[test]
fn every_fault_ends_in_time() {
    succeeds(Build::Plain, &["bounds"]);
}

/// The mistakes of `enum Mutant` in target.h.
const MUTANTS: [&str; 14] = [
    "publish before write",
    "ring before fence",
    "free before reap",
    "forget the phase flip",
    "mark before entry",
    "tag not checked after pinning",
    "version not checked",
    "no pin for outstanding commands",
    "waiters do not ring what was left to servers",
    "install adds REF",
    "validated before the reads",
    "no sync_warp() before a pinned line is read",
    "a failed prefetch leaves its sectors requested",
    "a failed prefetch takes its request back after its pin is dropped",
];
const VALIDATED_EARLY: usize = 11;
const NO_SYNC_WARP: usize = 12;

/// Whether the scheduler, or else ThreadSanitizer, finds the mistake. `None`: a program could not be built.
fn catches(number: usize, plain: (Build, &str), sanitized: (Build, &str)) -> Option<bool> {
    let (name, mutant) = (MUTANTS[number - 1], number.to_string());
    let (content, said) = run(built(plain.0)?, &["fibers", "1", plain.1, &mutant]);
    if !content {
        let seed = said.lines().rev().find(|line| line.starts_with("FAILED"));
        println!("{name}: caught by the scheduler: {}", seed.unwrap_or("no end"));
        return Some(true);
    }
    // A mistake that is only in memory order does not show in interleavings.
    let (content, said) = run(built(sanitized.0)?, &["threads", "1", sanitized.1, &mutant]);
    let found = said.lines().find(|line| line.contains("WARNING"));
    println!("{name}: on threads: {}", found.unwrap_or("no race"));
    Some(!content)
}

#[test]
fn every_mutant_is_caught() {
    // One lane has no other lane to synchronize with.
    for number in (1..=MUTANTS.len()).filter(|number| *number != NO_SYNC_WARP) {
        let caught = catches(number, (Build::Plain, "300"), (Build::Sanitized, "40"));
        assert_ne!(caught, Some(false), "{}", MUTANTS[number - 1]);
    }
}

#[test]
fn every_mutant_is_caught_with_32_lanes() {
    // Early validation shows if a line is replaced and filled between two loads of a lane. With 32 lanes the seeds
    // reach this too seldom.
    for number in (1..=MUTANTS.len()).filter(|number| *number != VALIDATED_EARLY) {
        let caught = catches(number, (Build::Lanes, "100"), (Build::SanitizedLanes, "40"));
        assert_ne!(caught, Some(false), "{}", MUTANTS[number - 1]);
    }
}
