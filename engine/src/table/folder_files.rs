//! [`FolderFiles`]: the files of a local folder at one time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::error::Result;
use grampus_atomic_output::FolderLock;
use object_store::local::LocalFileSystem;

use super::listing::{FoundFile, files_below};
use crate::file::{Identity, Place};

/// Files by their paths below the folder.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderFiles(BTreeMap<PathBuf, Identity>);

impl FolderFiles {
    /// The files that are in a folder and below now, as a scan lists them. A folder that does not exist has none.
    ///
    /// # Errors
    /// If the folder cannot be listed.
    pub(crate) fn of(folder: &Path) -> Result<Self> {
        if !folder.exists() {
            return Ok(Self::default());
        }
        let _lock = FolderLock::shared(folder);
        Self::listed(folder)
    }

    /// The files in the folder of a URL.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(crate) fn of_url(folder: &ListingTableUrl) -> Result<Self> {
        Self::of(&LocalFileSystem::new().path_to_filesystem(folder.prefix())?)
    }

    fn listed(folder: &Path) -> Result<Self> {
        let data = files_below(folder)?.into_iter().filter(|file| file.identity.length > 0);
        let below = |file: FoundFile| match file.place {
            Place::Local(path) => Some((path.strip_prefix(folder).ok()?.to_owned(), file.identity)),
            Place::Remote { .. } => None,
        };
        Ok(Self(data.filter_map(below).collect()))
    }

    /// Whether a folder has these files and no others.
    ///
    /// # Errors
    /// If not: the first difference, and what to do.
    pub(crate) fn verify(&self, folder: &Path) -> std::result::Result<(), String> {
        let now = Self::listed(folder).map_err(|error| error.strip_backtrace())?;
        let Some((path, what)) = self.difference(&now) else {
            return Ok(());
        };
        Err(format!(
            "{} {what} since the statement began, and its rows would be lost: run the statement again",
            path.display()
        ))
    }

    fn difference<'a>(&'a self, now: &'a Self) -> Option<(&'a Path, &'static str)> {
        let came_or_changed = now.0.iter().find_map(|(path, identity)| match self.0.get(path) {
            None => Some((path.as_path(), "came")),
            Some(before) if before != identity => Some((path, "changed")),
            Some(_) => None,
        });
        let went = || self.0.keys().find(|path| !now.0.contains_key(*path));
        came_or_changed.or_else(|| Some((went()?.as_path(), "went")))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_that_come_go_or_change_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("k=1")).unwrap();
        fs::write(folder.join("k=1/a.orc"), "ORC").unwrap();
        let files = FolderFiles::of(folder).unwrap();
        fs::write(folder.join("_SUCCESS"), "hidden").unwrap();
        fs::write(folder.join("empty.orc"), "").unwrap();
        files.verify(folder).unwrap();
        fs::write(folder.join("k=1/b.orc"), "ORC").unwrap();
        assert!(files.verify(folder).unwrap_err().starts_with("k=1/b.orc came since"));
        fs::rename(folder.join("k=1/b.orc"), folder.join("k=1/a.orc")).unwrap();
        assert!(files.verify(folder).unwrap_err().starts_with("k=1/a.orc changed since"));
        fs::remove_file(folder.join("k=1/a.orc")).unwrap();
        assert!(files.verify(folder).unwrap_err().starts_with("k=1/a.orc went since"));
        assert_eq!(
            FolderFiles::of(&folder.join("nowhere")).unwrap(),
            FolderFiles::default()
        );
    }
}
