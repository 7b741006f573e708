//! [`LocalFile`]: positioned reads of a local file, for its layout.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::source::ByteSource;

/// An open file.
pub(crate) struct LocalFile {
    pub(crate) name: Arc<str>,
    pub(crate) length: u64,
    file: Mutex<File>,
}

impl LocalFile {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is a folder: name a file in it",
            ));
        }
        Ok(Self {
            name: path.display().to_string().into(),
            length: metadata.len(),
            file: Mutex::new(file),
        })
    }
}

impl ByteSource for LocalFile {
    fn read(&self, range: Range<u64>) -> Result<Bytes, LayoutError> {
        let failed = |failure: io::Error| LayoutError::io(&self.name, range.clone(), failure);
        if range.end > self.length || range.start > range.end {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
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
