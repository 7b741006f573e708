//! `calibrate`: this machine's rates, measured. `grampus device --calibrate` saves them.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use grampus::gpu::calibration::Calibration;
use grampus_gpu_exec::MachineProfile;
use grampus_gpu_exec::abi::paging::PAGE_BYTES;
use grampus_io_bench::{self as bench, BenchError, BenchOptions, Figure};
use grampus_orc_layout::codec::{Codec, compress_chunk, decompress_over};

/// Maximum number of threads that read pages.
const MAX_READER_THREADS: usize = 16;
/// Bytes that the parts of a calibration move.
const MEASURED_BYTES: u64 = 2 << 30;
/// Sections of the I/O stack's benchmark that tell the rates.
const SECTIONS: [&str; 5] = ["hits", "mapped", "cached", "pushed", "disk"];

/// Measures this machine, with a temporary file in `folder`. Each figure goes to `shown` when it is measured. A rate
/// that could not be measured keeps its default.
///
/// # Errors
/// Without a GPU, a compiler, or room for the file.
pub(crate) fn calibrate(folder: &Path, shown: &mut dyn FnMut(&Figure)) -> Result<Calibration, BenchError> {
    let options = BenchOptions {
        small: false,
        sections: SECTIONS.map(str::to_owned).to_vec(),
        folder: folder.to_owned(),
        bytes: MEASURED_BYTES,
    };
    let report = bench::run(&options, shown)?;
    let mut profile = measured_cpu();
    match measured_gathering(folder) {
        Ok(rate) => profile.fetched_pages_per_s = rate,
        Err(e) => log::warn!("gathering pages was not measured: {e}"),
    }
    take_figures(&mut profile, &report.figures);
    profile.gpu = report.device.name;
    Ok(Calibration::of(profile))
}

/// Sets the rates that figures of the benchmark tell.
fn take_figures(profile: &mut MachineProfile, figures: &[Figure]) {
    let best = |section: &str, is_named: fn(&str) -> bool, scale: f64| {
        let named = figures
            .iter()
            .filter(|f| f.section == section && is_named(&f.name) && f.error.is_none());
        let best = named.map(|figure| figure.value * scale).fold(0.0, f64::max);
        (best > 0.0).then_some(best)
    };
    let mut set = |rate: fn(&mut MachineProfile) -> &mut f64, value: Option<f64>| {
        if let Some(value) = value {
            *rate(profile) = value;
        }
    };
    set(
        |r| &mut r.device_bytes_per_s,
        best("hits", |name| name.contains("plain scan of device memory"), 1e9),
    );
    // Names that go on are of other ways, such as hits in the cache.
    set(
        |r| &mut r.mapped_bytes_per_s,
        best("mapped", |name| name == "mapped, sequential", 1e9),
    );
    // A figure in bytes, of loads of 128.
    set(
        |r| &mut r.mapped_loads_per_s,
        best("mapped", |name| name == "mapped, random 128 B", 1e9 / 128.0),
    );
    set(
        |r| &mut r.commands_per_s,
        best(
            "cached",
            |name| name.contains("512-byte commands from the page cache"),
            1e6,
        ),
    );
    set(
        |r| &mut r.push_bytes_per_s,
        best("pushed", |name| name.contains("pushed from the page cache"), 1e9),
    );
    set(
        |r| &mut r.disk_bytes_per_s,
        best("disk", |name| name.contains("disk, 1 MiB commands"), 1e9),
    );
}

/// The defaults with the CPU's rates measured: a filtered scan of doubles by one thread and by all, and decompression
/// by all. Decoding and aggregating are taken to be as much faster or slower than by default as scanning is.
fn measured_cpu() -> MachineProfile {
    const VALUES: usize = 32 << 20;
    let default = Calibration::default().profile;
    let values: Vec<f64> = (0..VALUES).map(|k| (k % 1000) as f64).collect();
    let rate = |threads: usize| {
        let part = VALUES.div_ceil(threads);
        let fastest = (0..3).map(|_| {
            let begun = Instant::now();
            let hits: usize = std::thread::scope(|scope| {
                let scans: Vec<_> = (values.chunks(part))
                    .map(|part| scope.spawn(move || part.iter().filter(|value| **value >= 999.5).count()))
                    .collect();
                scans.into_iter().filter_map(|scan| scan.join().ok()).sum()
            });
            std::hint::black_box(hits);
            (VALUES * 8) as f64 / begun.elapsed().as_secs_f64()
        });
        fastest.fold(0.0, f64::max)
    };
    let (one, all) = (rate(1), rate(default.cores));
    let bytes = sample();
    let mut decompressed = default.cpu_decompressed_bytes_per_s;
    for (codec, rate) in [
        (Codec::Zlib, &mut decompressed.zlib),
        (Codec::Snappy, &mut decompressed.snappy),
        (Codec::Lz4, &mut decompressed.lz4),
        (Codec::Zstd, &mut decompressed.zstd),
    ] {
        match decompression_rate(codec, &bytes, default.cores) {
            Ok(measured) => *rate = measured,
            Err(error) => log::warn!("decompression by {codec:?} was not measured: {error}"),
        }
    }
    let scale = one / default.cpu_scan_bytes_per_s;
    MachineProfile {
        cpu_scan_bytes_per_s: one,
        cpu_scan_all_bytes_per_s: all.max(one),
        cpu_decoded_values_per_s: default.cpu_decoded_values_per_s * scale,
        cpu_decompressed_bytes_per_s: decompressed,
        cpu_aggregated_rows_per_s: default.cpu_aggregated_rows_per_s * scale,
        ..default
    }
}

