//! The limit: a plain loop over the bytes of the predicate column in a memory map, which sums and counts what passes.

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

/// Where the values of one direct DOUBLE column lie in memory.
pub(crate) struct PlainColumn {
    maps: Vec<Mmap>,
    /// Map and byte range of every run of values.
    segments: Vec<(usize, Range<usize>)>,
}

/// Runs are cut so that threads can share them evenly.
const SEGMENT_BYTES: usize = 8 << 20;

impl PlainColumn {
    /// Finds `column` in `files`; `None` if it is not direct everywhere.
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
            // SAFETY: the benchmark wrote the file into a folder of its own and changes it no more, so the map's
            // bytes neither change nor vanish while it is mapped.
            let map = unsafe { Mmap::map(&source.file) }.map_err(|error| source.error(0..0, &error))?;
            found.maps.push(map);
        }
        Ok(Some(found))
    }

    /// How many values are at least `bound`, and their sum; on `threads` threads.
    pub(crate) fn count_and_sum(&self, bound: f64, threads: usize) -> (u64, f64) {
        if threads == 1 {
            return self.part(bound, 0, 1);
        }
        std::thread::scope(|scope| {
            let parts: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || self.part(bound, thread, threads)))
                .collect();
            parts
                .into_iter()
                .map(|part| part.join().unwrap_or_default())
                .fold((0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1))
        })
    }

    fn part(&self, bound: f64, thread: usize, threads: usize) -> (u64, f64) {
        let mine = self.segments.iter().skip(thread).step_by(threads);
        mine.map(|(map, range)| scan(&self.maps[*map][range.clone()], bound))
            .fold((0, 0.0), |all, part| (all.0 + part.0, all.1 + part.1))
    }
}

/// Eight independent lanes and no branch, so that the compiler can use vectors.
#[allow(clippy::needless_range_loop)] // a lane indexes three arrays
fn scan(bytes: &[u8], bound: f64) -> (u64, f64) {
    let (mut counts, mut sums) = ([0_u64; 8], [0.0_f64; 8]);
    let mut blocks = bytes.chunks_exact(64);
    for block in &mut blocks {
        for lane in 0..8 {
            let mut value = [0; 8];
            value.copy_from_slice(&block[lane * 8..lane * 8 + 8]);
            let value = f64::from_le_bytes(value);
            let passes = value >= bound;
            counts[lane] += u64::from(passes);
            sums[lane] += if passes { value } else { 0.0 };
        }
    }
    let mut total = (counts.iter().sum::<u64>(), sums.iter().sum::<f64>());
    for value in blocks.remainder().chunks_exact(8) {
        let value = f64::from_le_bytes(value.try_into().unwrap_or_default());
        if value >= bound {
            total = (total.0 + 1, total.1 + value);
        }
    }
    total
}

struct FileSource {
    file: File,
    name: Arc<str>,
    length: u64,
}

impl FileSource {
    fn open(path: &Path) -> Result<Self> {
        let name: Arc<str> = path.display().to_string().into();
        let io = |error: std::io::Error| LayoutError::Io {
            file: name.clone(),
            offset: 0,
            length: 0,
            reason: error.to_string(),
        };
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

    fn error(&self, range: Range<u64>, error: &std::io::Error) -> LayoutError {
        LayoutError::Io {
            file: self.name.clone(),
            offset: range.start,
            length: range.end - range.start,
            reason: error.to_string(),
        }
    }
}

impl ByteSource for FileSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.file
            .read_exact_at(&mut bytes, range.start)
            .map_err(|error| self.error(range, &error))?;
        Ok(bytes.into())
    }
}
