//! [`Resource`]s of tests: other readers, example files, compilers. A test without its resource passes and says so.
//!
//! - The line "ignored: no …" goes to stdout, which cargo captures.
//! - It is appended to the file that `GRAMPUS_SKIPPED` names, for the summary of `.ci/run`.
//! - If `GRAMPUS_REQUIRE` lists the resource, the test fails. `.ci/run` lists them in CI.

#[cfg(target_os = "linux")]
pub mod cold_files;
#[cfg(unix)]
pub mod fake_machine;
pub mod map_names;
#[cfg(unix)]
pub mod qemu;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A thing outside the project that a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Example files of other projects, and the taxi sample: `$GRAMPUS_SHARED`, or `shared` beside the project.
    Data,
    /// Python with pyarrow.
    Pyarrow,
    /// Python with pyorc.
    Pyorc,
    /// NVIDIA's runtime compiler.
    Nvrtc,
    /// A C++ compiler.
    Compiler,
    /// The compiler's sanitizers.
    Sanitizers,
    /// An NVIDIA GPU.
    Gpu,
    /// A file system with direct I/O.
    DirectIo,
    /// A folder for temporary files on a disk that says which pages are in memory, and counts what it reads.
    Disk,
    /// QEMU's PC emulator, with its NVMe controller.
    Qemu,
    /// A Linux kernel and a shell for QEMU's virtual machines.
    GuestKernel,
}

impl Resource {
    /// The name in `GRAMPUS_REQUIRE`, and in "ignored: no NAME".
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Pyarrow => "pyarrow",
            Self::Pyorc => "pyorc",
            Self::Nvrtc => "NVRTC",
            Self::Compiler => "compiler",
            Self::Sanitizers => "sanitizers",
            Self::Gpu => "GPU",
            Self::DirectIo => "direct-io",
            Self::Disk => "disk",
            Self::Qemu => "QEMU",
            Self::GuestKernel => "guest-kernel",
        }
    }
}

/// Reports that the calling test, or a part of it, is left out for want of `resource`; `detail` says where it was
/// searched.
///
/// # Panics
/// If `GRAMPUS_REQUIRE` lists the resource (names between commas).
pub fn missing(resource: Resource, detail: impl Display) {
    let thread = std::thread::current();
    let (test, name) = (thread.name().unwrap_or("a test"), resource.name());
    println!("ignored: no {name} ({detail})");
    let required = std::env::var("GRAMPUS_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|required| required == name),
        "{test} needs {name}, which GRAMPUS_REQUIRE lists: {detail}"
    );
    let Some(path) = std::env::var_os("GRAMPUS_SKIPPED") else {
        return;
    };
    // One write: tests of several processes append to the file.
    let line = format!("no {name}: {test}\n");
    let appended = std::fs::OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = appended.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("GRAMPUS_SKIPPED cannot be written: {error}");
    }
}

/// The command of a program under test, without the variables that agents set: its output would be another.
pub fn program(path: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(path);
    for variable in ["AI_AGENT", "CLAUDECODE"] {
        command.env_remove(variable);
    }
    command
}

/// A path below the data folder (`orc`, `taxi`), or `None` after a report by [`missing`].
pub fn data(path: &str) -> Option<PathBuf> {
    // This crate lies two folders deep in the project.
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("GRAMPUS_SHARED").map_or(beside, PathBuf::from);
    let found = shared.join("data").join(path);
    if found.exists() {
        return Some(found);
    }
    missing(Resource::Data, format!("{} is not there", found.display()));
    None
}

/// The interpreter `$GRAMPUS_PYTHON`, or else `python3`, if it has all the libraries (pyarrow, pyorc). If it lacks
/// one, `None` after a report by [`missing`].
pub fn python(libraries: &[Resource]) -> Option<String> {
    let python = std::env::var("GRAMPUS_PYTHON").unwrap_or_else(|_| "python3".into());
    for &library in libraries {
        let script = format!(
            "import {}",
            if library == Resource::Pyarrow {
                "pyarrow.orc"
            } else {
                library.name()
            }
        );
        let found = Command::new(&python).args(["-c", &script]).output();
        if !found.is_ok_and(|out| out.status.success()) {
            missing(library, format!("for {python}"));
            return None;
        }
    }
    Some(python)
}
