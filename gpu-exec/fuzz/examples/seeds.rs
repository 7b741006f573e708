//! Writes the fuzz target's first inputs. Arguments: the folder, and the target (`decompress`).

use std::path::PathBuf;

use grampus_gpu_fuzz::{compressed, decompress, input};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder"));
    std::fs::create_dir_all(&folder)?;
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
        for (lz4, codec) in [(false, 1), (true, 2)] {
            let stored = compressed(codec, &bytes);
            let seeds = [
                input(lz4, false, bytes.len() as u16, &stored),
                input(lz4, true, 0, &bytes),
            ];
            for (number, seed) in seeds.iter().enumerate() {
                decompress(seed);
                std::fs::write(folder.join(format!("{name}-{codec}-{number}")), seed)?;
            }
        }
    }
    Ok(())
}
