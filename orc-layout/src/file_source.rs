//! [`FileSource`], the bytes of a file that the caller has opened, by positioned reads.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{LayoutError, Result};
use crate::metadata_reader::read_tail;
use crate::source::{ByteSource, ChunkReader};
use crate::tail::FileTail;

/// Values that are this close are read together: a request costs more than the bytes of a page.
const MERGE_GAP_BYTES: u64 = 4096;

/// A file that the caller has opened. Reads use no shared position, so several readers may use one file.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    name: Arc<str>,
    length: u64,
}

impl FileSource {
    /// The bytes of the file at a path, which errors call so.
    ///
    /// # Errors
    /// If the file cannot be opened, or is a folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            let reason = "it is a folder: name a file in it";
            return Err(io::Error::new(io::ErrorKind::IsADirectory, reason));
        }
        Ok(Self {
            file,
            name: path.display().to_string().into(),
            length: metadata.len(),
        })
    }

    /// Reads and parses the file's tail.
    ///
    /// # Errors
    /// As [`read_tail`].
    pub fn tail(&self) -> Result<FileTail> {
        read_tail(&self.name, self.length, self)
    }

    /// The bytes of `file`, which errors call `name`.
    ///
    /// # Errors
    /// `Io` if the length of the file cannot be found out.
    pub fn try_new(file: File, name: impl Into<Arc<str>>) -> Result<Self> {
        let name = name.into();
        match file.metadata() {
            Ok(metadata) => Ok(Self {
                file,
                name,
                length: metadata.len(),
            }),
            Err(error) => Err(LayoutError::io(&name, 0..0, error)),
        }
    }
}

impl ByteSource for FileSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.length {
            let reason = format!("the file has {} bytes", self.length);
            return Err(LayoutError::io_without_source(&self.name, range, reason));
        }
        let mut bytes = vec![0; (range.end - range.start) as usize];
        match read_at(&self.file, &mut bytes, range.start) {
            Ok(()) => Ok(bytes.into()),
            Err(error) => Err(LayoutError::io(&self.name, range, error)),
        }
    }

    fn merge_gap_bytes(&self) -> u64 {
        MERGE_GAP_BYTES
    }
}

impl ChunkReader for FileSource {
    fn length(&self) -> u64 {
        self.length
    }

    fn name(&self) -> Arc<str> {
        self.name.clone()
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                buffer = &mut buffer[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn ranges_inside_the_file_are_read_and_others_are_errors() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let source = FileSource::try_new(file, "digits").unwrap();
        assert_eq!(source.length(), 10);
        assert_eq!(&source.read(3..6).unwrap()[..], b"345");
        assert_eq!(source.read(10..10).unwrap().len(), 0);
        let error = source.read(8..11).unwrap_err().to_string();
        assert_eq!(error, "digits: cannot read 3 bytes at byte 8: the file has 10 bytes");
    }
}
