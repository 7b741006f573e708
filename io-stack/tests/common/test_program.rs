//! Test programs of tests/cpp that run device code on the CPU: their builds and their runs.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::{compile, compiler, scratch};

/// Compiles a program; `None` without a compiler, or without one that has the requested sanitizer.
fn program(source: &str, name: &str, flags: &[&str]) -> Option<PathBuf> {
    let compiler = compiler()?;
    let folder = scratch(&format!("{source}-{name}"));
    // Each test may run in its own process, and all build the same files. A process replaces files that another one
    // reads or runs, and never writes to them.
    let mine = |name: &str| folder.join(format!("{name}.{}", std::process::id()));
    let (asserts, binary) = (mine("asserts"), folder.join(source));
    std::fs::write(&asserts, grampus_io_stack::abi::static_asserts()).expect("writable");
    std::fs::rename(asserts, folder.join("layout_asserts.h")).expect("writable");
    let (built, source) = (mine("built"), format!("{source}.cc"));
    let path = built.to_string_lossy().into_owned();
    let arguments: Vec<&str> = [&source, "-o", &path]
        .into_iter()
        .chain(flags.iter().copied())
        .collect();
    let out = compile(&compiler, &folder, &arguments);
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

/// A build of a test program. Warps have one lane, or 32, which are fibers.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    Plain,
    Sanitized,
    Lanes,
    SanitizedLanes,
}

/// A program of tests/cpp, each build of it made once for each process.
pub(crate) struct TestProgram {
    source: &'static str,
    built: [OnceLock<Option<PathBuf>>; 4],
}

impl TestProgram {
    pub(crate) const fn new(source: &'static str) -> Self {
        Self {
            source,
            built: [const { OnceLock::new() }; 4],
        }
    }

    /// The program's path. `None`: it could not be built.
    pub(crate) fn built(&self, build: Build) -> Option<&PathBuf> {
        let (name, flags): (&str, &[&str]) = match build {
            Build::Plain => ("plain", &[]),
            // With lines for the sanitizer's reports. All of the debug information takes a quarter of a compilation.
            Build::Sanitized => ("tsan", &["-g1", "-fsanitize=thread"]),
            Build::Lanes => ("lanes", &["-DGRAMPUS_LANES"]),
            Build::SanitizedLanes => ("tsan-lanes", &["-g1", "-DGRAMPUS_LANES", "-fsanitize=thread"]),
        };
        self.built[build as usize]
            .get_or_init(|| program(self.source, name, flags))
            .as_ref()
    }

    /// Runs a build; returns whether it succeeded, and its output. `None`: it could not be built.
    fn run(&self, build: Build, arguments: &[&str]) -> Option<(bool, String)> {
        let out = Command::new(self.built(build)?)
            .args(arguments)
            .env("TSAN_OPTIONS", "halt_on_error=1 exitcode=66")
            .output()
            .expect("a program just built runs");
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        Some((out.status.success(), said))
    }

    /// Asserts that a run succeeds.
    pub(crate) fn succeeds(&self, build: Build, arguments: &[&str]) {
        let Some((content, said)) = self.run(build, arguments) else {
            return;
        };
        assert!(content, "replay with: {} {} SEED 1\n{said}", self.source, arguments[0]);
        println!("{said}");
    }

    /// Whether the scheduler, or else ThreadSanitizer, finds the mistake of a mutant, in as many seeds. `None`: a
    /// program could not be built.
    pub(crate) fn catches(
        &self,
        (number, name): (usize, &str),
        plain: (Build, &str),
        sanitized: (Build, &str),
    ) -> Option<bool> {
        let mutant = number.to_string();
        let (content, said) = self.run(plain.0, &["fibers", "1", plain.1, &mutant])?;
        if !content {
            let seed = said.lines().rev().find(|line| line.starts_with("FAILED"));
            println!("{name}: caught by the scheduler: {}", seed.unwrap_or("no end"));
            return Some(true);
        }
        // A mistake that is only in memory order does not show in interleavings.
        let (content, said) = self.run(sanitized.0, &["threads", "1", sanitized.1, &mutant])?;
        let found = said.lines().find(|line| line.contains("WARNING"));
        println!("{name}: on threads: {}", found.unwrap_or("no race"));
        Some(!content)
    }
}
