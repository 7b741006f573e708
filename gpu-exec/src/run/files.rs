//! Files in one state each, known by a number; and whether they still are in the state that a query was planned for.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::input::FileVersion;
use crate::output::RunError;

/// A file in one state. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

/// The files that something is kept of.
#[derive(Debug, Default)]
pub(crate) struct Files {
    known: HashMap<std::path::PathBuf, (FileVersion, FileId)>,
    last: u64,
}

impl Files {
    /// The number of a file; and that of an earlier state of it, of which nothing is worth keeping any more.
    pub(crate) fn number(&mut self, version: &FileVersion) -> (FileId, Option<FileId>) {
        let known = self.known.get(&version.path);
        if let Some((same, id)) = known
            && same == version
        {
            return (*id, None);
        }
        let stale = known.map(|(_, id)| *id);
        self.last += 1;
        let id = FileId(self.last);
        self.known.insert(version.path.clone(), (version.clone(), id));
        (id, stale)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<FileId> {
        self.known.values().map(|(_, id)| *id).collect()
    }

    /// Forgets a file of which nothing is kept.
    pub(crate) fn forget(&mut self, path: &Path) -> Option<FileId> {
        self.known.remove(path).map(|(_, id)| id)
    }
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
