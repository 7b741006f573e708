//! Resident data: in the cache in device memory, and in the page cache behind a registered mapping.

use std::sync::Arc;
use std::time::Instant;

use grampus_cuda::CudaError;
use grampus_cuda::{Args, MappedFile};
use grampus_driver::storage::NullStorage;
use grampus_io_stack::abi::LINE_BYTES;
use grampus_io_stack::cache::CacheOptions;
use grampus_io_stack::queues::QueueOptions;
use grampus_io_stack::stack::StackOptions;

use crate::error::BenchError;
use crate::report::Report;
use crate::setup::{Setup, same};

/// One unused queue pair, and a cache of `bytes`.
pub(crate) fn no_queues(bytes: u64) -> StackOptions {
    StackOptions {
        queues: QueueOptions {
            count: 1,
            depth_log2: 4,
            bounce_bytes: 4096,
        },
        cache: CacheOptions {
            bytes,
            ..CacheOptions::default()
        },
        ..StackOptions::default()
    }
}

/// Size of a cache that holds `bytes` of data.
pub(crate) fn cache_for(bytes: u64) -> u64 {
    bytes + bytes / 64 + (128 << 20)
}

pub(crate) fn hits(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let (bytes, rows) = (setup.options.bytes, setup.rows());
    let storage = Arc::new(NullStorage::new(bytes));
    let bed = setup.bed(storage, no_queues(cache_for(bytes)), 0)?;
    let first_line = 1u64 << 12;
    let lines = bytes / LINE_BYTES;
    let io = bed.stack.io();
    setup.launch("fill_cache", Args::new().with(io).with(first_line).with(lines))?;
    setup.compare(&bed, "wrong_queued")?;

    let data = setup.plain.address();
    let scan = setup.plain("plain_scan", data, 0, 5)?;
    let plain = scan.gb_s(bytes);
    report.add("plain scan of device memory, 16-byte loads", plain, "GB/s");
    for run in [4096u64, 8192, 16384] {
        let hit = setup.on_stack(&bed, "tiles_queued", setup.blocks, run, 5)?;
        same("cache hits", hit, scan)?;
        report
            .add(
                format!("cache hits, warp-sequential, runs of {run} values"),
                hit.gb_s(bytes),
                "GB/s",
            )
            .against(plain, 0.88);
    }
    for (name, kernel) in [
        ("tiles of 256 values", "tiles_queued_8"),
        ("tiles of 256 values, code for any alignment", "tiles_queued_unaligned"),
    ] {
        let hit = setup.on_stack(&bed, kernel, setup.blocks, 16384, 5)?;
        same(name, hit, scan)?;
        report.add(format!("cache hits, {name}"), hit.gb_s(bytes), "GB/s").plain = Some(plain);
    }
    let count = setup.size(1 << 29, 1 << 14);
    let plain = setup.plain("plain_rows", data, count, 3)?;
    let hit = setup.on_stack(&bed, "rows_queued", setup.blocks, count, 3)?;
    same("random hits", hit, plain)?;
    let unaligned = setup.on_stack(&bed, "rows_queued_unaligned", setup.blocks, count, 3)?;
    same("random hits, unaligned", unaligned, plain)?;
    report.add("random 8-byte loads, plain", plain.m_s(count) / 1e3, "G/s");
    report
        .add("random 8-byte hits", hit.m_s(count) / 1e3, "G/s")
        .at_least(12.0)
        .note(format!("{:.0} % of plain loads", plain.ms / hit.ms * 100.0));
    report.add(
        "random 8-byte hits, code for any alignment",
        unaligned.m_s(count) / 1e3,
        "G/s",
    );
    let tiles = rows / 512;
    let plain = setup.plain("plain_4k", data, tiles, 3)?;
    let hit = setup.on_stack(&bed, "queued_4k", setup.blocks, tiles, 3)?;
    same("random 4 KiB hits", hit, plain)?;
    let figure = report.add("random 4 KiB hits", hit.gb_s(bytes), "GB/s");
    figure.plain = Some(plain.gb_s(bytes));
    Ok(())
}

pub(crate) fn mapped(setup: &Setup, report: &mut Report) -> Result<(), BenchError> {
    let bytes = setup.options.bytes;
    let path = setup.file()?;
    let begun = Instant::now();
    let file = MappedFile::open(&setup.device, &path)?;
    let seconds = begun.elapsed().as_secs_f64();
    report.add("registering the file's pages", bytes as f64 / seconds / 1e9, "GB/s");
    let Some(address) = file.device_address() else {
        let e = file.failure().cloned().unwrap_or(CudaError::NoCompiler);
        return Err(e.into());
    };
    let cache = setup.size(cache_for(bytes), 1 << 22);
    let bed = setup.bed(Arc::new(NullStorage::new(bytes)), no_queues(cache), address)?;
    setup.compare(&bed, "wrong_mapped")?;

    let plain = setup.plain("plain_tiles", address, 512, 3)?;
    report.add("plain sequential loads of the file's pages", plain.gb_s(bytes), "GB/s");
    let run = setup.on_stack(&bed, "tiles_mapped", setup.blocks, 512, 3)?;
    same("mapped", run, plain)?;
    report
        .add("mapped, sequential", run.gb_s(bytes), "GB/s")
        .against(plain.gb_s(bytes), 0.97);
    let unaligned = setup.on_stack(&bed, "tiles_mapped_unaligned", setup.blocks, 512, 3)?;
    same("mapped, unaligned", unaligned, plain)?;
    let figure = report.add(
        "mapped, sequential, code for any alignment",
        unaligned.gb_s(bytes),
        "GB/s",
    );
    figure.plain = Some(plain.gb_s(bytes));
    let fill = setup.on_stack(&bed, "tiles_mapped_cached", setup.blocks, 512, 1)?;
    same("mapped, filling the cache", fill, plain)?;
    let stats = fill.stats;
    report
        .add("mapped, sequential, filling the cache", fill.gb_s(bytes), "GB/s")
        .against(run.gb_s(bytes), 0.97)
        .note(format!(
            "{} installs, {} evictions, {} full sets, {} bytes copied",
            stats.installs, stats.evictions, stats.full_sets, stats.mapped_fill_bytes
        ));
    let again = setup.on_stack(&bed, "tiles_mapped_cached", setup.blocks, 512, 1)?;
    same("mapped, again from the cache", again, plain)?;
    report.add("mapped, sequential, again from the cache", again.gb_s(bytes), "GB/s");
    let tiles = setup.size(1 << 20, 1 << 10);
    let small = setup.size(8 << 20, 1 << 12);
    for (name, kernels, n, each, target) in [
        ("random 4 KiB", ["plain_4k", "mapped_4k"], tiles, 4096, 0.97),
        ("random 512 B", ["plain_512", "mapped_512"], small, 512, 0.95),
        ("random 128 B", ["plain_128", "mapped_128"], small, 128, 0.95),
    ] {
        let plain = setup.plain(kernels[0], address, n, 3)?;
        let run = setup.on_stack(&bed, kernels[1], setup.blocks, n, 3)?;
        same(name, run, plain)?;
        report
            .add(format!("mapped, {name}"), run.gb_s(n * each), "GB/s")
            .against(plain.gb_s(n * each), target)
            .note(format!("{:.0} M/s", run.m_s(n)));
    }
    Ok(())
}
