//! `FileRegistry`: an id for each version of a file, and the ids that a changed file makes stale.

use std::collections::HashMap;
use std::path::Path;

use crate::input::file_version::FileVersion;

/// Id of a file version. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

impl FileId {
    /// The id of no file: nothing is cached for it.
    pub(crate) const NONE: Self = Self(0);
}

/// The files with cached data.
#[derive(Debug, Default)]
pub(crate) struct FileRegistry {
    known: HashMap<std::path::PathBuf, (FileVersion, FileId)>,
    last: u64,
}

impl FileRegistry {
    /// The id of a file version. If another version of the file was known, also that version's id: its cached data is
    /// stale.
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

    /// The id of a file version, if it is known.
    pub(crate) fn find(&self, version: &FileVersion) -> Option<FileId> {
        let known = self.known.get(&version.path).filter(|(same, _)| same == version);
        known.map(|(_, id)| *id)
    }

    /// Ids of all known files.
    pub(crate) fn all(&self) -> Vec<FileId> {
        self.known.values().map(|(_, id)| *id).collect()
    }

    /// Removes a file without cached data.
    pub(crate) fn forget(&mut self, path: &Path) -> Option<FileId> {
        self.known.remove(path).map(|(_, id)| id)
    }
}
