//! Large reads from the page cache, uploaded by the copy engine.

use std::sync::Arc;

use grampus_cuda::{DeviceBuffer, Event, PinnedBuffer};
use grampus_driver::storage::{CachedFile, Storage};
use grampus_io_stack::StagingOptions;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::stack::StackOptions;

use crate::error::BenchError;
use crate::report::Report;
use crate::resident::cache_for;
use crate::setup::{Setup, same};
use crate::small_reads::{WARPS_PER_BLOCK, options};

/// The rate of the copy engine alone, from a pinned ring, in pieces of `piece` bytes, in GB/s.
fn copy_engine(setup: &Setup, piece: usize) -> Result<f64, BenchError> {
    let ring = PinnedBuffer::new(&setup.device, 64 << 20)?;
    let to = DeviceBuffer::new(&setup.device, 64 << 20)?;
    let total = setup.size(8 << 30, 64 << 20);
    let (begin, end) = (Event::new(&setup.device, true)?, Event::new(&setup.device, true)?);
    begin.record(&setup.stream)?;
    for at in (0..total as usize).step_by(piece) {
        let at = at % (64 << 20);
        setup.stream.upload(&ring, at, &to, at, piece)?;
    }
    end.record(&setup.stream)?;
    setup.stream.synchronize()?;
    Ok(total as f64 / end.ms_since(&begin)? / 1e6)
}

pub(crate) fn large_reads(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let path = setup.file()?;
    let storage: Arc<dyn Storage> = Arc::new(CachedFile::open(&path)?);
    let (one, four) = (copy_engine(setup, 1 << 20)?, copy_engine(setup, 4 << 20)?);
    report.add("copy engine from a pinned ring, pieces of 1 MiB", one, "GB/s");
    report.add("copy engine from a pinned ring, pieces of 4 MiB", four, "GB/s");
    let engine = one.max(four);
    let scan = setup.plain("plain_scan", setup.plain.address(), 0, 1)?;
    for (threads, mib, warps, ring) in [
        (8usize, 1u64, 64u64, 8usize),
        (8, 1, 64, 4),
        (8, 2, 64, 4),
        (8, 4, 64, 4),
        (8, 4, 64, 8),
        (8, 4, 32, 4),
        (10, 4, 32, 4),
        (12, 4, 32, 3),
        (12, 4, 64, 3),
    ] {
        if setup.options.small && ring != 8 {
            continue; // one shape is enough for a check
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
        // The first run of a stack is slower: its staging memory and its threads' streams are used for the first time.
        let run = setup.cold(
            &bed,
            "ahead_queued",
            (warps / WARPS_PER_BLOCK) as u32,
            (mib << 20) / 8,
            3,
        )?;
        same("large reads", run, scan)?;
        report
            .add(
                format!(
                    "{mib} MiB commands pushed from the page cache, {threads} threads with {ring} buffers, \
                     {warps} warps"
                ),
                run.gb_s(setup.options.bytes),
                "GB/s",
            )
            .against(engine, 0.95)
            .note(format!(
                "{} commands{}",
                run.stats.commands,
                if mib == 1 {
                    format!(
                        ", {:.0} % of the copy engine in such pieces",
                        run.gb_s(setup.options.bytes) / one * 100.0
                    )
                } else {
                    String::new()
                }
            ));
        setup.compare(&bed, "wrong_queued")?;
    }
    Ok(())
}
