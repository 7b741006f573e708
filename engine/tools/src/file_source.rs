//! [`FileSource`]: positioned reads from a local file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use grampus_orc_layout::source::ByteSource;
use grampus_orc_layout::{LayoutError, Result};

/// An open file.
pub(crate) struct FileSource {
    name: Arc<str>,
    file: File,
    length: u64,
}

impl FileSource {
    /// Opens the file at `path`.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name: Arc<str> = path.display().to_string().into();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| failed(&name, 0..0, error))?;
        Ok(Self { name, file, length })
    }

    /// The file's name in messages.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Length of the file when it was opened, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

impl ByteSource for FileSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        if range.end > self.length || range.start > range.end {
            let error = io::ErrorKind::UnexpectedEof.into();
            return Err(failed(&self.name, range, error));
        }
        let mut buffer = vec![0; (range.end - range.start) as usize];
        match read_at(&self.file, &mut buffer, range.start) {
            Ok(()) => Ok(buffer.into()),
            Err(error) => Err(failed(&self.name, range, error)),
        }
    }
}

fn failed(name: &Arc<str>, range: Range<u64>, error: io::Error) -> LayoutError {
    LayoutError::io(name, range, error)
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(windows)]
fn read_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}
