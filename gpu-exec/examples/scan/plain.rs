//! The baselines of the measurements.
//!
//! - Kernels that sum bytes and nothing else, over PCIe from registered memory, and from device memory.
//! - Plain reads past the page cache.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use grampus_cuda::{Args, Device, DeviceBuffer, Event, MappedFile, Module, Stream, compile_for};

use crate::Failed;
use crate::data::Table;

/// Each warp adds up the words of chunks of 64 KiB, 16 bytes a lane, eight loads in flight.
const KERNEL: &str = r#"
using namespace grampus;
struct Chunks { const u64* address; u64 count; u64* sums; };
GRAMPUS_KERNEL(plain_sum, Chunks, p) {
    u64 sum = 0;
    for (u64 chunk = launch_warp(); chunk < p.count; chunk += launch_warps()) {
        const u64x2* from = (const u64x2*)load_constant(&p.address[chunk]);
        for (u32 at = lane_id(); at < 4096; at += 8 * WARP) {
            u64x2 word[8];
            GRAMPUS_UNROLL
            for (u32 i = 0; i < 8; i++) word[i] = load_mapped(from + at + i * WARP);
            GRAMPUS_UNROLL
            for (u32 i = 0; i < 8; i++) sum += word[i].x + word[i].y;
        }
    }
    for (u32 by = WARP / 2; by > 0; by /= 2) sum += shuffle_down(sum, by);
    if (lane_id() == 0) p.sums[launch_warp()] = sum;
}
"#;
const CHUNK: u64 = 64 << 10;

/// The plain kernel on a device.
pub(crate) struct Plain {
    device: Device,
    module: Module,
    stream: Stream,
}

impl Plain {
    pub(crate) fn new(device: &Device) -> Result<Self, Failed> {
        let text = grampus_io_stack::device_headers::prelude() + KERNEL;
        Ok(Self {
            module: Module::load(device, &compile_for(device, &text, "plain")?.cubin)?,
            stream: Stream::new(device)?,
            device: device.clone(),
        })
    }

    /// Milliseconds of each of `runs` sums over the chunks, and the number of bytes. Each sum must be `expected`.
    fn sums(&self, chunks: &[u64], expected: u64, runs: usize) -> Result<(Vec<f64>, u64), Failed> {
        let kernel = self.module.kernel("plain_sum")?;
        let blocks = self.device.multiprocessors() * kernel.blocks_that_fit(256, 0)?.min(8);
        let addresses = DeviceBuffer::from_values(&self.device, chunks)?;
        let sums = DeviceBuffer::filled(&self.device, blocks as usize * 8 * 8, 0)?;
        let mut blob = Vec::new();
        for word in [addresses.address(), chunks.len() as u64, sums.address()] {
            blob.extend(word.to_le_bytes());
        }
        let mut times = Vec::new();
        for _ in 0..=runs {
            let (begin, end) = (Event::new(&self.device, true)?, Event::new(&self.device, true)?);
            begin.record(&self.stream)?;
            kernel.launch(&self.stream, blocks, 256, &mut Args::new().with_bytes(&blob))?;
            end.record(&self.stream)?;
            self.stream.synchronize()?;
            times.push(end.ms_since(&begin)?);
            let total = sums
                .read::<u64>(0, blocks as usize * 8)?
                .into_iter()
                .fold(0, u64::wrapping_add);
            if total != expected {
                return Err(format!("the plain kernel summed to {total}, not {expected}").into());
            }
        }
        times.remove(0); // warm-up
        Ok((times, chunks.len() as u64 * CHUNK))
    }

    /// Sums over the filter column's whole chunks over PCIe, from registered files. Also returns the time of
    /// registering.
    pub(crate) fn mapped(&self, table: &Table, runs: usize) -> Result<(Vec<f64>, u64, f64), Failed> {
        let began = Instant::now();
        let files: Result<Vec<_>, _> = table.paths.iter().map(|p| MappedFile::open(&self.device, p)).collect();
        let (files, register_ms) = (files?, began.elapsed().as_secs_f64() * 1e3);
        let (mut chunks, mut expected) = (Vec::new(), 0u64);
        let mut bytes_of_chunk = vec![0; CHUNK as usize];
        for (file, offset, bytes) in table.filter_bytes() {
            let base = files[file].device_address().ok_or("a file cannot be registered")?;
            let open = File::open(&table.paths[file])?;
            let first = offset.next_multiple_of(16); // mappings begin at pages
            for at in (first..offset + bytes - CHUNK.min(bytes)).step_by(CHUNK as usize) {
                chunks.push(base + at);
                open.read_exact_at(&mut bytes_of_chunk, at)?;
                let words = bytes_of_chunk
                    .chunks_exact(8)
                    .map(|w| u64::from_le_bytes(w.try_into().unwrap_or_default()));
                expected = words.fold(expected, u64::wrapping_add);
            }
        }
        let (times, bytes) = self.sums(&chunks, expected, runs)?;
        Ok((times, bytes, register_ms))
    }

    /// Sums over `bytes` of device memory.
    pub(crate) fn resident(&self, bytes: u64, runs: usize) -> Result<(Vec<f64>, u64), Failed> {
        let count = (bytes / CHUNK).max(1);
        let memory = DeviceBuffer::filled(&self.device, (count * CHUNK) as usize, 0x40)?;
        let chunks: Vec<u64> = (0..count).map(|i| memory.address() + i * CHUNK).collect();
        let expected = 0x4040_4040_4040_4040u64.wrapping_mul(count * CHUNK / 8);
        self.sums(&chunks, expected, runs)
    }
}

/// Bytes per second of reading a file past the page cache: `threads` readers of 1 MiB each.
pub(crate) fn direct_rate(path: &Path, threads: u64) -> std::io::Result<f64> {
    const READ_BYTES: u64 = 1 << 20;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let reads = file.metadata()?.len() / READ_BYTES;
    let next = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let reader = || -> std::io::Result<()> {
            // The buffer has a page more than a read, to align the read to a page.
            let mut memory = vec![0u8; READ_BYTES as usize + 4096];
            let skip = memory.as_ptr().align_offset(4096);
            loop {
                let read = next.fetch_add(1, Ordering::Relaxed);
                if read >= reads {
                    return Ok(());
                }
                file.read_exact_at(&mut memory[skip..skip + READ_BYTES as usize], read * READ_BYTES)?;
            }
        };
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(reader)).collect();
        readers.into_iter().try_for_each(|r| {
            r.join()
                .unwrap_or_else(|_| Err(std::io::Error::other("a reader panicked")))
        })
    })?;
    Ok((reads * READ_BYTES) as f64 / began.elapsed().as_secs_f64())
}

/// Drops a file's pages from the page cache.
pub(crate) fn drop_pages(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    Ok(())
}
