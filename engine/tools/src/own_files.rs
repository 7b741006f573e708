//! [`OWN_FILES`]: the files that `--overwrite` replaces, those that Grampus wrote.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use grampus_atomic_output::staged_folder::Replaceable;
use grampus_orc_layout::metadata_reader;
use grampus_orc_layout::source::ChunkReader;

use crate::file_source;

/// Files that Grampus wrote.
pub(crate) const OWN_FILES: Replaceable = Replaceable {
    other_than_these: |path| (!is_written_by_grampus(path)).then(|| path.to_owned()),
    otherwise: "was not written by grampus; move it away, or name another folder",
};

/// Whether a file is ORC that states Grampus as its writer.
fn is_written_by_grampus(path: &Path) -> bool {
    if path.extension() != Some(OsStr::new("orc")) || !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return false;
    }
    let tail =
        file_source::open(path).and_then(|source| metadata_reader::read_tail(&source.name(), source.length(), &source));
    tail.is_ok_and(|tail| tail.writer.contains("grampus "))
}
