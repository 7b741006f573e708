//! `WritableFile`: a file read and written through the page cache, on the controller's own thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BlockWriter, CachedFile, Channel, Storage};
use crate::error::StorageError;
use crate::spec::StatusCode;

/// A file as a namespace that takes writes. A flush makes them durable.
#[derive(Debug)]
pub struct WritableFile {
    reader: CachedFile,
    writer: Arc<FileWriter>,
}

#[derive(Debug)]
struct FileWriter {
    path: PathBuf,
    file: File,
}

impl WritableFile {
    /// Opens a file for reading and writing. Its length is the namespace's, rounded up to whole 4 KiB, and writes fill
    /// it up.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let length = file.metadata()?.len();
        file.set_len(super::namespace_bytes(length))?;
        Ok(Self {
            reader: CachedFile::open(path)?,
            writer: Arc::new(FileWriter {
                path: path.to_owned(),
                file,
            }),
        })
    }
}

impl Storage for WritableFile {
    fn describe(&self) -> String {
        self.reader.describe()
    }

    fn size_bytes(&self) -> u64 {
        self.reader.size_bytes()
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        self.reader.channel(depth)
    }

    fn writer(&self) -> Option<Arc<dyn BlockWriter>> {
        Some(self.writer.clone())
    }
}

impl FileWriter {
    fn failed(&self, what: &str, offset: u64, length: u64, error: &io::Error) -> StorageError {
        StorageError {
            storage: self.path.display().to_string(),
            offset,
            length,
            reason: format!("{what}: {error}"),
            code: StatusCode::WriteFault,
        }
    }
}

impl BlockWriter for FileWriter {
    fn write(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let written = self.file.write_all_at(bytes, offset_bytes);
        written.map_err(|e| self.failed("a write", offset_bytes, bytes.len() as u64, &e))
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|e| self.failed("a flush", 0, 0, &e))
    }
}
