//! Files that are not in the page cache, and what disks read.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tempfile::TempDir;

use crate::{Resource, missing};

const PAGE_BYTES: u64 = 4096;

/// A folder on a disk that says which pages are in memory and counts what it reads, or `None` after a report by
/// [`missing`].
///
/// # Panics
/// If a file in the folder cannot be written.
pub fn folder() -> Option<TempDir> {
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let folders = places.iter().filter_map(|place| tempfile::tempdir_in(place).ok());
    let found = folders
        .into_iter()
        .find(|folder| is_observed(&folder.path().join("probe")));
    if found.is_none() {
        missing(
            Resource::Disk,
            format!("{places:?} do not say which pages are in memory, or count no reads"),
        );
    }
    found
}

/// Writes a file to its disk and drops its pages, as far as no process has them mapped.
///
/// # Panics
/// If the file cannot be opened or written.
pub fn drop_pages(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
}

/// Bytes that disks have read for this thread, or ahead of it.
fn bytes_read() -> u64 {
    let counters = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let read = counters.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    read.map_or(0, |bytes| bytes.parse().unwrap())
}

fn is_observed(path: &Path) -> bool {
    std::fs::write(path, vec![7; 16 * PAGE_BYTES as usize]).unwrap();
    drop_pages(path);
    let file = File::open(path).unwrap();
    let mut byte = [0];
    let asked = preadv2(
        &file,
        &mut [IoSliceMut::new(&mut byte)],
        8 * PAGE_BYTES,
        ReadWriteFlags::NOWAIT,
    );
    let before = bytes_read();
    let length = std::fs::read(path).unwrap().len() as u64;
    asked == Err(Errno::AGAIN) && length == 16 * PAGE_BYTES && bytes_read() - before >= 8 * PAGE_BYTES
}
