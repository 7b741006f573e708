//! The decoding kernel's C++ under address and undefined-behaviour sanitizers, on random bytes.

use grampus_cuda as cuda;
use grampus_gpu_exec::decode::translation_unit;

/// Compiles the device code with address and undefined-behaviour checks, and decodes random bytes. `None`: the compiler
/// lacks the checks.
fn decode_random_bytes(name: &str, before: &str, after: &str, seeds: &str) -> Option<String> {
    let (compiler, _) = match cuda::host_compiler() {
        Ok(found) => found,
        Err(e) => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
            return None;
        }
    };
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.cc")), folder.join(name));
    let text = format!(
        "{before}{}{after}{}{}",
        translation_unit(),
        include_str!("../cpp/host_functions.h"),
        include_str!("../cpp/decode_random_bytes.cc")
    );
    std::fs::write(&source, text).expect("cargo's folder for temporary files is writable");
    let mut command = std::process::Command::new(&compiler);
    command.args([
        "-std=c++17",
        "-O1",
        "-g",
        "-w",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        "-o",
    ]);
    let out = command
        .arg(&program)
        .arg(&source)
        .output()
        .expect("the compiler starts");
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(said.contains("asan") || said.contains("ubsan"), "{said}");
        grampus_test_support::missing(grampus_test_support::Resource::Sanitizers, compiler);
        return None;
    }
    let out = std::process::Command::new(&program)
        .args(["1", seeds])
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    println!("{name}: {said}");
    Some(said)
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
