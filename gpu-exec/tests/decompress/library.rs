//! nvCOMP and the kernels around it against `zstd` and `libdeflater`: on host threads through a stand-in, and on a GPU
//! with the library that `GRAMPUS_NVCOMP` names or the loader finds.

use std::sync::Arc;

use grampus_cuda::{self as cuda, Device, Module, Nvcomp};
use grampus_gpu_exec::abi::decompress::CHUNK_CORRUPT;
use grampus_gpu_exec::decompress::chunk_table::codec_number;
use grampus_gpu_exec::decompress::library::PREPARE;
use grampus_gpu_exec::decompress::library_translation_unit;
use grampus_gpu_exec::decompress::standalone::{Chunk, decompress_by_library};
use grampus_gpu_exec::kernel_cache::KernelCache;
use grampus_host_nvcomp::Fault;
use grampus_orc_layout::codec::Codec;
use grampus_test_support::{Resource, missing};

use crate::common::lockstep;
use crate::common::random::Random;
use crate::sample_chunks::data;

const CODECS: [Codec; 4] = [Codec::Snappy, Codec::Lz4, Codec::Zstd, Codec::Zlib];
/// Memory for nvCOMP.
const ENOUGH: usize = 512 << 20;

/// A device with a library for it.
struct Target {
    name: &'static str,
    device: Device,
    module: Arc<Module>,
    library: Arc<Nvcomp>,
}

fn targets() -> Vec<Target> {
    let mut targets = Vec::new();
    match cuda::host_compiler() {
        Ok(_) => {
            let library = Nvcomp::load(Some(&grampus_host_nvcomp::file())).unwrap_or_else(|e| panic!("{e}"));
            let device = Device::host(2, 1 << 30);
            let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler");
            targets.push(Target {
                name: "one lane",
                module: modules.around_library().unwrap_or_else(|e| panic!("{e}")).module,
                device: device.clone(),
                library: library.clone(),
            });
            targets.push(Target {
                name: "32 lanes",
                module: lockstep::module(&device, &library_translation_unit(), PREPARE),
                device,
                library,
            });
        }
        Err(e) => missing(Resource::Compiler, e),
    }
    match cuda::compiler_version().and_then(|_| Device::open(0)) {
        Ok(device) => match Nvcomp::load(None) {
            Ok(library) => {
                println!("nvCOMP {} of {}", library.version_text(), library.file().display());
                let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is NVRTC");
                targets.push(Target {
                    name: "GPU",
                    module: modules.around_library().unwrap_or_else(|e| panic!("{e}")).module,
                    device,
                    library,
                });
            }
            Err(e) => println!("ignored: {e}"),
        },
        Err(e) => missing(Resource::Gpu, e),
    }
    targets
}

fn compress(codec: Codec, bytes: &[u8]) -> Vec<u8> {
    match codec {
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(bytes).expect("compresses"),
        Codec::Lz4 => lz4_flex::block::compress(bytes),
        Codec::Zstd => zstd::bulk::compress(bytes, 3).expect("compresses"),
        Codec::Zlib => {
            let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; compressor.deflate_compress_bound(bytes.len())];
            let length = compressor.deflate_compress(bytes, &mut out).expect("there is space");
            out.truncate(length);
            out
        }
        other => panic!("nvCOMP knows no {other:?}"),
    }
}

impl Target {
    /// What becomes of chunks, each with its space.
    fn decompress(&self, codec: Codec, chunks: &[(Vec<u8>, usize)], max_bytes: usize) -> Vec<Result<Vec<u8>, u32>> {
        let chunks: Vec<Chunk<'_>> = chunks
            .iter()
            .map(|(stored, space)| Chunk {
                stored,
                codec: codec_number(codec),
                space: *space,
            })
            .collect();
        let kernels = (&*self.module, &*self.library);
        decompress_by_library(&self.device, kernels, codec, &chunks, max_bytes)
            .unwrap_or_else(|e| panic!("{}, {codec:?}: {e}", self.name))
    }

