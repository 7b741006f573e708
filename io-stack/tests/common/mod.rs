//! The host's C++ compiler for tests; on a machine without one the tests print "skipped" and pass.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Folder for a test's files, one for each name.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("cargo's folder for temporary files is writable");
    folder
}

/// The first of `CXX`, g++, clang++, c++ that answers.
pub(crate) fn compiler() -> Option<String> {
    let named = std::env::var("CXX").ok();
    let found = named
        .into_iter()
        .chain(["g++", "clang++", "c++"].map(String::from))
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|out| out.status.success())
        });
    if found.is_none() {
        println!("skipped: no C++ compiler");
    }
    found
}

/// Runs the compiler over the device code's test sources with `arguments` added.
pub(crate) fn compile(compiler: &str, folder: &Path, arguments: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    Command::new(compiler)
        .args([
            "-std=c++17",
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-I",
        ])
        .arg(root.join("device"))
        .arg("-I")
        .arg(folder)
        .args(arguments)
        .current_dir(root.join("tests/cpp"))
        .output()
        .expect("the compiler answered --version")
}
