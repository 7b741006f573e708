//! Files in one state each, known by a number; and whether they still are in the state that a query was planned for.

use std::collections::HashMap;
use std::path::Path;

use crate::input::file_version::FileVersion;

/// A file in one state. Numbers are never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

/// The files that something is kept of.
#[derive(Debug, Default)]
pub(crate) struct FileRegistry {
    known: HashMap<std::path::PathBuf, (FileVersion, FileId)>,
    last: u64,
}

impl FileRegistry {
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
