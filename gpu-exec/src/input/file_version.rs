//! `FileVersion`: a file in one state.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::RunError;

/// A file in one state: while none of this changes, its bytes are taken to be the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Where it is.
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
    /// The state of a file as it is now.
    ///
    /// # Errors
    /// The operating system's.
    pub fn of(path: &Path) -> std::io::Result<Self> {
        let now = std::fs::metadata(path)?;
        Ok(Self::of_metadata(path, &now))
    }

    /// The state of a file by its metadata.
    pub fn of_metadata(path: &Path, metadata: &std::fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }

    /// Whether the file is still in this state.
    ///
    /// # Errors
    /// [`RunError::File`], saying what is different.
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
