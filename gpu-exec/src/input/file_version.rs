//! `FileVersion`: identity and state of a file, with the check that the file has not changed.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::RunError;

/// A version of a file. The bytes are taken to be the same while none of these fields changes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Path.
    pub path: PathBuf,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Time of the last change, in nanoseconds since 1970.
    pub modified_ns: i128,
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
    pub fn of_metadata(path: &Path, metadata: &std::fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }

    /// Checks that the file still is this version.
    ///
    /// # Errors
    /// [`RunError::File`] with the difference.
    pub(crate) fn check(&self) -> Result<(), RunError> {
        let refuse = |reason: String| RunError::File {
            path: self.path.display().to_string(),
            reason,
        };
        let now = Self::of(&self.path).map_err(|e| refuse(e.to_string()))?;
        if now == *self {
            return Ok(());
        }
        Err(refuse(if now.bytes != self.bytes {
            format!(
                "the file changed: it had {} bytes when the query was planned, and has {} now",
                self.bytes, now.bytes
            )
        } else if (now.device, now.inode) != (self.device, self.inode) {
            "the file was replaced after the query was planned".to_owned()
        } else {
            "the file was written to after the query was planned".to_owned()
        }))
    }
}
