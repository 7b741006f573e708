//! [`sanitized`]: a test's C++ program with device code, compiled with sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

use grampus_cuda::host_compiler;

/// What a program is checked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Checks {
    /// Addresses and undefined behaviour.
    Memory,
    /// Races between threads.
    Races,
}

impl Checks {
    /// The compiler's flags, with as much debug information as the reports need: all of it takes time.
    fn flags(self) -> [&'static str; 3] {
        match self {
            Self::Memory => ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Self::Races => ["-g1", "-fsanitize=thread", "-pthread"],
        }
    }

    /// Libraries of which a linker misses one, if the compiler lacks the sanitizers.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Self::Memory => &["asan", "ubsan"],
            Self::Races => &["tsan"],
        }
    }
}

/// Compiles `text` as the program `name`. `None`: there is no compiler, or it has no sanitizers.
pub(crate) fn sanitized(name: &str, text: &str, checks: Checks) -> Option<PathBuf> {
    let (compiler, _) = match host_compiler() {
        Ok(found) => found,
        Err(error) => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, error);
            return None;
        }
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join(format!("{name}.cc")), folder.join(name));
    std::fs::write(&source, text).expect("cargo's folder for temporary files is writable");
    let mut command = Command::new(&compiler);
    command.args(["-std=c++17", "-O1", "-w"]).args(checks.flags());
    command.arg("-o").arg(&program).arg(&source);
    let out = command.output().expect("the compiler starts");
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let is_missing = checks.libraries().iter().any(|library| said.contains(library));
        assert!(is_missing, "{said}");
        grampus_test_support::missing(grampus_test_support::Resource::Sanitizers, compiler);
        return None;
    }
    Some(program)
}

/// Runs a program just built. Returns its exit status, and all that it printed.
pub(crate) fn run(program: &mut Command) -> (Option<i32>, String) {
    let out = program.output().expect("a program just built runs");
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    (out.status.code(), said)
}

/// As [`run`], of a program that finds nothing wrong. Returns what it printed.
pub(crate) fn passes(name: &str, program: &mut Command) -> String {
    let (status, said) = run(program);
    assert_eq!(status, Some(0), "{said}");
    println!("{name}: {said}");
    said
}
