//! Data that comes by commands: empty ones, from the page cache, pushed in large pieces, from the disk, and asked for ahead.

use std::sync::Arc;
use std::time::{Duration, Instant};

use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{
    CachedFile, FaultAction, FaultRule, FaultyStorage, MappedFile, MemoryStorage, NullStorage, ReadRequest, Replicated,
    Storage, Striped,
};

use super::BenchError;
use super::report::Report;
use super::resident::cache_for;
use super::setup::{BLOCK_THREADS, Bed, Setup, Timed, same, wrong};
use crate::cache::CacheOptions;
use crate::cuda::{DeviceBuffer, Event, PinnedBuffer, StagingOptions};
use crate::queues::QueueOptions;
use crate::stack::StackOptions;

const WARPS_PER_BLOCK: u64 = BLOCK_THREADS as u64 / 32;

fn options(threads: usize, queues: u32, cache_bytes: u64) -> StackOptions {
    StackOptions {
        queues: QueueOptions {
            count: queues,
            ..QueueOptions::default()
        },
        cache: CacheOptions {
            bytes: cache_bytes,
            sector_log2: 12,
            ..CacheOptions::default()
        },
        controller: ControllerOptions { threads, depth: 256 },
        ..StackOptions::default()
    }
}

fn threads_of(blocks: u32) -> u64 {
    u64::from(blocks) * u64::from(BLOCK_THREADS)
}

/// Empty commands per second, in millions.
fn commands(setup: &Setup, bed: &Bed, kernel: &str, blocks: u32, rounds: u64) -> Result<(f64, String), BenchError> {
    let run = setup.on_stack(bed, kernel, blocks, rounds, 1)?;
    if run.sum != 1 {
        return Err(wrong(kernel, "did not come to its end".to_owned()));
    }
    Ok((run.m_s(threads_of(blocks) * rounds), batch(&run)))
}

/// How many commands shared a doorbell.
fn batch(run: &Timed) -> String {
    let stats = run.stats;
    format!(
        "{:.1} commands a doorbell",
        stats.commands as f64 / stats.doorbells.max(1) as f64
    )
}

pub(super) fn empty(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let storage = Arc::new(NullStorage::new(setup.options.bytes));
    for (threads, queues) in [(1usize, 4u32), (4, 16), (8, 16), (8, 32), (8, 64), (12, 48)] {
        if setup.options.small && threads > 1 {
            continue;
        }
        let mut deep = options(threads, queues, 1 << 30);
        deep.queues.depth_log2 = 12;
        let bed = setup.bed(storage.clone(), deep, 0)?;
        for warps_per_queue in [32u32, 64, 128] {
            let blocks = (queues * warps_per_queue / WARPS_PER_BLOCK as u32).min(setup.blocks);
            let (rate, note) = commands(setup, &bed, "raw_commands", blocks, setup.size(200, 4))?;
            let name = format!(
                "empty commands, {threads} threads, {queues} queues, {} GPU threads",
                threads_of(blocks)
            );
            let figure = report.add(name, rate, "M/s").note(note);
            if threads == 8 {
                figure.at_least(20.0);
            }
        }
    }
    Ok(())
}

/// One queue pair under more and more threads, against queues behind locks (thesis figure 5.6).
pub(super) fn one_queue(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let storage: Arc<dyn Storage> = Arc::new(NullStorage::new(setup.options.bytes));
    let mut best_locked = 0f64;
    let mut best = 0f64;
    for blocks in [1u32, 4, 16, 64, 128] {
        if setup.options.small && blocks > 4 {
            continue;
        }
        // Fresh queues each: the locked kernels leave theirs in a state of their own.
        let fresh = || setup.bed(storage.clone(), options(1, 1, 1 << 30), 0);
        let rounds = setup.size((1 << 17) / threads_of(blocks) + 8, 2);
        let (ours, _) = commands(setup, &fresh()?, "raw_commands", blocks, rounds)?;
        let few = setup.size((1 << 14) / threads_of(blocks) + 1, 1);
        let (one, _) = commands(setup, &fresh()?, "locked_commands", blocks, few)?;
        let (two, _) = commands(setup, &fresh()?, "two_locks_commands", blocks, few)?;
        best_locked = best_locked.max(two);
        best = best.max(ours);
        let threads = threads_of(blocks);
        report.add(
            format!("one queue, {threads} threads, a lock around each command"),
            one,
            "M/s",
        );
        report.add(format!("one queue, {threads} threads, a lock for each end"), two, "M/s");
        let figure = report.add(format!("one queue, {threads} threads"), ours, "M/s");
        if blocks == 128 {
            figure
                .against(two, 10.0)
                .note(format!("{:.0} % of its best at fewer threads", ours / best * 100.0));
        }
    }
    Ok(())
}

