//! The queue and cache protocol on CPU threads, by tests/cpp/protocol.cc.
//!
//! 1. Threads under ThreadSanitizer.
//! 2. Interleavings of a seeded scheduler.
//! 3. Mutants: known mistakes that must be found.
//! 4. Faults that must end in time.

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
        println!("skipped: the compiler has no ThreadSanitizer");
        return None;
    }
    std::fs::rename(built, &binary).expect("writable");
    Some(binary)
}

fn plain() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| program("plain", &[])).as_ref()
}

fn sanitized() -> Option<&'static PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT.get_or_init(|| program("tsan", &["-fsanitize=thread"])).as_ref()
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

#[test]
fn threads_under_thread_sanitizer() {
    let Some(binary) = sanitized() else { return };
    let (content, said) = run(binary, &["threads", "1", "21"]);
    assert!(content, "{said}");
    println!("{said}");
}

#[test]
fn interleavings_by_seed() {
    let Some(binary) = plain() else { return };
    let (content, said) = run(binary, &["fibers", "1", "600"]);
    assert!(content, "replay with: protocol fibers SEED 1\n{said}");
    println!("{said}");
}

#[test]
fn every_fault_ends_in_time() {
    let Some(binary) = plain() else { return };
    let (content, said) = run(binary, &["bounds"]);
    assert!(content, "{said}");
    println!("{said}");
}

/// The mistakes of `enum Mutant` in target.h.
const MUTANTS: [&str; 9] = [
    "publish before write",
    "ring before fence",
    "free before reap",
    "forget the phase flip",
    "mark before entry",
    "tag not checked after pinning",
    "version not checked",
    "no pin for outstanding commands",
    "waiters do not ring what was left to servers",
];

#[test]
fn every_mutant_is_caught() {
    let Some(plain) = plain() else { return };
    for (number, name) in (1..).zip(MUTANTS) {
        let number: String = format!("{number}");
        let (content, said) = run(plain, &["fibers", "1", "300", &number]);
        if !content {
            let seed = said
                .lines()
                .rev()
                .find(|line| line.starts_with("FAILED"))
                .unwrap_or("a schedule without end");
            println!("{name}: caught by the scheduler: {seed}");
            continue;
        }
        // A mistake that is only in memory order does not show in interleavings.
        let Some(sanitized) = sanitized() else { continue };
        let (content, said) = run(sanitized, &["threads", "1", "40", &number]);
        assert!(!content, "{name} was not caught");
        println!(
            "{name}: caught on threads: {}",
            said.lines().find(|l| l.contains("WARNING")).unwrap_or("wrong bytes")
        );
    }
}
