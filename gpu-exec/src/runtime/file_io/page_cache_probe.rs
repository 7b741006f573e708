//! The page cache probe: whether a file's pages are in the page cache. It asks for a few of them without waiting.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;

use crate::input::FileVersion;

/// Pages that are asked for.
const PROBES: u64 = 16;
/// Smaller files are read through the page cache: this costs nothing, and the next query finds them there.
const MIN_DIRECT_BYTES: u64 = 16 << 20;

/// The file opened past the page cache, if most of its pages are not in there and the file system allows it.
pub(crate) fn direct_if_cold(file: &File, version: &FileVersion) -> Option<File> {
    if version.bytes < MIN_DIRECT_BYTES || !is_cold(file, version.bytes) {
        return None;
    }
    let direct = open_direct(&version.path)?;
    let metadata = direct.metadata().ok()?;
    // Another file may have taken the place meanwhile.
    (FileVersion::of_metadata(&version.path, &metadata) == *version).then_some(direct)
}

/// The file, opened past the page cache.
#[cfg(target_os = "linux")]
pub(crate) fn open_direct(path: &Path) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    File::options().read(true).custom_flags(flags).open(path).ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn open_direct(_: &Path) -> Option<File> {
    None
}

/// Whether at least half of some pages, taken from all over the file, would have to be read from the disk.
#[cfg(target_os = "linux")]
fn is_cold(file: &File, bytes: u64) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    let mut missing = 0;
    for probe in 0..PROBES {
        let mut byte = [0u8; 1];
        let offset = bytes / PROBES * probe;
        match preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::AGAIN) => missing += 1,
            Err(_) => return false, // a file system that cannot tell
            Ok(_) => {}
        }
    }
    missing * 2 >= PROBES
}

#[cfg(not(target_os = "linux"))]
fn is_cold(_: &File, _: u64) -> bool {
    false
}