pub(super) fn cached(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let path = setup.file()?;
    let storage: Arc<dyn Storage> = Arc::new(CachedFile::open(&path)?);
    let mapped: Arc<dyn Storage> = Arc::new(MappedFile::open(&path)?);
    let tiles = setup.size(1 << 20, 1 << 9).min(setup.rows() / 512);
    let expected = setup.plain("expected_4k", 0, tiles, 1)?;
    let by_read = ("positioned reads", &storage, None);
    let by_copy = ("copies from its mapping", &mapped, Some(30.0));
    for ((how, storage, target), threads, queues) in [
        (by_read, 8usize, 32u32),
        (by_copy, 4, 32),
        (by_copy, 8, 32),
        (by_copy, 8, 64),
    ] {
        if setup.options.small && queues > 32 {
            continue;
        }
        let bed = setup.bed(
            storage.clone(),
            options(threads, queues, cache_for(setup.options.bytes)),
            0,
        )?;
        let run = setup.cold(&bed, "queued_4k", setup.blocks, tiles, 2)?;
        same("4 KiB from the page cache", run, expected)?;
        let rate = run.gb_s(run.stats.command_bytes);
        let name = format!("4 KiB commands from the page cache by {how}, {threads} threads, {queues} queues");
        let note = format!("{:.2} M/s, {}", run.m_s(run.stats.commands), batch(&run));
        let figure = report.add(name, rate, "GB/s").note(note);
        if let Some(target) = target
            && threads == 8
        {
            figure.at_least(target);
        }
    }
    // The same commands with nothing behind them: what the queues cost.
    let nothing = Arc::new(NullStorage::new(setup.options.bytes));
    let bed = setup.bed(nothing, options(8, 32, cache_for(setup.options.bytes)), 0)?;
    let run = setup.cold(&bed, "queued_4k", setup.blocks, tiles, 2)?;
    report
        .add(
            "4 KiB commands that read nothing, 8 threads",
            run.gb_s(run.stats.command_bytes),
            "GB/s",
        )
        .note(batch(&run));
    let small_sectors = StackOptions {
        cache: CacheOptions {
            bytes: cache_for(setup.options.bytes),
            ..CacheOptions::default()
        },
        ..options(8, 32, 0)
    };
    let bed = setup.bed(storage, small_sectors, 0)?;
    let count = setup.size(1 << 22, 1 << 12);
    let plain = setup.plain("plain_rows", setup.plain.address(), count, 1)?;
    let run = setup.cold(&bed, "rows_queued", setup.blocks, count, 2)?;
    same("random values by 512-byte commands", run, plain)?;
    report
        .add(
            "512-byte commands from the page cache, 8 threads",
            run.m_s(run.stats.commands),
            "M/s",
        )
        .note(batch(&run));
    setup.compare(&bed, "wrong_queued")
}

/// Several storages behind one namespace: stripes in memory, and copies of the file.
pub(super) fn several(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    const UNIT: usize = 64 << 10;
    let tiles = setup.size(1 << 19, 1 << 9).min(setup.rows() / 512);
    let expected = setup.plain("expected_4k", 0, tiles, 1)?;
    let path = setup.file()?;
    for count in [4usize] {
        let mut stripes = vec![Vec::with_capacity(setup.plain.len() / count); count];
        let chunk = setup.size(64 << 20, 1 << 20) as usize;
        for at in (0..setup.plain.len()).step_by(chunk) {
            let bytes: Vec<u8> = setup.plain.read(at, chunk.min(setup.plain.len() - at))?;
            for (unit, piece) in bytes.chunks(UNIT).enumerate() {
                stripes[(at / UNIT + unit) % count].extend_from_slice(piece);
            }
        }
        let members = stripes
            .into_iter()
            .map(|s| Box::new(MemoryStorage::new(s)) as Box<dyn Storage>);
        let striped = Striped::new(members.collect(), UNIT as u64).map_err(|e| wrong("several", e))?;
        let copies: Result<Vec<_>, std::io::Error> = (0..count)
            .map(|_| Ok(Box::new(CachedFile::open(&path)?) as Box<dyn Storage>))
            .collect();
        let copies = Replicated::new(copies?).map_err(|e| wrong("several", e))?;
        let kinds: [(&str, Arc<dyn Storage>); 2] = [
            ("stripes of 64 KiB in memory", Arc::new(striped)),
            ("copies in the page cache", Arc::new(copies)),
        ];
        for (name, storage) in kinds {
            let bed = setup.bed(storage, options(8, 32, cache_for(setup.options.bytes)), 0)?;
            let run = setup.cold(&bed, "queued_4k", setup.blocks, tiles, 2)?;
            same(name, run, expected)?;
            report
                .add(
                    format!("4 KiB commands, {count} {name}, 8 threads"),
                    run.gb_s(run.stats.command_bytes),
                    "GB/s",
                )
                .note(batch(&run));
        }
    }
    Ok(())
}

