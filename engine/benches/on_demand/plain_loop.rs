//! `PlainColumn`: plain loops over the bytes of the predicate column in a memory map, the limit of a scan.
//!
//! A loop counts and sums the values that pass. The fastest loop depends on the number of such values, so the benchmark
//! times all loops and takes the fastest.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::access::Access;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::stripe::StripeLayout;
use grampus_orc_layout::tail::{FileTail, TailParse};
use grampus_orc_layout::{LayoutError, Result};
use memmap2::Mmap;

/// The values of one direct DOUBLE column in memory.
pub(crate) struct PlainColumn {
    maps: Vec<Mmap>,
    /// Map and byte range of every run of values.
    segments: Vec<(usize, Range<usize>)>,
}

/// Runs are cut so that threads can share them evenly.
const SEGMENT_BYTES: usize = 8 << 20;

impl PlainColumn {
    /// Finds `column` in `files`; `None`: the column is not direct in every stripe.
    pub(crate) fn find(files: &[PathBuf], column: &str) -> Result<Option<Self>> {
        let mut found = Self {
            maps: Vec::new(),
            segments: Vec::new(),
        };
        for path in files {
            let source = FileSource::open(path)?;
            let tail = source.tail()?;
            let Some(field) = tail.schema.arrow.index_of(column).ok() else {
                return Ok(None);
            };
            let id = tail.schema.fields()[field];
            for stripe in 0..tail.stripes.len() {
                let footer = source.read(tail.stripes[stripe].footer_range())?;
                let layout = StripeLayout::parse(&tail, stripe, &footer)?;
                let Access::Direct(direct) = Access::of(&tail, &layout, id, None, &source, false)? else {
                    return Ok(None);
                };
                for segment in direct.segments {
                    let start = segment.offset as usize;
                    let end = start + segment.rows as usize * 8;
                    let cuts = (start..end).step_by(SEGMENT_BYTES);
                    let map = found.maps.len();
                    found
                        .segments
                        .extend(cuts.map(|cut| (map, cut..(cut + SEGMENT_BYTES).min(end))));
                }
            }
            // SAFETY: the benchmark has written the file into its own folder and does not change the file, so the map's
            // bytes neither change nor vanish.
            let map = unsafe { Mmap::map(&source.file) }.map_err(|error| source.error(0..0, error))?;
            found.maps.push(map);
        }
        Ok(Some(found))
    }

    /// The number and the sum of the values that are at least `bound`, computed on `threads` threads.
    pub(crate) fn count_and_sum(&self, scan: Loop, bound: f64, threads: usize) -> (u64, f64) {
        if threads == 1 {
            return self.part(scan, bound, 0, 1);
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || self.part(scan, bound, thread, threads)))
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_default())
                .fold((0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1))
        })
    }

    fn part(&self, scan: Loop, bound: f64, thread: usize, threads: usize) -> (u64, f64) {
        let mine = self.segments.iter().skip(thread).step_by(threads);
        mine.map(|(map, range)| scan(&self.maps[*map][range.clone()], bound))
            .fold((0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1))
    }
}

/// Counts and sums the values in some bytes that are at least a bound.
pub(crate) type Loop = fn(&[u8], f64) -> (u64, f64);

/// The fastest of eleven loops, at 0.03 % and at 0.7 % of rows (figures: docs/experiments).
pub(crate) const LOOPS: [Loop; 2] = [by_blocks, by_values];

/// Values of a block, for which the loop decides at once whether any passes: eight cache lines.
const BLOCK_BYTES: usize = 64 * size_of::<f64>();

/// A loop that the compiler vectorizes for each block. Only blocks with hits are looked at again.
fn by_blocks(bytes: &[u8], bound: f64) -> (u64, f64) {
    let mut total = (0, 0.0);
    for block in bytes.chunks(BLOCK_BYTES) {
        if values(block).fold(false, |any, value| any | (value >= bound)) {
            let (count, sum) = by_values(block, bound);
            total = (total.0 + count, total.1 + sum);
        }
    }
    total
}

/// A loop with one branch per value, marked as unlikely. Without the mark, the compiler adds a zero for each value that
/// fails, and each addition waits for the one before.
fn by_values(bytes: &[u8], bound: f64) -> (u64, f64) {
    let mut total = (0, 0.0);
    for value in values(bytes) {
        if value >= bound {
            std::hint::cold_path();
            total = (total.0 + 1, total.1 + value);
        }
    }
    total
}

fn values(bytes: &[u8]) -> impl Iterator<Item = f64> + '_ {
    let (values, _) = bytes.as_chunks();
    values.iter().map(|&value| f64::from_le_bytes(value))
}

struct FileSource {
    file: File,
    name: Arc<str>,
    length: u64,
}

impl FileSource {
    fn open(path: &Path) -> Result<Self> {
        let name: Arc<str> = path.display().to_string().into();
        let io = |error: std::io::Error| LayoutError::io(&name, 0..0, error);
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        Ok(Self { file, name, length })
    }

    fn tail(&self) -> Result<FileTail> {
        let mut wanted = FileTail::FIRST_READ_BYTES.min(self.length);
        loop {
            let last = self.read(self.length - wanted..self.length)?;
            match FileTail::parse(&self.name, self.length, &last)? {
                TailParse::Complete(tail) => return Ok(*tail),
                TailParse::NeedBytes(more) => wanted = more,
            }
        }
    }

    fn error(&self, range: Range<u64>, error: std::io::Error) -> LayoutError {
        LayoutError::io(&self.name, range, error)
    }
}

impl ByteSource for FileSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file
            .read_exact_at(&mut bytes, range.start)
            .map_err(|error| self.error(range, error))?;
        Ok(bytes.into())
    }
}
