//! `MapSource`: reads of a local file's memory map.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::local::LocalFile;
use super::memory_map::MemoryMap;
use super::page_cache::ProbedBlocks;
use super::{IoCounters, io_error};

/// Bytes that one load from memory moves.
const CACHE_LINE_BYTES: u64 = 64;

/// Reads of a memory map: a copy of a range, or single values.
///
/// Moved bytes are modelled, not counted: the cache lines that a read touches, because the memory system moves whole
/// lines. Ranges of a cold file are read instead, and counted: a page fault costs twice a read. Single values of a cold
/// file are loaded once the system has been asked for the pages of all of them.
#[derive(Debug)]
pub struct MapSource {
    file: Arc<LocalFile>,
    map: Arc<MemoryMap>,
    probed: ProbedBlocks,
    io: IoCounters,
}

impl MapSource {
    /// Reads `map`, which is `file`'s, counting into `io`.
    pub fn new(file: Arc<LocalFile>, map: Arc<MemoryMap>, io: IoCounters) -> Self {
        let probed = ProbedBlocks::default();
        Self { file, map, probed, io }
    }

    /// The file.
    pub(super) fn file(&self) -> &LocalFile {
        &self.file
    }

    /// Checks that the file is unchanged, and that all loads have returned its bytes.
    ///
    /// # Errors
    /// As [`LocalFile::check`], and `Io` if the system could not load a page.
    pub fn check(&self) -> Result<()> {
        self.file.check()?;
        match self.map.has_failed() {
            false => Ok(()),
            true => {
                let whole = 0..self.file.length();
                let reason = "the system could not load a page of the mapped file; check the disk";
                Err(io_error(self.file.name(), &whole, reason))
            }
        }
    }

    /// Whether an address lies in the map.
    pub fn contains(&self, address: *const u8) -> bool {
        self.map.bytes().as_ptr_range().contains(&address)
    }

    fn slice(&self, range: Range<u64>) -> Result<&[u8]> {
        let bytes: &[u8] = self.map.bytes();
        if range.start > range.end || range.end > bytes.len() as u64 {
            let reason = format!("the file has {} bytes", bytes.len());
            return Err(io_error(self.file.name(), &range, reason));
        }
        if range.start < range.end {
            let lines = (range.end - 1) / CACHE_LINE_BYTES - range.start / CACHE_LINE_BYTES + 1;
            self.io.add(lines * CACHE_LINE_BYTES, 1);
        }
        Ok(&bytes[range.start as usize..range.end as usize])
    }
}

impl ByteSource for MapSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        match self.file.is_cold_at(&range, &self.probed) {
            true => self.file.read(range, &self.io),
            false => Ok(Bytes::copy_from_slice(self.slice(range)?)),
        }
    }

    fn read_volatile(&self, range: Range<u64>) -> Result<Bytes> {
        match self.file.is_cold_at(&range, &self.probed) {
            true => self.file.read(range, &self.io),
            false => Ok(self.map.bytes().slice_ref(self.slice(range)?)),
        }
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        let Some(&last) = offsets.last() else {
            return Ok(());
        };
        let bytes: &[u8] = self.map.bytes();
        let end = last.saturating_add(width as u64);
        if end > bytes.len() as u64 || offsets[0] > last {
            let reason = format!("the file has {} bytes", bytes.len());
            return Err(io_error(self.file.name(), &(last..end), reason));
        }
        self.file.load_values(offsets, width, &self.probed);
        let lines = match width {
            4 => load::<4>(bytes, offsets, out),
            8 => load::<8>(bytes, offsets, out),
            _ => load_any(bytes, offsets, width, out),
        };
        self.io.add(lines * CACHE_LINE_BYTES, 1);
        Ok(())
    }
}

/// Appends the `N` bytes at each offset and returns the number of cache lines touched.
///
/// The loads do not depend on each other, so the processor keeps many of them in flight. Prefetching the lines while
/// the filter still streams is slower: each value then costs two address translations, and translation is the
/// bottleneck.
fn load<const N: usize>(bytes: &[u8], offsets: &[u64], out: &mut Vec<u8>) -> u64 {
    let start = out.len();
    out.resize(start + offsets.len() * N, 0);
    let (values, _) = out[start..].as_chunks_mut::<N>();
    let mut lines = 0;
    let mut next_line = 0;
    for (value, &offset) in values.iter_mut().zip(offsets) {
        let at = offset as usize;
        value.copy_from_slice(&bytes[at..at + N]);
        lines += touched(offset, N as u64, &mut next_line);
    }
    lines
}