/// The copy engine alone, from a pinned ring, in pieces of `piece` bytes, in GB/s.
fn copy_engine(setup: &Setup, piece: usize) -> Result<f64, BenchError> {
    let ring = PinnedBuffer::new(&setup.device, 64 << 20)?;
    let to = DeviceBuffer::new(&setup.device, 64 << 20)?;
    let total = setup.size(8 << 30, 64 << 20);
    let (begin, end) = (Event::new(&setup.device, true)?, Event::new(&setup.device, true)?);
    begin.record(&setup.stream)?;
    for at in (0..total as usize).step_by(piece) {
        let at = at % (64 << 20);
        setup.stream.push(&ring, at, &to, at, piece)?;
    }
    end.record(&setup.stream)?;
    setup.stream.synchronize()?;
    Ok(total as f64 / end.ms_since(&begin)? / 1e6)
}

pub(super) fn pushed(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let path = setup.file()?;
    let storage: Arc<dyn Storage> = Arc::new(CachedFile::open(&path)?);
    let (one, four) = (copy_engine(setup, 1 << 20)?, copy_engine(setup, 4 << 20)?);
    report.add("copy engine from a pinned ring, pieces of 1 MiB", one, "GB/s");
    report.add("copy engine from a pinned ring, pieces of 4 MiB", four, "GB/s");
    let engine = one.max(four);
    let scan = setup.plain("plain_scan", setup.plain.address(), 0, 1)?;
    for (threads, mib, warps, ring) in [
        (8usize, 1u64, 64u64, 8usize),
        (8, 4, 64, 4),
        (8, 4, 64, 8),
        (8, 4, 32, 4),
        (8, 8, 64, 3),
        (10, 4, 64, 4),
    ] {
        if setup.options.small && ring != 8 {
            continue;
        }
        let group_log2 = 8 + mib.ilog2();
        let bed_options = StackOptions {
            cache: CacheOptions {
                bytes: cache_for(setup.options.bytes) + (64 << 20),
                group_log2,
                ..CacheOptions::default()
            },
            max_lines: 1 << group_log2,
            staging: StagingOptions {
                bytes: (mib as usize) << 20,
                count: ring,
            },
            ..options(threads, 32, 0)
        };
        let bed = setup.bed(storage.clone(), bed_options, 0)?;
        let run = setup.on_stack(
            &bed,
            "ahead_queued",
            (warps / WARPS_PER_BLOCK) as u32,
            (mib << 20) / 8,
            1,
        )?;
        same("large reads", run, scan)?;
        report
            .add(
                format!("{mib} MiB commands pushed from the page cache, {threads} threads with {ring} buffers, {warps} warps"),
                run.gb_s(setup.options.bytes),
                "GB/s",
            )
            .against(engine, 0.95)
            .note(format!("{} commands", run.stats.commands));
        setup.compare(&bed, "wrong_queued")?;
    }
    Ok(())
}

