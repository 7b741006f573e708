//! [`open`], a local file as the source of ORC readers.

use std::fs::File;
use std::path::Path;

use grampus_orc_layout::file_source::FileSource;
use grampus_orc_layout::{LayoutError, Result};

/// Opens the file at `path` for positioned reads.
///
/// # Errors
/// `Io` if it cannot be opened.
pub(crate) fn open(path: &Path) -> Result<FileSource> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => FileSource::try_new(file, name),
        Err(error) => Err(LayoutError::io(&name.into(), 0..0, error)),
    }
}
