//! The decompression kernels against `snap`, `lz4_flex`, `libdeflater` and `zstd`: the same bytes come out, or both
//! refuse the chunk.
//!
//! ```text
//! codec            a codec's number, its kernel and its peer
//! deflate_blocks   deflate chunks of random blocks
//! library          nvCOMP, or its stand-in on host threads
//! sample_chunks    chunks of all codecs: compressed, made of random elements, damaged
//! sanitized_input  the kernels under sanitizers
//! ```

mod codec;
#[path = "../common/mod.rs"]
mod common;
mod deflate_blocks;
mod library;
mod sample_chunks;
mod sanitized_input;

use std::sync::Arc;

use codec::Codec;
use common::lockstep;
use common::random::Random;
use grampus_cuda::{self as cuda, Device, Module};
use grampus_gpu_exec::abi::decompress::{CHUNK_CORRUPT, CHUNK_TOO_LONG, CODEC_ORIGINAL};
use grampus_gpu_exec::codegen::{GPU_LANES, HOST_LANES};
use grampus_gpu_exec::decompress::ChunkKernel;
use grampus_gpu_exec::decompress::standalone::{Chunk, Outcomes, decompress};
use grampus_gpu_exec::kernel_cache::KernelCache;
use sample_chunks::{Sample, damaged, hand_made, samples};

/// A device that decompresses: warps of one lane, warps of 32 lanes in lockstep, or a GPU.
struct Target {
    device: Device,
    modules: [Arc<Module>; 3], // of ChunkKernel::ALL
    lanes: u32,
}

fn loaded(modules: &KernelCache, kernel: ChunkKernel) -> Arc<Module> {
    let loaded = modules.decompressing(kernel).unwrap_or_else(|e| panic!("{e}"));
    println!("{kernel:?}: compiled in {:?}", loaded.took);
    loaded.module
}

fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    match cuda::host_compiler() {
        Ok(_) => {
            let device = Device::host(2, 1 << 30);
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler");
            targets.push(Target {
                device: device.clone(),
                modules: ChunkKernel::ALL.map(|kernel| loaded(&modules, kernel)),
                lanes: HOST_LANES,
            });
            let lockstep = |kernel: ChunkKernel| lockstep::module(&device, &kernel.translation_unit(), kernel.entry());
            targets.push(Target {
                modules: ChunkKernel::ALL.map(lockstep),
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Compiler, e),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(device) => {
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is NVRTC");
            targets.push(Target {
                modules: ChunkKernel::ALL.map(|kernel| loaded(&modules, kernel)),
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Gpu, e),
    }
    targets
}

impl Target {
    /// What becomes of chunks, each by its codec's kernel.
    fn decompress(&self, samples: &[Sample], what: &str) -> Outcomes {
        let mut found = vec![Err(u32::MAX); samples.len()];
        for (kernel, module) in ChunkKernel::ALL.iter().zip(&self.modules) {
            let (places, chunks): (Vec<usize>, Vec<Chunk<'_>>) = (samples.iter().enumerate())
                .filter(|(_, sample)| sample.codec.kernel() == *kernel)
                .map(|(at, sample)| (at, sample.chunk()))
                .unzip();
            let outcomes = decompress(&self.device, (*kernel, module), &chunks)
                .unwrap_or_else(|e| panic!("{what}, {} lanes: {e}", self.lanes));
            places
                .into_iter()
                .zip(outcomes)
                .for_each(|(at, outcome)| found[at] = outcome);
        }
        found
    }

    /// Compares the kernels with the codecs' peers, chunk by chunk.
    fn check(&self, samples: &[Sample], what: &str, is_damaged: bool) -> (usize, usize) {
        let found = self.decompress(samples, what);
        let (mut good, mut bad, mut stricter) = (0, 0, 0);
        for (at, (sample, found)) in samples.iter().zip(&found).enumerate() {
            let wanted = sample.codec.by_peer(&sample.stored, sample.space);
            // The library zstd's fast loops do not look whether bits are left in a stream.
            if sample.codec == Codec::Zstd && is_damaged && *found == Err(CHUNK_CORRUPT) && wanted.is_some() {
                stricter += 1;
                continue;
            }
            assert!(
                found.as_ref().ok() == wanted.as_ref(),
                "{what}, chunk {at}, {:?}, {} lanes: {:?} bytes, not {:?}, of {:02x?}",
                sample.codec,
                self.lanes,
                found.as_ref().map(Vec::len),
                wanted.as_ref().map(Vec::len),
                &sample.stored[..sample.stored.len().min(80)]
            );
            *(if wanted.is_some() { &mut good } else { &mut bad }) += 1;
        }
        assert!(
            stricter <= samples.len() / 10,
            "{what}: {stricter} chunks refused that the peer takes"
        );
        (good, bad)
    }
}

/// Seeds of a test: lockstep lanes on host threads are slow.
fn seeds(target: &Target, most: u64) -> std::ops::Range<u64> {
    let fewer = target.device.is_host() && target.lanes > 1;
    1..1 + if fewer { most / 10 } else { most }
}

#[test]
fn hand_made_chunks_decompress_as_the_formats_say() {
    let (mut all, mut expected) = (Vec::new(), Vec::new());
    for (sample, bytes) in hand_made() {
        // The expected values are from the formats; that the peer agrees is checked too.
        assert_eq!(sample.codec.by_peer(&sample.stored, sample.space), bytes, "{sample:?}");
        all.push(sample);
        expected.push(bytes);
    }
    for target in targets() {
        let found = target.decompress(&all, "by hand");
        for ((found, expected), sample) in found.iter().zip(&expected).zip(&all) {
            assert_eq!(
                found.as_ref().ok(),
                expected.as_ref(),
                "{sample:?}, {} lanes",
                target.lanes
            );
        }
    }
}

#[test]
fn compressed_data_comes_back() {
    for target in targets() {
        for seed in seeds(&target, 60) {
            let mut random = Random(seed);
            let samples = samples(
                &mut random,
                if target.lanes > 1 && target.device.is_host() {
                    3_000
                } else {
                    70_000
                },
            );
            let (good, bad) = target.check(&samples, &format!("seed {seed}"), false);
            assert!(
                good > 0 && bad > 0,
                "chunks that fit and chunks that do not: {good}, {bad}"
            );
        }
    }
}

#[test]
fn damaged_chunks_are_refused_or_decompress_as_by_the_peer() {
    for target in targets() {
        let (mut good, mut bad) = (0, 0);
        for seed in seeds(&target, 300) {
            let mut random = Random(seed * 7919);
            let samples = damaged(
                &mut random,
                if target.lanes > 1 && target.device.is_host() {
                    500
                } else {
                    5_000
                },
            );
            let (g, b) = target.check(&samples, &format!("seed {seed}"), true);
            (good, bad) = (good + g, bad + b);
        }
        println!("{} lanes: {good} decompressed, {bad} refused", target.lanes);
        assert!(good > 50 && bad > 50, "{good} decompressed, {bad} refused");
    }
}

#[test]
fn status_says_why_a_chunk_is_refused() {
    let bytes: Vec<u8> = (0..1000u32).flat_map(|i| (i / 10).to_le_bytes()).collect();
    for target in targets() {
        for codec in Codec::ALL {
            let at = ChunkKernel::ALL.iter().position(|kernel| *kernel == codec.kernel());
            let module = &target.modules[at.expect("one of them")];
            let stored = codec.compress(&bytes);
            let chunk = |stored, space| Chunk {
                stored,
                codec: codec.number(),
                space,
            };
            let cut = &stored[..stored.len() - 1];
            let found = decompress(
                &target.device,
                (codec.kernel(), module),
                &[
                    chunk(&stored, bytes.len()),
                    chunk(&stored, bytes.len() - 1),
                    chunk(cut, bytes.len()),
                    Chunk {
                        codec: 99,
                        ..chunk(&stored, bytes.len())
                    },
                    Chunk {
                        codec: CODEC_ORIGINAL,
                        ..chunk(&stored, stored.len())
                    },
                    Chunk {
                        codec: CODEC_ORIGINAL,
                        ..chunk(&stored, stored.len() - 1)
                    },
                ],
            );
            let expected = [
                Ok(bytes.clone()),
                Err(CHUNK_TOO_LONG),
                Err(CHUNK_CORRUPT),
                Err(CHUNK_CORRUPT),
                Ok(stored.clone()),
                Err(CHUNK_TOO_LONG),
            ];
            assert_eq!(found.unwrap_or_else(|e| panic!("{e}")), expected, "{codec:?}");
        }
    }
}
