//! `FileVersion`: identity and state of a file, with the check that the file has not changed.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use grampus_driver::files::NamespaceFile;
use grampus_driver::host::Device;

use crate::error::RunError;

/// A version of a file. The bytes are taken to be the same while none of these fields changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Path, or the URL of a file on a namespace.
    pub path: PathBuf,
    /// Device number; of a file on a namespace, half of its number.
    pub device: u64,
    /// Inode number; of a file on a namespace, the other half.
    pub inode: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: i128,
    /// The file on an NVMe namespace. It does not change while its drive is open.
    pub namespace: Option<NamespaceFile>,
}

impl FileVersion {
    /// The present version of a file.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let now = std::fs::metadata(path)?;
        Ok(Self::of_metadata(path, &now))
    }

    /// The version that the metadata describes.
    pub fn of_metadata(path: &Path, metadata: &Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
            namespace: None,
        }
    }

    /// The version of a file on an NVMe namespace. `url`: what messages call it.
    pub fn of_namespace(url: &str, file: NamespaceFile) -> Self {
        let (device, inode) = file.entry().id.as_u64_pair();
        Self {
            path: PathBuf::from(url),
            device,
            inode,
            bytes: file.entry().length_bytes,
            modified_ns: i128::from(file.entry().loaded_seconds) * 1_000_000_000,
            namespace: Some(file),
        }
    }

    /// Which NVMe controller reads it; `None`: a local file.
    pub(crate) fn controller(&self) -> Option<*const Mutex<Device>> {
        self.namespace.as_ref().map(|file| Arc::as_ptr(file.controller()))
    }

    /// Checks that the file at the path is this version.
    ///
    /// # Errors
    /// [`RunError::FileChanged`] with the difference; [`RunError::File`] if there is no such file any more, or another
    /// one.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        match self.namespace {
            Some(_) => Ok(()),
            None => self.compare(std::fs::metadata(&self.path)),
        }
    }

    /// Checks that an open file is this version. Another file at the path does not matter: the open one keeps its
    /// bytes.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub(crate) fn check_open(&self, file: &File) -> Result<(), RunError> {
        self.compare(file.metadata())
    }

    fn compare(&self, now: std::io::Result<Metadata>) -> Result<(), RunError> {
        let failed = |reason: String| RunError::File {
            path: self.path.display().to_string(),
            reason,
        };
        let now = Self::of_metadata(&self.path, &now.map_err(|e| failed(e.to_string()))?);
        if now == *self {
            return Ok(());
        }
        if (now.device, now.inode) != (self.device, self.inode) {
            let reason = "another file took its place after the query was planned; run the query again";
            return Err(failed(reason.to_owned()));
        }
        Err(self.changed(match now.bytes == self.bytes {
            true => "it was written to".to_owned(),
            false => format!("it had {} bytes, and has {} now", self.bytes, now.bytes),
        }))
    }

    /// The error about a file that has changed.
    pub(crate) fn changed(&self, reason: String) -> RunError {
        RunError::FileChanged {
            path: self.path.display().to_string(),
            reason,
        }
    }
}
