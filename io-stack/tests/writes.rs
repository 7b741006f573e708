//! Stores to columns on CPU threads, by tests/cpp/writes.cc: dirty lines, write-back, flushes.
//!
//! 1. Threads under ThreadSanitizer.
//! 2. Interleavings of a seeded scheduler, with failed writes.
//! 3. Losses of power: what was flushed is there. `GRAMPUS_TEST_CASES` sets their number.
//! 4. Mutants: known mistakes that must be found.
//! 5. Faults that must end in time.
//!
//! All with warps of one lane and of 32.

mod common;

use common::test_program::{Build, TestProgram};

static PROGRAM: TestProgram = TestProgram::new("writes");

#[test]
fn stores_on_threads_under_thread_sanitizer() {
    PROGRAM.succeeds(Build::Sanitized, &["threads", "1", "12"]);
}

#[test]
fn stores_on_threads_of_32_lanes_under_thread_sanitizer() {
    PROGRAM.succeeds(Build::SanitizedLanes, &["threads", "1", "5"]);
}

#[test]
fn stores_under_interleavings_by_seed() {
    PROGRAM.succeeds(Build::Plain, &["fibers", "1", "400"]);
}

#[test]
fn stores_of_32_lanes_under_interleavings_by_seed() {
    PROGRAM.succeeds(Build::Lanes, &["fibers", "1", "60"]);
}

#[test]
fn losses_of_power_leave_what_was_flushed() {
    let losses = std::env::var("GRAMPUS_TEST_CASES").unwrap_or_else(|_| "3000".to_owned());
    PROGRAM.succeeds(Build::Plain, &["power", "1", &losses]);
    let few = losses.parse::<u64>().expect("GRAMPUS_TEST_CASES is a number") / 10;
    PROGRAM.succeeds(Build::Lanes, &["power", "1", &few.to_string()]);
}

#[test]
fn every_fault_of_a_write_ends_in_time() {
    PROGRAM.succeeds(Build::Plain, &["bounds"]);
    PROGRAM.succeeds(Build::Lanes, &["bounds"]);
}

/// The mistakes of stores in `enum Mutant` of target.h, with their numbers there.
const MUTANTS: [(usize, &str); 7] = [
    (15, "a line may be reused before its write has completed"),
    (16, "sectors count as clean some time after they were copied out"),
    (17, "a sector is written twice at a time"),
    (18, "sectors stay clean although their write failed"),
    (19, "stores do not wait for the line's lock"),
    (20, "a flush does not wait for the writes before it"),
    (21, "a tile that covers a sector does not fetch the rest of its block"),
];

#[test]
fn every_mutant_of_stores_is_caught() {
    for mutant in MUTANTS {
        let caught = PROGRAM.catches(mutant, (Build::Plain, "200"), (Build::Sanitized, "12"));
        assert_ne!(caught, Some(false), "{}", mutant.1);
        let caught = PROGRAM.catches(mutant, (Build::Lanes, "60"), (Build::SanitizedLanes, "5"));
        assert_ne!(caught, Some(false), "{} (32 lanes)", mutant.1);
    }
}
