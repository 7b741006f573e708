//! `PageCache`: whether the bytes of a local file are in the page cache, and reads of others into it.
//!
//! The system reads ahead of what it is asked for, by up to the device's `read_ahead_kb`. A scan of few values would
//! read the whole file so. Therefore the file is marked for reads in no order, which bring whole pages and nothing
//! else. In exchange, the scan itself says in time what it will read:
//!
//! 1. A read that may not wait asks for one byte of a block. Without an answer, the byte's page is missing. Overlays
//!    answer no such reads, and the system tells which pages of their maps are missing.
//! 2. Once a page was missing, the file is *cold*. The scan then loads the pages of what it is about to read, all at
//!    once, and reads them by positioned reads, which cost half of page faults.
//! 3. After some loads that found no page missing, the file is cold no more.
//!
//! A page that is missing among others is loaded when it is used, alone.

use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::memory_map::MemoryMap;

/// In shorter files, a request more costs as much as the bytes that it saves.
const MIN_GUIDED_BYTES: u64 = 256 << 10;
/// The unit of a load. Larger pages hold several.
const PAGE_BYTES: u64 = 4096;
/// One byte of each block is asked for, once for each source.
const BLOCK_BYTES: u64 = 512 << 10;
/// The system loads no more for one request, where neither `read_ahead_kb` nor the device's longest request is larger.
#[cfg(target_os = "linux")]
const MAX_REQUEST_BYTES: u64 = 128 << 10;
/// Pages that one load asks for before it.
const MAX_PROBES: usize = 8;
/// Values of which one is asked for.
const VALUES_PER_PROBE: usize = 256;
/// Pages between two others are loaded too if they are at most this part of those before them, so that the whole has at
/// most this part more.
const MAX_GAP_SHARE: u64 = 8;
/// A longer gap costs more than a request.
const MAX_GAP_BYTES: u64 = 32 << 10;
/// Loads without a missing page, after which a file is cold no more.
const WARM_LOADS: u32 = 16;

/// How the file system tells which pages are missing.
#[derive(Debug)]
enum Asked {
    /// It does not tell, and the system decides what is read when.
    Nothing,
    /// It answers reads that may not wait.
    Read,
    /// The system tells it of a map, once there is one.
    Map(OnceLock<Arc<MemoryMap>>),
}

/// The page cache, as far as one file is concerned.
#[derive(Debug)]
pub(super) struct PageCache {
    asked: Asked,
    /// Loads without a missing page until the file is cold no more; 0: it is not cold.
    warm_loads_left: AtomicU32,
}

impl PageCache {
    /// Marks an open file for reads in no order, if its file system tells which of its pages are missing. The system
    /// may read all of a short file at once.
    pub(super) fn of(file: &File, length: u64) -> Self {
        // The mark comes first: the probe must not read ahead.
        let is_marked = length >= MIN_GUIDED_BYTES && expect_random_reads(file, true);
        let asked = match is_marked && is_resident(file, 0).is_some() {
            true => Asked::Read,
            false if is_marked && tells_of_maps(file) => Asked::Map(OnceLock::new()),
            false => Asked::Nothing,
        };
        if is_marked && !matches!(asked, Asked::Read) {
            expect_random_reads(file, false);
        }
        Self {
            asked,
            warm_loads_left: AtomicU32::new(0),
        }
    }

    /// Marks a map of the file too, if the file system tells which of its pages are missing.
    pub(super) fn guide(&self, file: &File, map: &Arc<MemoryMap>) {
        if let Asked::Map(known) = &self.asked {
            expect_random_reads(file, true);
            known.get_or_init(|| Arc::clone(map));
        }
        if self.is_guided() {
            map.expect_random_loads();
        }
    }

    /// Whether the scan says what it will read, and the system reads nothing else.
    fn is_guided(&self) -> bool {
        match &self.asked {
            Asked::Nothing => false,
            Asked::Read => true,
            Asked::Map(map) => map.get().is_some(),
        }
    }

    /// Whether pages were missing lately.
    pub(super) fn is_cold(&self) -> bool {
        self.warm_loads_left.load(Ordering::Relaxed) > 0
    }

