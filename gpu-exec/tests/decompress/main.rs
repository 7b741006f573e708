//! The decompression kernel against `snap` and `lz4_flex`: the same bytes come out, or both refuse the chunk.
//!
//! ```text
//! codec            a codec's number and its peer
//! library          nvCOMP, or its stand-in on host threads
//! sample_chunks    chunks of both codecs: compressed, made of random elements, damaged
//! sanitized_input  the kernel under sanitizers
//! ```

mod codec;
#[path = "../common/mod.rs"]
mod common;
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
use grampus_gpu_exec::decompress::standalone::{Chunk, decompress};
use grampus_gpu_exec::decompress::{ENTRY, translation_unit};
use grampus_gpu_exec::kernel_cache::KernelCache;
use sample_chunks::{Sample, damaged, hand_made, samples};

/// A device that decompresses: warps of one lane, warps of 32 lanes in lockstep, or a GPU.
struct Target {
    device: Device,
    module: Arc<Module>,
    lanes: u32,
}

fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    match cuda::host_compiler() {
        Ok(_) => {
            let device = Device::host(2, 1 << 30);
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler");
            let module = modules.decompressing().unwrap_or_else(|e| panic!("{e}")).module;
            targets.push(Target {
                device: device.clone(),
                module,
                lanes: HOST_LANES,
            });
            let module = lockstep::module(&device, &translation_unit(), ENTRY);
            targets.push(Target {
                device,
                module,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Compiler, e),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(device) => {
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is NVRTC");
            let loaded = modules.decompressing().unwrap_or_else(|e| panic!("{e}"));
            println!("on a GPU; compiled in {:?}", loaded.took);
            targets.push(Target {
                module: loaded.module,
                device,
                lanes: GPU_LANES,
            });
        }
        Err(e) => grampus_test_support::missing(grampus_test_support::Resource::Gpu, e),
    }
    targets
}

impl Target {
    /// Compares the kernel with the codec's peer, chunk by chunk.
    fn check(&self, samples: &[Sample], what: &str) -> (usize, usize) {
        let chunks: Vec<Chunk<'_>> = samples.iter().map(Sample::chunk).collect();
        let found = decompress(&self.device, &self.module, &chunks)
            .unwrap_or_else(|e| panic!("{what}, {} lanes: {e}", self.lanes));
        let (mut good, mut bad) = (0, 0);
        for (at, (sample, found)) in samples.iter().zip(&found).enumerate() {
            let wanted = sample.codec.by_peer(&sample.stored, sample.space);
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
        let chunks: Vec<Chunk<'_>> = all.iter().map(Sample::chunk).collect();
        let found = decompress(&target.device, &target.module, &chunks).unwrap_or_else(|e| panic!("{e}"));
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
            let (good, bad) = target.check(&samples, &format!("seed {seed}"));
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
            let (g, b) = target.check(&samples, &format!("seed {seed}"));
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
        for codec in [Codec::Snappy, Codec::Lz4] {
            let stored = codec.compress(&bytes);
            let chunk = |stored, space| Chunk {
                stored,
                codec: codec.number(),
                space,
            };
            let cut = &stored[..stored.len() - 1];
            let found = decompress(
                &target.device,
                &target.module,
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
