//! The decoding kernel's C++ under address and undefined-behaviour sanitizers, on random bytes.

use std::process::Command;

use grampus_gpu_exec::decode::translation_unit;

use crate::common::sanitized_program::{Checks, passes, sanitized};

/// Compiles the device code with address and undefined-behaviour checks, and decodes random bytes. `None`: the compiler
/// lacks the checks.
fn decode_random_bytes(name: &str, before: &str, after: &str, seeds: &str) -> Option<String> {
    let text = format!(
        "{before}{}{after}{}{}",
        translation_unit(),
        include_str!("../cpp/host_functions.h"),
        include_str!("../cpp/decode_random_bytes.cc")
    );
    let program = sanitized(name, &text, Checks::Memory)?;
    Some(passes(name, Command::new(program).args(["1", seeds])))
}

#[test]
fn random_bytes_are_read_in_bounds_by_one_lane() {
    if let Some(said) = decode_random_bytes("decode_random_bytes", "", "", "20000") {
        assert!(!said.starts_with("0 decoded") && !said.contains(" 0 errors"), "{said}");
    }
}

#[test]
fn random_bytes_are_read_in_bounds_by_32_lanes() {
    let (before, after) = (
        include_str!("../../../io-stack/cuda/src/lanes.h"),
        include_str!("../../../io-stack/cuda/src/lanes_end.h"),
    );
    if let Some(said) = decode_random_bytes("decode_random_bytes_lanes", before, after, "300") {
        assert!(!said.starts_with("0 decoded") && !said.contains(" 0 errors"), "{said}");
    }
}
