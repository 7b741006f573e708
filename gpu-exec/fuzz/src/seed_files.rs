//! Seed inputs as files.

use std::path::PathBuf;

use crate::{CODECS, compressed, input};

/// Writes the seed inputs into the folder that `FUZZ_SEEDS` names, if it names one. Called before the fuzzer reads its
/// corpus: a program of its own would be compiled for these few files.
///
/// # Panics
/// If a file cannot be written.
pub fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) else {
        return;
    };
    std::fs::create_dir_all(&folder).expect("a folder for seeds");
    let amounts: Vec<u8> = (0..900u32)
        .flat_map(|i| (f64::from(i * 7 % 500) / 100.0).to_le_bytes())
        .collect();
    let times: Vec<u8> = (0..900u64)
        .flat_map(|i| (1_400_000_000 + i * i).to_le_bytes())
        .collect();
    let words = "credit card, cash, no charge, ".repeat(90).into_bytes();
    let pattern: Vec<u8> = (0..5000usize).map(|i| (i % 37) as u8).collect();
    for (name, bytes) in [
        ("amounts", amounts),
        ("times", times),
        ("words", words),
        ("pattern", pattern),
    ] {
        for codec in CODECS {
            let stored = compressed(codec, &bytes, 6);
            let seeds = [
                input(codec, false, bytes.len() as u16, &stored),
                input(codec, true, 0, &bytes),
            ];
            for (number, seed) in seeds.iter().enumerate() {
                std::fs::write(folder.join(format!("{name}-{codec}-{number}")), seed).expect("a seed");
            }
        }
    }
}