    /// Whether the file is cold. If it is not yet, asks for a byte of each block of `range` that `probed` lacks.
    pub(super) fn is_cold_at(&self, file: &File, range: &Range<u64>, probed: &ProbedBlocks) -> bool {
        if !self.is_guided() || range.is_empty() {
            return false;
        }
        if self.is_cold() {
            return true;
        }
        let mut blocks = range.start / BLOCK_BYTES..=(range.end - 1) / BLOCK_BYTES;
        blocks.any(|block| {
            let start = range.start.max(block * BLOCK_BYTES);
            let end = range.end.min((block + 1) * BLOCK_BYTES);
            probed.is_new(block) && self.is_missing(file, start + (end - start) / 2)
        })
    }

    /// Looks up whether the page of a byte is missing. The file is cold then.
    pub(super) fn probe(&self, file: &File, offset: u64) {
        if self.is_guided() && !self.is_cold() {
            self.is_missing(file, offset);
        }
    }

    /// Loads the pages of values at ascending offsets if some of them are missing.
    pub(super) fn load_values(&self, file: &File, offsets: &[u64], width: usize, probed: &ProbedBlocks) {
        if !self.is_guided() {
            return;
        }
        let mut chunks = offsets.chunks(VALUES_PER_PROBE);
        let is_missing = |offset: u64| probed.is_new(offset / BLOCK_BYTES) && self.is_missing(file, offset);
        if self.is_cold() || chunks.any(|chunk| is_missing(chunk[chunk.len() / 2])) {
            let values = offsets
                .iter()
                .map(|&offset| offset..offset.saturating_add(width as u64));
            self.load(file, values);
        }
    }

    /// Has the system load the missing pages of `ranges`, and does not wait for them.
    pub(super) fn load(&self, file: &File, ranges: impl ExactSizeIterator<Item = Range<u64>> + Clone) {
        if !self.is_guided() || ranges.len() == 0 {
            return;
        }
        let probes = ranges.clone().step_by(ranges.len().div_ceil(MAX_PROBES));
        let mut middles = probes.map(|range| range.start + range.end.saturating_sub(range.start) / 2);
        if !middles.any(|middle| self.is_missing(file, middle)) {
            let left = |left: u32| Some(left.saturating_sub(1));
            let _ = (self.warm_loads_left).fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        }
        let mut run = 0..0;
        for range in ranges.filter(|range| !range.is_empty()) {
            let first = range.start / PAGE_BYTES * PAGE_BYTES;
            let end = range.end.checked_next_multiple_of(PAGE_BYTES).unwrap_or(range.end);
            let longest_gap = MAX_GAP_BYTES.min((run.end - run.start) / MAX_GAP_SHARE);
            if (run.start..=run.end + longest_gap).contains(&first) {
                run.end = run.end.max(end);
            } else {
                request(file, &run);
                run = first..end;
            }
        }
        request(file, &run);
    }

    /// Whether the page of a byte is missing. The file is cold then.
    fn is_missing(&self, file: &File, offset: u64) -> bool {
        let is_missing = match &self.asked {
            Asked::Nothing => false,
            Asked::Read => is_resident(file, offset) == Some(false),
            Asked::Map(map) => map.get().is_some_and(|map| map.is_missing(offset)),
        };
        if is_missing {
            self.warm_loads_left.store(WARM_LOADS, Ordering::Relaxed);
        }
        is_missing
    }
}

/// The last blocks that a source has asked for.
#[derive(Debug, Default)]
pub(super) struct ProbedBlocks([AtomicU64; 32]);

impl ProbedBlocks {
    /// Whether the block is not among the last ones. It is now.
    fn is_new(&self, block: u64) -> bool {
        let place = &self.0[block as usize % self.0.len()];
        // 0: no block.
        let is_new = place.load(Ordering::Relaxed) != block + 1;
        if is_new {
            place.store(block + 1, Ordering::Relaxed);
        }
        is_new
    }
}

