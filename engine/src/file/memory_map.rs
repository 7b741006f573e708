//! `MemoryMap`: the memory map of a local file. This module has the only `unsafe` code of the crate.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;

use super::{IoCounters, io_error};

/// Bytes that one load from memory moves.
const CACHE_LINE_BYTES: u64 = 64;

/// A whole file, mapped read-only. The operating system loads a page at its first use.
///
/// **Invariant:** no byte at or beyond the length that the file had when it was mapped is read.
/// [`LocalFile::map`](super::local::LocalFile::map) checks the length before each scan and refuses a file that has
/// become shorter.
///
/// If another process truncates the file during a query, the query can end the process (SIGBUS), as with every memory
/// map. Where writers truncate files, set `grampus.local_io = 'read'`.
#[derive(Debug)]
pub struct MemoryMap {
    name: Arc<str>,
    bytes: Bytes,
}

impl MemoryMap {
    /// Maps the first `length` bytes of `file`.
    ///
    /// # Errors
    /// `Io` if the system refuses.
    #[allow(unsafe_code)]
    pub fn new(name: Arc<str>, file: &File, length: u64) -> Result<Self> {
        let whole = 0..length;
        let map_length = usize::try_from(length).map_err(|error| io_error(&name, &whole, error))?;
        // SAFETY: the mapping is private to this process and read-only, so this process never changes its bytes. The
        // caller has checked that the file has `length` bytes. Another process may change or truncate the file:
        // readers copy bytes out or decode them with checks, and never rely on bytes staying the same.
        let map = unsafe { memmap2::MmapOptions::new().len(map_length).map(file) };
        let map = map.map_err(|error| io_error(&name, &whole, error))?;
        Ok(Self {
            name,
            bytes: Bytes::from_owner(map),
        })
    }
}

/// Reads of a memory map. A range is not copied, and a gather loads single values.
///
/// Moved bytes are the cache lines that a read touches, because the memory system moves whole lines.
#[derive(Debug)]
pub struct MapSource {
    map: Arc<MemoryMap>,
    io: IoCounters,
}

impl MapSource {
    /// Reads `map`, counting into `io`.
    pub fn new(map: Arc<MemoryMap>, io: IoCounters) -> Self {
        Self { map, io }
    }
}

impl ByteSource for MapSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.map.bytes.len() as u64 {
            let length = self.map.bytes.len();
            return Err(io_error(&self.map.name, &range, format!("the file has {length} bytes")));
        }
        if range.start < range.end {
            let lines = (range.end - 1) / CACHE_LINE_BYTES - range.start / CACHE_LINE_BYTES + 1;
            self.io.add(lines * CACHE_LINE_BYTES, 1);
        }
        Ok(self.map.bytes.slice(range.start as usize..range.end as usize))
    }

    fn gather(&self, offsets: &[u64], width: usize, out: &mut Vec<u8>) -> Result<()> {
        let Some(&last) = offsets.last() else {
            return Ok(());
        };
        let bytes: &[u8] = &self.map.bytes;
        let end = last.saturating_add(width as u64);
        if end > bytes.len() as u64 || offsets[0] > last {
            let reason = format!("the file has {} bytes", bytes.len());
            return Err(io_error(&self.map.name, &(last..end), reason));
        }
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

    use super::*;

    fn source(bytes: &[u8]) -> MapSource {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let map = MemoryMap::new("test".into(), &file, bytes.len() as u64).unwrap();
        MapSource::new(Arc::new(map), IoCounters::default())
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
}