    /// Compresses texts, and compares what comes back.
    fn check(&self, codec: Codec, texts: &[Vec<u8>], max_bytes: usize) {
        let chunks: Vec<_> = texts.iter().map(|text| (compress(codec, text), text.len())).collect();
        let found = self.decompress(codec, &chunks, max_bytes);
        assert_eq!(found.len(), texts.len());
        for (at, (found, text)) in found.iter().zip(texts).enumerate() {
            let length = found.as_ref().map(Vec::len);
            let equal = found.as_ref() == Ok(text);
            assert!(
                equal,
                "{}, {codec:?}, chunk {at}: {length:?} of {}",
                self.name,
                text.len()
            );
        }
    }

    fn is_real(&self) -> bool {
        !self.device.is_host()
    }
}

/// Texts of 1 byte to 256 KiB.
fn texts(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut texts: Vec<Vec<u8>> = [
        1, 2, 3, 7, 8, 15, 16, 17, 4096, 65_535, 65_536, 131_072, 131_073, 262_144,
    ]
    .into_iter()
    .flat_map(|length| {
        let noise = (0..length).map(|_| random.below(256) as u8).collect();
        let amounts = (0..length)
            .map(|at| [7, 0, 9, 64][at % 4] + (at % 800 / 80) as u8)
            .collect();
        [noise, amounts, vec![0; length]]
    })
    .collect();
    while texts.len() < count {
        let text = data(random, 70_000);
        if !text.is_empty() {
            texts.push(text);
        }
    }
    texts
}

#[test]
fn library_returns_the_compressed_bytes() {
    for target in targets() {
        for codec in CODECS {
            let count = if target.is_real() { 3_000 } else { 120 };
            let texts = texts(&mut Random(11), count);
            target.check(codec, &texts, ENOUGH);
            println!("{}, {codec:?}: {} chunks", target.name, texts.len());
        }
    }
}

#[test]
fn batches_are_as_small_as_the_memory() {
    for target in targets() {
        for codec in CODECS {
            let mut random = Random(23);
            let texts: Vec<Vec<u8>> = (0..300)
                .map(|at| [data(&mut random, 900), vec![at as u8]].concat())
                .collect();
            // One chunk at a time, and some at a time.
            for max_bytes in [16 << 10, 100 << 10] {
                target.check(codec, &texts, max_bytes);
            }
        }
    }
}

#[test]
fn chunks_fail_if_there_is_no_memory_for_one() {
    for target in targets() {
        let chunks = vec![(compress(Codec::Zstd, &[1; 5000]), 5000); 3];
        let found = target.decompress(Codec::Zstd, &chunks, 10_000);
        assert_eq!(found, vec![Err(CHUNK_CORRUPT); 3], "{}", target.name);
    }
}

#[test]
fn device_memory_that_runs_out_makes_batches_smaller() {
    if let Err(e) = cuda::host_compiler() {
        missing(Resource::Compiler, e);
        return;
    }
    let library = Nvcomp::load(Some(&grampus_host_nvcomp::file())).unwrap_or_else(|e| panic!("{e}"));
    // The chunks take 4 MB, and all of them at once would take 20 MB more.
    let device = Device::host(1, 12 << 20);
    let modules = KernelCache::new(&device, Some(lockstep::kernel_folder())).expect("there is a compiler");
    let target = Target {
        name: "little memory",
        module: modules.around_library().unwrap_or_else(|e| panic!("{e}")).module,
        device,
        library,
    };
    let mut random = Random(5);
    let texts: Vec<Vec<u8>> = (0..60)
        .map(|_| (0..65_536).map(|_| random.below(4) as u8).collect())
        .collect();
    target.check(Codec::Zstd, &texts, ENOUGH);
}

