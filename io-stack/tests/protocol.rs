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

use common::test_program::{Build, TestProgram};

static PROGRAM: TestProgram = TestProgram::new("protocol");

#[test]
fn threads_under_thread_sanitizer() {
    PROGRAM.succeeds(Build::Sanitized, &["threads", "1", "21"]);
}

/// Each lane counts as a thread: memory that lanes share is ordered by `sync_warp` alone.
#[test]
fn threads_of_32_lanes_under_thread_sanitizer() {
    PROGRAM.succeeds(Build::SanitizedLanes, &["threads", "1", "7"]);
}

#[test]
fn interleavings_by_seed() {
    PROGRAM.succeeds(Build::Plain, &["fibers", "1", "600"]);
}

#[test]
fn interleavings_of_32_lanes_by_seed() {
    PROGRAM.succeeds(Build::Lanes, &["fibers", "1", "100"]);
}

#[test]
fn failed_prefetch_fails_no_reader_and_a_failed_fill_ends_the_run() {
    PROGRAM.succeeds(Build::Plain, &["nth", "1", "40"]);
    PROGRAM.succeeds(Build::Lanes, &["nth", "1", "8"]);
}

#[test]
fn every_fault_ends_in_time() {
    PROGRAM.succeeds(Build::Plain, &["bounds"]);
}

/// The mistakes of readers in `enum Mutant` of target.h, from 1 on. `LATE_DATA` is another one's number.
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
const LATE_DATA: (usize, &str) = (22, "data is published without the read that it precedes");
const VALIDATED_EARLY: usize = 11;
const NO_SYNC_WARP: usize = 12;

#[test]
fn every_mutant_is_caught() {
    // One lane has no other lane to synchronize with.
    for number in (1..=MUTANTS.len()).filter(|number| *number != NO_SYNC_WARP) {
        let caught = PROGRAM.catches(
            (number, MUTANTS[number - 1]),
            (Build::Plain, "300"),
            (Build::Sanitized, "40"),
        );
        assert_ne!(caught, Some(false), "{}", MUTANTS[number - 1]);
    }
}

#[test]
fn every_mutant_is_caught_with_32_lanes() {
    // Early validation shows if a line is replaced and filled between two loads of a lane. With 32 lanes the seeds
    // reach this too seldom.
    for number in (1..=MUTANTS.len()).filter(|number| *number != VALIDATED_EARLY) {
        let caught = PROGRAM.catches(
            (number, MUTANTS[number - 1]),
            (Build::Lanes, "100"),
            (Build::SanitizedLanes, "40"),
        );
        assert_ne!(caught, Some(false), "{}", MUTANTS[number - 1]);
    }
}

/// The tests' controllers may post a completion before its data. Data then comes with the read of a register.
#[test]
fn completion_that_overtakes_its_data_is_caught_without_the_ordering_read() {
    for (plain, sanitized) in [(Build::Plain, Build::Sanitized), (Build::Lanes, Build::SanitizedLanes)] {
        let caught = PROGRAM.catches(LATE_DATA, (plain, "60"), (sanitized, "10"));
        assert_ne!(caught, Some(false), "{}", LATE_DATA.1);
    }
}