fn load_any(bytes: &[u8], offsets: &[u64], width: usize, out: &mut Vec<u8>) -> u64 {
    let mut lines = 0;
    let mut next_line = 0;
    for &offset in offsets {
        let at = offset as usize;
        out.extend_from_slice(&bytes[at..at + width]);
        lines += touched(offset, width as u64, &mut next_line);
    }
    lines
}

/// Counts the lines of the value at `offset` that lie at or after `next_line`, and moves `next_line` past them.
///
/// Offsets ascend, so a line that several values share counts once.
#[inline]
fn touched(offset: u64, width: u64, next_line: &mut u64) -> u64 {
    let first = (offset / CACHE_LINE_BYTES).max(*next_line);
    let end = (offset + width).div_ceil(CACHE_LINE_BYTES);
    *next_line = (*next_line).max(end);
    end.saturating_sub(first)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::file::Identity;

    fn source(bytes: &[u8]) -> MapSource {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let identity = Identity::of_local(&file.as_file().metadata().unwrap());
        let file = LocalFile::open(&"test".into(), file.path(), &identity).unwrap();
        let map = file.map().unwrap();
        MapSource::new(Arc::new(file), map, IoCounters::default())
    }

    #[test]
    fn gather_counts_each_line_once() {
        let bytes: Vec<u8> = (0..=255).collect();
        let source = source(&bytes);
        let mut out = Vec::new();
        // The values touch these lines: 0; 0 and 1 (straddling); 1; 3.
        source.gather(&[0, 60, 68, 200], 8, &mut out).unwrap();
        assert_eq!(out[8..16], bytes[60..68]);
        assert_eq!(out[24..32], bytes[200..208]);
        assert_eq!(source.io.moved_bytes.value(), 3 * 64);
        assert_eq!(source.io.read_requests.value(), 1);
        assert!(source.gather(&[0, 249], 8, &mut out).is_err());
        source.gather(&[10, 63], 3, &mut out).unwrap();
        assert_eq!(source.io.moved_bytes.value(), 5 * 64);
    }

    #[test]
    fn read_counts_the_lines_that_it_covers() {
        let source = source(&[7; 300]);
        assert_eq!(source.read(63..65).unwrap().len(), 2);
        assert_eq!(source.io.moved_bytes.value(), 128);
        assert_eq!(source.read(128..128).unwrap().len(), 0);
        assert_eq!(source.io.moved_bytes.value(), 128);
        assert!(source.read(299..301).is_err());
    }

    #[test]
    fn copies_outlive_a_change_and_mapped_bytes_follow_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 100]).unwrap();
        let identity = Identity::of_local(&file.as_file().metadata().unwrap());
        let local = Arc::new(LocalFile::open(&"test".into(), file.path(), &identity).unwrap());
        let source = MapSource::new(Arc::clone(&local), local.map().unwrap(), IoCounters::default());
        let (copied, mapped) = (source.read(0..8).unwrap(), source.read_volatile(0..8).unwrap());
        assert!(!source.contains(copied.as_ptr()) && source.contains(mapped.as_ptr()));
        source.check().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20)); // file times have steps
        file.as_file().write_at(&[2; 100], 0).unwrap();
        assert_eq!((copied[0], mapped[0]), (1, 2));
        let error = source.check().unwrap_err().to_string();
        assert!(
            error.contains("it was written to") && error.contains("run the query again"),
            "{error}"
        );
    }

    #[test]
    fn lost_page_is_an_error_although_the_file_looks_the_same_and_the_next_map_is_sound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [1; 10_000]).unwrap();
        let metadata = file.as_file().metadata().unwrap();
        let identity = Identity::of_local(&metadata);
        let local = Arc::new(LocalFile::open(&"test".into(), file.path(), &identity).unwrap());
        let open = || MapSource::new(Arc::clone(&local), local.map().unwrap(), IoCounters::default());
        let source = open();
        // As after a failure of the disk: the page has no bytes, and the file is the same.
        file.as_file().set_len(0).unwrap();
        assert_eq!(source.read(9000..9008).unwrap()[..], [0; 8]);
        assert!(source.check().unwrap_err().to_string().contains("has 0 now"));
        std::fs::write(file.path(), [1; 10_000]).unwrap();
        file.as_file().set_modified(metadata.modified().unwrap()).unwrap();
        let error = source.check().unwrap_err().to_string();
        assert!(
            error.contains("could not load a page") && error.starts_with("test"),
            "{error}"
        );
        let next = open();
        assert_eq!(next.read(9000..9008).unwrap()[..], [1; 8]);
        next.check().unwrap();
    }
}
