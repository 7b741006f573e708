//! Seed inputs as files.

use std::path::PathBuf;

use crate::other_writers;

/// Writes the seed inputs of a fuzz target into the folder that `FUZZ_SEEDS` names, if it names one. Called before the
/// fuzzer reads its corpus: a program of its own would be compiled for these few files, with all dependencies.
///
/// # Panics
/// If a file cannot be written.
pub fn write(target: &str) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    let seeds = match target {
        "read_file" => [crate::seeds::seeds(), other_writers::files()].concat(),
        "rle" => [crate::rle::seeds(), other_writers::streams()].concat(),
        "write" => crate::write::seeds(),
        other => panic!("no fuzz target is named {other}"),
    };
    std::fs::create_dir_all(&folder).expect("a folder for seeds");
    for (name, bytes) in seeds {
        std::fs::write(folder.join(name), bytes).expect("a seed");
    }
}