/// Whether the page of a byte can be read without waiting; `None`: the file system does not say. If the page is
/// missing, the system begins to load it.
#[cfg(target_os = "linux")]
fn is_resident(file: &File, offset: u64) -> Option<bool> {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut byte = [0u8; 1];
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    match preadv2(file, &mut into, offset, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

#[cfg(not(target_os = "linux"))]
fn is_resident(_: &File, _: u64) -> Option<bool> {
    None
}

/// Whether the system tells which pages of a map are missing, although the file system answers no read that may not
/// wait: of overlays, in files of the process itself.
#[cfg(target_os = "linux")]
fn tells_of_maps(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;
    const OVERLAY_MAGIC: u64 = 0x794c_7630;
    let is_overlay = rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u64 == OVERLAY_MAGIC);
    let user = rustix::process::geteuid().as_raw();
    is_overlay && file.metadata().is_ok_and(|metadata| metadata.uid() == user)
}

#[cfg(not(target_os = "linux"))]
fn tells_of_maps(_: &File) -> bool {
    false
}

/// Marks an open file for reads in no order, or takes the mark back. False: the system refuses.
#[cfg(target_os = "linux")]
fn expect_random_reads(file: &File, is_random: bool) -> bool {
    use rustix::fs::{Advice, fadvise};
    let advice = if is_random { Advice::Random } else { Advice::Normal };
    fadvise(file, 0, None, advice).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn expect_random_reads(_: &File, _: bool) -> bool {
    false
}

/// Has the system load the missing pages of a range.
#[cfg(target_os = "linux")]
fn request(file: &File, pages: &Range<u64>) {
    use rustix::fs::{Advice, fadvise};
    for start in (pages.start..pages.end).step_by(MAX_REQUEST_BYTES as usize) {
        let length = NonZeroU64::new(MAX_REQUEST_BYTES.min(pages.end - start));
        // Whatever is not loaded now is loaded when it is read.
        let _ = fadvise(file, start, length, Advice::WillNeed);
    }
}

#[cfg(not(target_os = "linux"))]
fn request(_: &File, _: &Range<u64>) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_new_once_until_others_take_their_place() {
        let probed = ProbedBlocks::default();
        assert!(probed.is_new(0) && probed.is_new(7));
        assert!(!probed.is_new(0) && !probed.is_new(7));
        assert!(probed.is_new(32) && probed.is_new(0));
    }

    #[test]
    fn short_files_and_empty_ranges_are_left_to_the_system() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MIN_GUIDED_BYTES - 1).unwrap();
        let pages = PageCache::of(&file, MIN_GUIDED_BYTES - 1);
        assert!(!pages.is_guided() && !pages.is_cold_at(&file, &(0..100), &ProbedBlocks::default()));
        file.set_len(MIN_GUIDED_BYTES).unwrap();
        let pages = PageCache::of(&file, MIN_GUIDED_BYTES);
        pages.load(&file, [0..0, 5..5, u64::MAX..u64::MAX].into_iter());
        pages.load_values(&file, &[], 8, &ProbedBlocks::default());
        assert!(!pages.is_cold_at(&file, &(7..7), &ProbedBlocks::default()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn map_of_an_owned_file_tells_which_pages_are_missing() {
        use std::os::unix::fs::FileExt;

        use grampus_test_support::cold_files;
        let Some(folder) = cold_files::folder() else { return };
        let path = folder.path().join("file");
        std::fs::write(&path, vec![7; MIN_GUIDED_BYTES as usize]).unwrap();
        cold_files::drop_pages(&path);
        let file = File::open(&path).unwrap();
        let pages = PageCache {
            asked: Asked::Map(OnceLock::new()),
            warm_loads_left: AtomicU32::new(0),
        };
        let probed = ProbedBlocks::default();
        assert!(!pages.is_cold_at(&file, &(0..MIN_GUIDED_BYTES), &probed));
        let map = MemoryMap::new(&"file".into(), &file, MIN_GUIDED_BYTES).unwrap();
        pages.guide(&file, &Arc::new(map));
        // One page, and no other.
        file.read_exact_at(&mut [0], 9 * PAGE_BYTES).unwrap();
        assert!(!pages.is_missing(&file, 9 * PAGE_BYTES) && !pages.is_cold());
        assert!(pages.is_missing(&file, 8 * PAGE_BYTES) && pages.is_missing(&file, 10 * PAGE_BYTES));
        assert!(pages.is_cold_at(&file, &(0..MIN_GUIDED_BYTES), &probed));
    }

    #[test]
    fn file_is_cold_while_loads_find_pages_missing() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(MIN_GUIDED_BYTES).unwrap();
        let pages = PageCache {
            asked: Asked::Read,
            warm_loads_left: AtomicU32::new(WARM_LOADS),
        };
        std::io::Read::read_to_end(&mut &file, &mut Vec::new()).unwrap();
        for _ in 0..WARM_LOADS {
            assert!(pages.is_cold());
            pages.load(&file, std::iter::once(0..MIN_GUIDED_BYTES));
        }
        assert!(!pages.is_cold());
    }
}
