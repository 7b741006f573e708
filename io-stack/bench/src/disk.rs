//! Reads from the disk through the whole stack, compared with the storage alone.

use std::sync::Arc;
use std::time::Instant;

use grampus_cuda::PinnedBuffer;
use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{ReadRequest, Storage};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::stack::StackOptions;

use crate::error::BenchError;
use crate::prefetch::median;
use crate::report::Report;
use crate::resident::cache_for;
use crate::setup::{Setup, same, wrong};
use crate::small_reads::options;

/// The rate of a storage without GPU and queues: `threads` channels of `depth` reads of `piece` bytes, in GB/s.
fn storage_alone(
    setup: &Setup,
    storage: &dyn Storage,
    threads: usize,
    depth: usize,
    piece: usize,
    bytes: u64,
) -> Result<f64, BenchError> {
    let memory = Arc::new(PinnedBuffer::new(&setup.device, threads * depth * piece)?);
    let lines = setup.options.bytes / 4096;
    let began = Instant::now();
    let failed = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|t| {
                let memory = &memory;
                scope.spawn(move || -> Result<(), String> {
                    let mut channel = storage.channel(depth as u32).map_err(|e| e.to_string())?;
                    let pieces = bytes / piece as u64;
                    let mut next = t as u64;
                    let mut done = Vec::new();
                    // SAFETY: `memory` outlives the scope of these threads, and each piece is lent once.
                    let lend = |i| unsafe { memory.lend((t * depth + i) * piece, piece) };
                    let mut free: Vec<_> = (0..depth).filter_map(lend).collect();
                    while next < pieces || channel.in_flight() > 0 {
                        while next < pieces
                            && let Some(memory) = free.pop()
                        {
                            // Large pieces are read in order, small ones at the places of the kernels' `scattered`.
                            let place = if piece > 4096 {
                                next
                            } else {
                                (next.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) % lines
                            };
                            let request = ReadRequest {
                                token: next,
                                offset_bytes: place * piece as u64,
                                memory,
                            };
                            match channel.start(request) {
                                Ok(()) => next += threads as u64,
                                Err(request) => {
                                    free.push(request.memory);
                                    break;
                                }
                            }
                        }
                        channel.poll(&mut done);
                        for read in done.drain(..) {
                            read.result.map_err(|e| e.to_string())?;
                            free.push(read.memory);
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        readers
            .into_iter()
            .find_map(|r| r.join().map_or(Some("a reader panicked".to_owned()), Result::err))
    });
    match failed {
        Some(e) => Err(wrong("storage alone", e)),
        None => Ok(bytes as f64 / began.elapsed().as_secs_f64() / 1e9),
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn disk(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    use grampus_driver::storage::DirectFile;
    let path = setup.file()?;
    let storage: Arc<dyn Storage> = Arc::new(DirectFile::open(&path)?);
    // The two ways are interleaved (A/B/A/B) over the same bytes in the same order. The first turn of both is
    // discarded: the host below a virtual disk may cache what it has read once. Each turn gives one ratio of the two,
    // and the median ratio counts. A shared disk's rate may double from one turn to the next, and fall by a third from
    // the first to the last.
    const TURNS: usize = 6;
    // Small reads take twice as many turns: the two ways differ by less than one turn from the next.
    const SMALL_READ_TURNS: usize = 12;
    // Large reads.
    let large = StackOptions {
        cache: CacheOptions {
            bytes: cache_for(setup.options.bytes),
            ..CacheOptions::default()
        },
        controller: ControllerOptions { threads: 4, depth: 8 },
        staging: StagingOptions {
            bytes: 1 << 20,
            count: 8,
        },
        max_lines: 256,
        ..options(4, 32, 0)
    };
    let scan = setup.plain("plain_scan", setup.plain.address(), 0, 1)?;
    let bed = setup.bed(storage.clone(), large, 0)?;
    let mut turns = Turns::default();
    for _ in 0..TURNS {
        turns.note_alone(storage_alone(setup, &*storage, 4, 8, 1 << 20, setup.options.bytes)?);
        let run = setup.cold(&bed, "ahead_queued", 8, (1 << 20) / 8, 1)?;
        same("disk, large reads", run, scan)?;
        turns.note_ours(run.gb_s(setup.options.bytes));
    }
    report
        .add("disk, 1 MiB commands, 4 threads × 8", turns.ours(), "GB/s")
        .against(turns.alone(), 0.95)
        .note(turns.to_string());
    drop(bed);
    // Small reads.
    let count = setup.size(1 << 17, 1 << 8).min(setup.rows() / 512);
    let expected = setup.plain("expected_4k", 0, count, 1)?;
    let bed = setup.bed(storage.clone(), options(4, 32, cache_for(setup.options.bytes)), 0)?;
    let mut turns = Turns::default();
    for _ in 0..SMALL_READ_TURNS {
        turns.note_alone(storage_alone(setup, &*storage, 4, 256, 4096, count * 4096)?);
        let run = setup.cold(&bed, "queued_4k", setup.blocks, count, 1)?;
        same("disk, 4 KiB", run, expected)?;
        turns.note_ours(run.gb_s(run.stats.commands * 4096));
    }
    report
        .add("disk, random 4 KiB commands, 4 threads × 256", turns.ours(), "GB/s")
        .against(turns.alone(), 0.95)
        .note(format!("{:.0} k/s; {turns}", turns.ours() * 1e6 / 4096.0));
    Ok(())
}

/// Rates of a storage alone and of the stack over it, interleaved.
#[derive(Default)]
struct Turns(Vec<f64>, Vec<f64>);

impl Turns {
    fn note_alone(&mut self, figure: f64) {
        self.0.push(figure);
    }

    fn note_ours(&mut self, figure: f64) {
        self.1.push(figure);
    }

    /// The stack's median rate.
    fn ours(&self) -> f64 {
        median(self.1.iter().skip(1).copied().collect())
    }

    /// The rate of the storage alone that gives the median ratio to the stack's.
    fn alone(&self) -> f64 {
        let turns = self.1.iter().zip(&self.0).skip(1);
        self.ours() / median(turns.map(|(ours, alone)| ours / alone).collect())
    }
}

impl std::fmt::Display for Turns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "io_uring alone, then through the stack:")?;
        for (alone, ours) in self.0.iter().zip(&self.1) {
            write!(f, " {alone:.2}, {ours:.2};")?;
        }
        Ok(())
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn disk(_: &Setup, report: &mut Report) -> Result<(), BenchError> {
    report.add("disk", 0.0, "").note("only on Linux: io_uring");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_compare_with_their_neighbours_and_the_first_does_not_count() {
        // The disk becomes slower and slower; the stack always gets nine tenths of the disk's rate.
        let turns = Turns(vec![0.1, 4.0, 2.0, 1.0], vec![9.0, 3.6, 1.8, 0.9]);
        assert!((turns.ours() / turns.alone() - 0.9).abs() < 1e-12);
        assert_eq!(turns.ours(), 1.8);
    }
}
