//! `WritableFile`: a file read and written through the page cache, on the controller's own thread. Writes go to a
//! mapping: positioned writes of several threads would wait for the file's lock, one behind the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{BlockWriter, CachedFile, Channel, Storage};
use crate::error::StorageError;
use crate::raw::WritableMapping;
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
    /// `None`: empty, or it cannot be mapped.
    mapping: Option<WritableMapping>,
}

impl WritableFile {
    /// Opens a file for reading and writing. Its length is the namespace's, rounded up to whole 4 KiB, and writes fill
    /// it up.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(path)?;
        let length = super::namespace_bytes(file.metadata()?.len());
        file.set_len(length)?;
        let mapping = match usize::try_from(length) {
            Ok(0) | Err(_) => None,
            Ok(length) => WritableMapping::new(&file, length)
                .inspect_err(|e| log::info!("{}: not mapped for writes: {e}", path.display()))
                .ok(),
        };
        Ok(Self {
            reader: CachedFile::open(path)?,
            writer: Arc::new(FileWriter {
                path: path.to_owned(),
                file,
                mapping,
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
        let stores = |mapping: &WritableMapping| mapping.store(offset_bytes as usize, bytes);
        if self.mapping.as_ref().is_some_and(stores) {
            return Ok(());
        }
        // Says what is wrong, unless it works.
        let written = self.file.write_all_at(bytes, offset_bytes);
        written.map_err(|e| self.failed("a write", offset_bytes, bytes.len() as u64, &e))
    }

    // The system knows the pages that stores to a mapping have made dirty.
    fn flush(&self) -> Result<(), StorageError> {
        self.file.sync_data().map_err(|e| self.failed("a flush", 0, 0, &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another process truncates the file: the mapping has no page for the store, and a positioned write makes one.
    #[test]
    fn writes_go_on_when_the_mapping_has_lost_its_pages() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 * 4096).unwrap();
        let storage = WritableFile::open(file.path()).unwrap();
        let writer = storage.writer().unwrap();
        writer.write(4096, &[1; 4096]).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[4095..=4096], [0, 1], "seen at once");
        file.as_file().set_len(4096).unwrap();
        writer.write(8192, &[2; 512]).unwrap();
        writer.write(0, &[3; 512]).unwrap();
        writer.flush().unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[8192]), (8192 + 512, 3, 2));
    }
}