/// What a storage gives without GPU and queues: `threads` channels of `depth` reads of `piece` bytes, in GB/s.
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
                    let mut free: Vec<_> = (0..depth)
                        .filter_map(|i| memory.lend((t * depth + i) * piece, piece))
                        .collect();
                    while next < pieces || channel.in_flight() > 0 {
                        while next < pieces
                            && let Some(memory) = free.pop()
                        {
                            // Large pieces in order; small ones where the kernels' `scattered` has them.
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
pub(super) fn disk(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    use grampus_driver::storage::DirectFile;
    let path = setup.file()?;
    let storage: Arc<dyn Storage> = Arc::new(DirectFile::open(&path)?);
    // What lies below a virtual disk may cache what it has read once, so the two take turns over the same bytes in the same order, and
    // the first turn of both is thrown away.
    const TURNS: usize = 3;
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
        turns.alone(storage_alone(setup, &*storage, 4, 8, 1 << 20, setup.options.bytes)?);
        let run = setup.cold(&bed, "ahead_queued", 8, (1 << 20) / 8, 1)?;
        same("disk, large reads", run, scan)?;
        turns.ours(run.gb_s(setup.options.bytes));
    }
    report
        .add("disk, 1 MiB commands, 4 threads × 8", turns.best_ours(), "GB/s")
        .against(turns.best_alone(), 0.95)
        .note(turns.to_string());
    drop(bed);
    // Small reads.
    let count = setup.size(1 << 18, 1 << 8).min(setup.rows() / 512);
    let expected = setup.plain("expected_4k", 0, count, 1)?;
    let bed = setup.bed(storage.clone(), options(4, 32, cache_for(setup.options.bytes)), 0)?;
    let mut turns = Turns::default();
    for _ in 0..TURNS {
        turns.alone(storage_alone(setup, &*storage, 4, 256, 4096, count * 4096)?);
        let run = setup.cold(&bed, "queued_4k", setup.blocks, count, 1)?;
        same("disk, 4 KiB", run, expected)?;
        turns.ours(run.gb_s(run.stats.commands * 4096));
    }
    report
        .add(
            "disk, random 4 KiB commands, 4 threads × 256",
            turns.best_ours(),
            "GB/s",
        )
        .against(turns.best_alone(), 0.95)
        .note(format!("{:.0} k/s; {turns}", turns.best_ours() * 1e6 / 4096.0));
    Ok(())
}

/// Figures of a storage alone and of the stack over it, in turns.
#[derive(Default)]
struct Turns(Vec<f64>, Vec<f64>);

impl Turns {
    fn alone(&mut self, figure: f64) {
        self.0.push(figure);
    }
    fn ours(&mut self, figure: f64) {
        self.1.push(figure);
    }
    fn best_alone(&self) -> f64 {
        self.0.iter().skip(1).copied().fold(0.0, f64::max)
    }
    fn best_ours(&self) -> f64 {
        self.1.iter().skip(1).copied().fold(0.0, f64::max)
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
pub(super) fn disk(_: &Setup, report: &mut Report) -> Result<(), BenchError> {
    report.add("disk", 0.0, "").note("only on Linux: io_uring");
    Ok(())
}

/// Prefetch against synchronous fetch, where computing takes as long as the I/O.
pub(super) fn prefetch(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let path = setup.file()?;
    #[cfg(target_os = "linux")]
    prefetch_from(
        setup,
        report,
        "disk",
        Arc::new(grampus_driver::storage::DirectFile::open(&path)?),
    )?;
    prefetch_from(setup, report, "page cache", Arc::new(MappedFile::open(&path)?))?;
    // As an SSD answers, if not as many at once: every read 100 µs later.
    let rule = FaultRule {
        bytes: 0..u64::MAX,
        every: 1,
        at_most: u64::MAX,
        action: FaultAction::Delay(Duration::from_micros(100)),
    };
    let slow = FaultyStorage::new(Box::new(MappedFile::open(&path)?), vec![rule]);
    prefetch_from(setup, report, "page cache and 100 µs", Arc::new(slow))
}

fn prefetch_from(setup: &Setup, report: &mut Report, name: &str, storage: Arc<dyn Storage>) -> Result<(), BenchError> {
    for blocks in [1u32, 4, 16, 32] {
        if setup.options.small && blocks > 1 {
            continue;
        }
        let warps = u64::from(blocks) * WARPS_PER_BLOCK;
        let steps = setup.size(128, 4).min(setup.rows() / 512 / warps);
        let bed = setup.bed(storage.clone(), options(8, 32, cache_for(setup.options.bytes)), 0)?;
        let io = setup.cold(&bed, "steps_synchronous", blocks, steps, 2)?;
        let compute_ns = (io.ms * 1e6 / steps as f64) as u64;
        let n = compute_ns << 32 | steps;
        let synchronous = setup.cold(&bed, "steps_synchronous", blocks, n, 2)?;
        let ahead = setup.cold(&bed, "steps_prefetched", blocks, n, 2)?;
        same("prefetched", ahead, synchronous)?;
        report
            .add(
                format!("prefetch against synchronous fetch, {name}, {warps} warps"),
                synchronous.ms / ahead.ms,
                "x",
            )
            .at_least(1.7)
            .note(format!(
                "I/O {:.1} µs a step; {:.2} ms against {:.2} ms",
                compute_ns as f64 / 1e3,
                ahead.ms,
                synchronous.ms
            ));
    }
    Ok(())
}