/// Only the stand-in fails on demand.
#[test]
fn statuses_lengths_and_refusals_fail_chunks() {
    for target in targets().iter().filter(|target| !target.is_real()) {
        for codec in CODECS {
            for fault in Fault::ALL {
                let good = vec![b'g'; 300];
                let bad = [fault.mark(), &[b'b'; 200]].concat();
                let texts = [good.clone(), bad, good.clone()];
                let chunks: Vec<_> = texts.iter().map(|text| (compress(codec, text), text.len())).collect();
                let found = target.decompress(codec, &chunks, ENOUGH);
                let what = format!("{}, {codec:?}, {fault:?}", target.name);
                match fault {
                    Fault::Refusal => assert_eq!(found, vec![Err(CHUNK_CORRUPT); 3], "{what}"),
                    Fault::Length => {
                        let short = texts[1][..texts[1].len() - 1].to_vec();
                        assert_eq!(found, [Ok(good.clone()), Ok(short), Ok(good)], "{what}");
                    }
                    Fault::Status | Fault::Forgotten => {
                        assert_eq!(found, [Ok(good.clone()), Err(CHUNK_CORRUPT), Ok(good)], "{what}");
                    }
                }
            }
        }
    }
}

/// A frame by hand: magic, header, content size, and blocks with their headers.
fn frame(flags: u8, size: &[u8], blocks: &[(bool, u32, &[u8], u32)]) -> Vec<u8> {
    let mut out = vec![0x28, 0xB5, 0x2F, 0xFD, flags];
    out.extend(size);
    for (is_last, kind, body, length) in blocks {
        let header = u32::from(*is_last) | kind << 1 | length << 3;
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(*body);
    }
    out
}

/// What the outline of a frame shows is refused before nvCOMP sees the chunk, on a GPU too.
#[test]
fn frames_with_a_wrong_outline_are_not_shown_to_the_library() {
    const SINGLE: u8 = 0x20;
    let raw: &[u8] = b"abcdefgh";
    let whole = frame(SINGLE, &[8], &[(true, 0, raw, 8)]);
    let repeated = frame(SINGLE, &[8], &[(false, 1, b"x", 5), (true, 0, b"yyy", 3)]);
    let windowed = frame(0, &[0], &[(true, 0, raw, 8)]);
    let long = frame(SINGLE | 0x40, &[44, 0], &[(true, 1, b"z", 300)]);
    let good = [
        (whole.clone(), raw.to_vec()),
        (repeated, b"xxxxxyyy".to_vec()),
        (windowed, raw.to_vec()),
        (long, vec![b'z'; 300]),
    ];
    let bad = [
        (whole.clone(), 9),                                                 // states 8 bytes
        (whole[..whole.len() - 1].to_vec(), 8),                             // cut off
        ([&whole[..], &[0]].concat(), 8),                                   // a byte behind it
        ([&whole[..], &whole[..]].concat(), 8),                             // two frames
        (vec![0x28, 0xB5, 0x2F, 0xFD, SINGLE], 8),                          // no content size
        (frame(SINGLE | 1, &[0, 8], &[(true, 0, raw, 8)]), 8),              // a dictionary
        (frame(SINGLE | 8, &[8], &[(true, 0, raw, 8)]), 8),                 // a reserved bit
        (frame(SINGLE, &[8], &[(true, 3, raw, 8)]), 8),                     // a reserved type
        (frame(SINGLE, &[8], &[(false, 0, raw, 8)]), 8),                    // no last block
        (frame(SINGLE, &[8], &[(true, 1, b"x", 9)]), 8),                    // more than the frame states
        (frame(0, &[0x58], &[(true, 2, &[7; 131_073], 131_073)]), 200_000), // more than a block may have
        (frame(SINGLE | 4, &[8], &[(true, 0, raw, 8)]), 8),                 // no checksum
        ([&[0x50, 0x2A, 0x4D, 0x18, 8, 0, 0, 0], raw].concat(), 8),         // a skippable frame
        (vec![1], 1),                                                       // hardly a byte
    ];
    for target in targets() {
        let mut chunks: Vec<_> = good
            .iter()
            .map(|(stored, bytes)| (stored.clone(), bytes.len()))
            .collect();
        chunks.extend(bad.iter().cloned());
        let found = target.decompress(Codec::Zstd, &chunks, ENOUGH);
        for (at, found) in found.iter().enumerate() {
            let expected = good.get(at).map_or(Err(CHUNK_CORRUPT), |(_, bytes)| Ok(bytes.clone()));
            assert_eq!(*found, expected, "{}, chunk {at}", target.name);
        }
    }
}
