//! Small commands: empty ones, from the page cache, and from several storages.

use std::sync::Arc;

use grampus_driver::controller::ControllerOptions;
use grampus_driver::storage::{CachedFile, MappedFile, MemoryStorage, NullStorage, Replicated, Storage, Striped};
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::StackOptions;

use crate::error::BenchError;
use crate::report::Report;
use crate::resident::cache_for;
use crate::setup::{BLOCK_THREADS, Bed, Setup, Timed, same, wrong};

pub(crate) const WARPS_PER_BLOCK: u64 = BLOCK_THREADS as u64 / 32;

/// Queues and a controller for small commands: lines come whole.
pub(crate) fn options(threads: usize, queues: u32, cache_bytes: u64) -> StackOptions {
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

/// The rate of empty commands, in millions a second.
fn commands(setup: &Setup, bed: &Bed, kernel: &str, blocks: u32, rounds: u64) -> Result<(f64, String), BenchError> {
    let run = setup.on_stack(bed, kernel, blocks, rounds, 1)?;
    if run.sum != 1 {
        return Err(wrong(kernel, "did not come to its end".to_owned()));
    }
    Ok((run.m_s(threads_of(blocks) * rounds), batch(&run)))
}

/// Average number of commands that shared a doorbell.
fn batch(run: &Timed) -> String {
    let stats = run.stats;
    format!(
        "{:.1} commands a doorbell",
        stats.commands as f64 / stats.doorbells.max(1) as f64
    )
}

pub(crate) fn empty(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
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
pub(crate) fn one_queue(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let storage: Arc<dyn Storage> = Arc::new(NullStorage::new(setup.options.bytes));
    let mut best_locked = 0f64;
    let mut best = 0f64;
    for blocks in [1u32, 4, 16, 64, 128] {
        if setup.options.small && blocks > 4 {
            continue;
        }
        // Each kernel gets fresh queues: the locked kernels leave theirs in a state of their own.
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

pub(crate) fn cached(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
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
    // The same commands without data behind them: the cost of the queues.
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
pub(crate) fn several(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
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
