//! [`StagedFile`]: a file that is written beside its final place and replaces an older file by one rename.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::OutputError;
use crate::staged_files::StagedFiles;

/// A file before its publication; dropping this value removes it.
#[derive(Debug)]
pub struct StagedFile {
    path: PathBuf,
    files: StagedFiles,
}

impl StagedFile {
    /// Prepares a place for the file that will be `target`, and removes what killed processes left in its folder.
    ///
    /// # Errors
    /// If the target is a folder or a device, or its folder cannot be written to.
    pub fn create(target: &Path) -> io::Result<Self> {
        let mut files = StagedFiles::new();
        let path = files.add(target).map_err(cause)?;
        Ok(Self { path, files })
    }

    /// The path to write to.
    pub fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Syncs the written file, and gives it its name, over an older file of that name.
    ///
    /// # Errors
    /// If the file was not written, or the disk is full.
    pub fn publish(self) -> io::Result<()> {
        self.files.publish().map_err(cause)
    }
}

/// The error without the file's name, which callers know.
fn cause(error: OutputError) -> io::Error {
    match error {
        OutputError::Write { source, .. } => source,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;

    use super::*;

    #[test]
    fn file_appears_when_published_and_leaves_nothing_when_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.csv");
        fs::write(&target, "old").unwrap();
        let dropped = StagedFile::create(&target).unwrap();
        fs::write(dropped.path(), "lost").unwrap();
        drop(dropped);
        let staged = StagedFile::create(&target).unwrap();
        fs::write(staged.path(), "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "old");
        staged.publish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = StagedFile::create(folder.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    #[cfg(unix)]
    #[test]
    fn file_keeps_the_mode_of_the_old_one_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("a.csv"), folder.path().join("link.csv"));
        fs::write(&target, "old").unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&target, &link).unwrap();
        let staged = StagedFile::create(&link).unwrap();
        fs::write(staged.path(), "new").unwrap();
        staged.publish().unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
    }
}
