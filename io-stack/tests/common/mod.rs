//! The host's C++ compiler for tests; on a machine without one the tests print "skipped" and pass.

#[allow(dead_code)] // each test crate uses a part
pub(crate) mod test_program;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use grampus_cuda::host_compiler;

/// Folder for a test's files, one for each name.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("cargo's folder for temporary files is writable");
    folder
}

/// The host's C++ compiler; `None`: there is none, and the test is skipped.
pub(crate) fn compiler() -> Option<String> {
    match host_compiler() {
        Ok((name, _)) => Some(name),
        Err(e) => {
            grampus_test_support::missing(grampus_test_support::Resource::Compiler, e);
            None
        }
    }
}

/// Runs the compiler over the device code's test sources with `arguments` added.
pub(crate) fn compile(compiler: &str, folder: &Path, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new(compiler)
        .args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("device"))
        .arg("-I")
        .arg(folder)
        .args(arguments)
        .current_dir(root.join("tests/cpp"))
        .output()
        .expect("the compiler answered --version")
}
