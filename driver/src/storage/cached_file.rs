//! `CachedFile`: a file read through the page cache, with positioned reads on the controller's own thread.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Channel, ImmediateChannel, Storage, namespace_bytes};
use crate::error::StorageError;
use crate::spec::StatusCode;

/// A file as a namespace, read through the operating system's cache: the fastest way if the cache holds the file.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: Arc<File>,
    length: u64,
}

impl CachedFile {
    /// Opens a file. Its length is taken now and must not shrink.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            length,
        })
    }
}

impl Storage for CachedFile {
    fn describe(&self) -> String {
        self.path.display().to_string()
    }

    fn size_bytes(&self) -> u64 {
        namespace_bytes(self.length)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let (file, length, name) = (self.file.clone(), self.length, self.describe());
        Ok(Box::new(ImmediateChannel::new(depth, move |offset, out: &mut [u8]| {
            let there = length.saturating_sub(offset).min(out.len() as u64) as usize;
            let failed = |reason: String, code| StorageError {
                storage: name.clone(),
                offset,
                length: there as u64,
                reason,
                code,
            };
            file.read_exact_at(&mut out[..there], offset)
                .map_err(|e| match e.kind() {
                    io::ErrorKind::UnexpectedEof => failed(
                        format!("the file was {length} bytes long and is shorter now"),
                        StatusCode::DataTransferError,
                    ),
                    _ => failed(e.to_string(), StatusCode::UnrecoveredReadError),
                })?;
            out[there..].fill(0);
            Ok(())
        })))
    }
}