/// Bytes of the values that are compressed to measure a codec.
const SAMPLE_BYTES: usize = 2 << 20;
/// Bytes of their chunks, as most writers make them.
const SAMPLE_CHUNK_BYTES: usize = 64 << 10;

/// Doubles with two decimals in no order, as amounts are.
fn sample() -> Vec<u8> {
    let value = |row: u64| ((row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % 10_000) as f64 / 100.0;
    (0..SAMPLE_BYTES as u64 / 8)
        .flat_map(|row| value(row).to_le_bytes())
        .collect()
}

/// Decompressed bytes a second and thread, if so many threads decompress the chunks of `bytes` at once.
fn decompression_rate(codec: Codec, bytes: &[u8], threads: usize) -> Result<f64, String> {
    const ROUNDS: usize = 8;
    let compressed = |chunk: &[u8]| {
        let mut out = Vec::new();
        compress_chunk(codec, chunk, &mut out).map(|()| out)
    };
    let chunks: Vec<Vec<u8>> = bytes
        .chunks(SAMPLE_CHUNK_BYTES)
        .map(compressed)
        .collect::<Result<_, _>>()?;
    let decompress_all = || -> Result<(), String> {
        let mut out = Vec::new();
        for chunk in (0..ROUNDS).flat_map(|_| &chunks) {
            decompress_over(codec, SAMPLE_CHUNK_BYTES, chunk, &mut out)?;
            std::hint::black_box(&out);
        }
        Ok(())
    };
    let mut fastest = f64::INFINITY;
    for _ in 0..3 {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(decompress_all)).collect();
            let panicked = |_| Err("a thread panicked".to_owned());
            running
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(panicked))
        })?;
        fastest = fastest.min(begun.elapsed().as_secs_f64());
    }
    Ok((ROUNDS * bytes.len()) as f64 / fastest)
}

/// Pages per second that threads read from all over a file that was just written.
fn measured_gathering(folder: &Path) -> std::io::Result<f64> {
    const FILE_BYTES: u64 = 256 << 20;
    const READS: u64 = 200_000;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let piece = vec![0x47; 4 << 20];
    for _ in 0..FILE_BYTES / piece.len() as u64 {
        file.write_all(&piece)?;
    }
    let threads = available_parallelism().map_or(1, usize::from).min(MAX_READER_THREADS);
    let begun = Instant::now();
    // As threads do it for a query: each opens the file for itself.
    let read = |first: u64| -> std::io::Result<()> {
        let file = fs::File::open(file.path())?;
        let mut page = [0; PAGE_BYTES as usize];
        for at in (first..READS).step_by(threads) {
            // A multiplier that goes from page to page in no order.
            let at = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (FILE_BYTES / PAGE_BYTES - 1);
            file.read_exact_at(&mut page, at * PAGE_BYTES + 3)?;
        }
        std::hint::black_box(page);
        Ok(())
    };
    std::thread::scope(|scope| {
        let read = &read;
        let readers: Vec<_> = (0..threads as u64)
            .map(|first| scope.spawn(move || read(first)))
            .collect();
        let panicked = |_| Err(std::io::Error::other("a reader panicked"));
        let mut joined = readers.into_iter().map(|reader| reader.join().unwrap_or_else(panicked));
        joined.try_for_each(|done| done)
    })?;
    Ok(READS as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathering_can_be_measured() {
        let folder = tempfile::tempdir().unwrap();
        let rate = measured_gathering(folder.path()).unwrap();
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
        assert!(measured_gathering(&folder.path().join("nowhere")).is_err());
    }

    #[test]
    fn figures_become_rates() {
        let figure = |section: &str, name: &str, value: f64, error: Option<&str>| Figure {
            section: section.to_owned(),
            name: name.to_owned(),
            value,
            unit: "GB/s",
            plain: None,
            target: None,
            note: String::new(),
            error: error.map(str::to_owned),
        };
        let mut rates = MachineProfile::default();
        let figures = [
            figure("mapped", "mapped, sequential", 25.0, None),
            figure("mapped", "mapped, sequential, again from the cache", 2770.6, None),
            figure("mapped", "mapped, random 128 B", 12.8, None),
            figure(
                "pushed",
                "1 MiB commands pushed from the page cache, 4 threads",
                20.0,
                None,
            ),
            figure(
                "pushed",
                "4 MiB commands pushed from the page cache, 8 threads",
                24.0,
                None,
            ),
            figure("disk", "disk, 1 MiB commands, 4 threads", 9.0, Some("no room")),
        ];
        take_figures(&mut rates, &figures);
        assert_eq!(
            (
                rates.mapped_bytes_per_s,
                rates.mapped_loads_per_s,
                rates.push_bytes_per_s
            ),
            (25e9, 100e6, 24e9)
        );
        assert_eq!(rates.disk_bytes_per_s, MachineProfile::default().disk_bytes_per_s);
        assert!(rates.is_sound());
    }

    #[test]
    fn the_cpu_can_be_measured() {
        assert!(measured_cpu().is_sound());
    }
}
