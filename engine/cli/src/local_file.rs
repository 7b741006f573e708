//! [`LocalFile`]: positioned reads of a local file, for the subcommands that print layouts.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::tail::FileTail;
use grampus_orc_layout::{LayoutError, metadata_reader};

use crate::exit_error::ErrorReport;
use crate::wording::os_words;

/// An open file.
pub(crate) struct LocalFile {
    pub(crate) name: Arc<str>,
    pub(crate) length: u64,
    file: Mutex<File>,
}

impl LocalFile {
    pub(crate) fn open(path: &Path) -> Result<Self, ErrorReport> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(|error| ErrorReport::file("open", &name, &error))?;
        let metadata = file
            .metadata()
            .map_err(|error| ErrorReport::file("open", &name, &error))?;
        if metadata.is_dir() {
            return Err(ErrorReport::new(format!("{name} is a folder")).hint("name a file in it"));
        }
        Ok(Self {
            name: name.into(),
            length: metadata.len(),
            file: Mutex::new(file),
        })
    }

    /// Reads and parses the file's tail.
    pub(crate) fn tail(&self) -> Result<FileTail, LayoutError> {
        metadata_reader::read_tail(&self.name, self.length, self)
    }
}

impl ByteSource for LocalFile {
    fn read(&self, range: Range<u64>) -> Result<Bytes, LayoutError> {
        let failed = |error: std::io::Error| LayoutError::Io {
            file: Arc::clone(&self.name),
            offset: range.start,
            length: range.end.saturating_sub(range.start),
            reason: os_words(&error),
            source: Some(Arc::new(error)),
        };
        if range.end > self.length || range.start > range.end {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        // A poisoned lock is harmless: every read seeks first.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(range.start))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(failed)?;
        Ok(bytes.into())
    }
}
