//! The decompression kernels' C++ under address and undefined-behaviour sanitizers: chunks in buffers of exactly their
//! words, outputs in buffers of exactly their bytes. A file hands the chunks and what the peers made of them to it.

use std::path::Path;
use std::process::Command;

use grampus_gpu_exec::decompress::{ChunkKernel, library_translation_unit};

use crate::common::random::Random;
use crate::common::sanitized_program::{Checks, passes, sanitized};
use crate::sample_chunks::{Sample, damaged, hand_made, samples};

const HOST_FUNCTIONS: &str = include_str!("../cpp/host_functions.h");

/// Length, codec, space and expected length (all ones: refused) of each chunk, then its bytes and the expected ones.
fn cases(samples: &[Sample]) -> Vec<u8> {
    let mut out = Vec::new();
    for sample in samples {
        let wanted = sample.codec.by_peer(&sample.stored, sample.space);
        let length = wanted.as_ref().map_or(u32::MAX, |bytes| bytes.len() as u32);
        for word in [
            sample.stored.len() as u32,
            sample.codec.number(),
            sample.space as u32,
            length,
        ] {
            out.extend(word.to_le_bytes());
        }
        out.extend(&sample.stored);
        out.extend(wanted.unwrap_or_default());
    }
    out
}

/// Runs each kernel over its chunks. `mutations`: how often each chunk is changed further, which must not matter to
/// memory.
fn run(name: &str, around: (&str, &str), samples: &[Sample], mutations: u32) {
    for kernel in ChunkKernel::ALL {
        let own: Vec<Sample> = samples
            .iter()
            .filter(|sample| sample.codec.kernel() == kernel)
            .cloned()
            .collect();
        run_kernel(&format!("{name}_{kernel:?}"), kernel, around, &own, mutations);
    }
}

fn run_kernel(name: &str, kernel: ChunkKernel, (before, after): (&str, &str), samples: &[Sample], mutations: u32) {
    let text = format!(
        "{before}{}{after}{HOST_FUNCTIONS}#define DECOMPRESS {}\n{}",
        kernel.translation_unit(),
        kernel.entry(),
        include_str!("../cpp/decompress_cases.cc")
    );
    let Some(program) = sanitized(name, &text, Checks::Memory) else {
        return;
    };
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.cases"));
    std::fs::write(&file, cases(samples)).expect("writable");
    passes(name, Command::new(program).arg(&file).arg(mutations.to_string()));
}

fn all(seeds: u64, most: u64) -> Vec<Sample> {
    let mut all: Vec<Sample> = hand_made().into_iter().map(|(sample, _)| sample).collect();
    for seed in 0..seeds {
        let mut random = Random(seed * 104_729 + 1);
        all.extend(samples(&mut random, most));
        all.extend(damaged(&mut random, most));
    }
    all
}

#[test]
fn chunks_are_read_and_written_in_bounds_by_one_lane() {
    run("decompress_cases", ("", ""), &all(60, 20_000), 30);
}

#[test]
fn chunks_are_read_and_written_in_bounds_by_32_lanes() {
    let lanes = (
        include_str!("../../../io-stack/cuda/src/lanes.h"),
        include_str!("../../../io-stack/cuda/src/lanes_end.h"),
    );
    run("decompress_cases_lanes", lanes, &all(6, 600), 1);
}

#[test]
fn chunks_for_nvcomp_are_read_and_written_in_bounds() {
    let name = "library_cases";
    let text = library_translation_unit() + HOST_FUNCTIONS + include_str!("../cpp/library_cases.cc");
    let Some(program) = sanitized(name, &text, Checks::Memory) else {
        return;
    };
    passes(name, Command::new(program).arg("200000"));
}
