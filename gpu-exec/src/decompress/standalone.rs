//! Decompression of chunks on a device without a query, for tests and measurements.

use grampus_cuda::{Args, CudaError, Device, DeviceBuffer, Module, Nvcomp, Stream};
use grampus_io_stack::abi::bytes_of;
use grampus_orc_layout::codec::Codec;

use super::ChunkKernel;
use super::chunk_table::{ChunkTable, codec_number};
use super::library::LibraryCalls;
use super::library_memory::LibraryMemory;
use crate::abi::decompress::{CHUNK_OK, CODEC_ZSTD, ChunkJob, ChunkResult, DecompressLaunch, StoredChunk};

/// Bytes before and after each output. The kernel must leave them unchanged.
const GUARD_BYTES: usize = 64;
const GUARD: u8 = 0xA5;

/// A chunk to decompress.
#[derive(Debug, Clone, Copy)]
pub struct Chunk<'a> {
    /// The stored bytes, without the chunk's header.
    pub stored: &'a [u8],
    /// A `CODEC_…` of [`abi::decompress`](crate::abi::decompress).
    pub codec: u32,
    /// Space for the bytes that come out.
    pub space: usize,
}

/// For each chunk its bytes, or the `CHUNK_…` that says why there are none.
pub type Outcomes = Vec<Result<Vec<u8>, u32>>;

/// The chunks' bytes by a decompression kernel in `module`. Inputs and outputs lie at various alignments.
///
/// # Errors
/// The device's error, or a kernel that wrote outside its output.
pub fn decompress(
    device: &Device,
    (kernel, module): (ChunkKernel, &Module),
    what: &[Chunk<'_>],
) -> Result<Outcomes, CudaError> {
    run(device, what, &|stream, at| {
        let mut launch = DecompressLaunch {
            failed: at.failed,
            results: at.results,
            jobs: 1,
            chunks: what.len() as u32,
            ..DecompressLaunch::default()
        };
        launch.job[0] = ChunkJob {
            chunks: at.table,
            first: 0,
            count: launch.chunks,
        };
        let threads = kernel.block_threads();
        let blocks = launch.chunks.div_ceil(threads / 32).max(1);
        let mut args = Args::new().with_bytes(&bytes_of(&launch));
        module
            .kernel(kernel.entry())?
            .launch(stream, blocks, threads, &mut args)
    })
}

/// As [`decompress`], by nvCOMP with the kernels around it in `module`. All chunks have one codec, and nvCOMP works in
/// at most `max_bytes`.
///
/// # Errors
/// As [`decompress`].
pub fn decompress_by_library(
    device: &Device,
    (module, library): (&Module, &Nvcomp),
    codec: Codec,
    what: &[Chunk<'_>],
    max_bytes: usize,
) -> Result<Outcomes, CudaError> {
    debug_assert!(what.iter().all(|chunk| chunk.codec == codec_number(codec)));
    let memory = LibraryMemory::new(max_bytes);
    run(device, what, &|stream, at| {
        let mut table = ChunkTable::new(codec, at.table);
        for chunk in what {
            table.add(false, chunk.stored.len() as u32, chunk.space as u32);
        }
        let calls = LibraryCalls::new(library, device, &memory, &[table])?;
        calls.map_or(Ok(()), |calls| {
            let chunks = [table.compressed()];
            calls.decompress(stream, module, chunks, at.failed, at.results)
        })
    })
}

/// Device addresses for launches.
struct Addresses {
    /// Of the chunks.
    table: u64,
    results: u64,
    failed: u64,
}

type Launch<'a> = &'a dyn Fn(&Stream, &Addresses) -> Result<(), CudaError>;

/// Puts the chunks into device memory, launches, and takes what came out.
fn run(device: &Device, what: &[Chunk<'_>], launch: Launch<'_>) -> Result<Outcomes, CudaError> {
    let wrong = |reason: String| CudaError::Arguments {
        kernel: "decompression".to_owned(),
        reason,
    };
    let (mut input, mut places, mut end) = (Vec::new(), Vec::new(), 0);
    for (at, chunk) in what.iter().enumerate() {
        input.resize(input.len() + at % 11, GUARD);
        let to = end + GUARD_BYTES + at % 13;
        places.push((input.len(), to));
        input.extend_from_slice(chunk.stored);
        end = to + chunk.space;
    }
    input.resize(input.len().next_multiple_of(8), GUARD);
    let from = DeviceBuffer::new(device, input.len().max(8))?;
    from.write(0, &input)?;
    let to = DeviceBuffer::filled(device, end + GUARD_BYTES, GUARD)?;
    let results = DeviceBuffer::filled(device, what.len().max(1) * size_of::<ChunkResult>(), 0xff)?;
    let failed = DeviceBuffer::filled(device, 16, 0)?;
    let mut table = Vec::new();
    for (at, (chunk, place)) in what.iter().zip(&places).enumerate() {
        table.extend(bytes_of(&StoredChunk {
            from: from.address() + place.0 as u64,
            to: to.address() + place.1 as u64,
            length: chunk.stored.len() as u32,
            bytes: chunk.space as u32,
            codec: chunk.codec,
            label: at as u32,
        }));
    }
    let chunks = DeviceBuffer::new(device, table.len().max(8))?;
    chunks.write(0, &table)?;
    let stream = Stream::new(device)?;
    let addresses = Addresses {
        table: chunks.address(),
        results: results.address(),
        failed: failed.address(),
    };
    launch(&stream, &addresses)?;
    stream.synchronize()?;
    let out = to.read::<u8>(0, end + GUARD_BYTES)?;
    let words = results.read::<u32>(0, what.len() * 2)?;
    let mut outputs = Vec::with_capacity(what.len());
    let mut last = 0;
    for ((chunk, place), result) in what.iter().zip(&places).zip(words.chunks_exact(2)) {
        let (status, bytes) = (result[0], result[1] as usize);
        let (guard, rest) = out[last..].split_at(place.1 - last);
        last = place.1 + chunk.space;
        // Literal bytes of Zstandard wait at the end of the space.
        let ends = status == CHUNK_OK && chunk.codec != CODEC_ZSTD;
        let written = if ends { bytes } else { chunk.space };
        if bytes > chunk.space && status == CHUNK_OK
            || guard.iter().chain(&rest[written..chunk.space]).any(|b| *b != GUARD)
        {
            return Err(wrong(format!(
                "a chunk of {} bytes: it wrote outside of its target",
                chunk.stored.len()
            )));
        }
        outputs.push(if status == CHUNK_OK {
            Ok(rest[..bytes].to_vec())
        } else {
            Err(status)
        });
    }
    if out[last..].iter().any(|b| *b != GUARD) {
        return Err(wrong("it wrote behind the last target".to_owned()));
    }
    let all_full = outputs
        .iter()
        .zip(what)
        .all(|(out, chunk)| out.as_ref().is_ok_and(|o| o.len() == chunk.space));
    if (failed.read::<u32>(0, 1)?[0] == 0) != all_full {
        return Err(wrong("`failed` does not follow from the results".to_owned()));
    }
    Ok(outputs)
}
