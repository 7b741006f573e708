//! [`StagedFiles`]: files of one statement, which appear together when all are complete.
//!
//! 1. Each file is written into a [`TemporaryFolder`] on the file system of its final place.
//! 2. All are synced. A file that replaces another gets its mode and owner.
//! 3. Under the [`FolderLock`] of their folders, renames publish them. If one fails, those before are undone.
//! 4. The folders are synced.
//!
//! A name stands for what it leads to: a file behind a link is replaced, the link stays. Devices, pipes and folders are
//! refused.
//!
//! **Invariant:** a process that is killed has published some of its files at most between two renames.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::durability::{existing_folder, sync_folder, take_group, take_over, without_links};
use crate::error::OutputError;
use crate::folder_lock::{FolderLock, table_folder};
use crate::staged_folder::exchange;
use crate::temporary_folder::{self, Purpose, TemporaryFolder};

/// Files before their publication; dropping this value removes them.
#[derive(Debug, Default)]
pub struct StagedFiles {
    /// The folder that all files will be below, without links. They are staged beside it, so that an output that
    /// replaces the folder meanwhile leaves them alone.
    folder: Option<PathBuf>,
    /// Temporary folders, and the folders that they are in.
    works: Vec<(PathBuf, TemporaryFolder)>,
    files: Vec<StagedPath>,
}

#[derive(Debug)]
struct StagedPath {
    /// The final path as it was named, for messages.
    shown: PathBuf,
    /// The final path, without links.
    target: PathBuf,
    /// The path to write to.
    path: PathBuf,
}

/// How a file came to its place.
enum Moved {
    /// There was none before.
    In,
    /// The older one is where the new one was.
    Exchanged,
    /// The older one is gone.
    Over,
}

impl StagedFiles {
    /// No files yet, of any folders.
    pub fn new() -> Self {
        Self::default()
    }

    /// No files yet, all below `folder`, which need not exist. What killed processes left unpublished there is removed.
    ///
    /// # Errors
    /// If the path cannot be resolved.
    pub fn below(folder: &Path) -> Result<Self, OutputError> {
        let resolved = without_links(folder).map_err(|error| OutputError::write(folder, error))?;
        temporary_folder::remove_unpublished(&resolved);
        Ok(Self {
            folder: Some(resolved),
            ..Self::default()
        })
    }

    /// A new path to write the file that will be `target`. Leftovers of killed processes are removed there.
    ///
    /// # Errors
    /// If the target is a folder, a device or a pipe, or its file system cannot be written to.
    pub fn add(&mut self, target: &Path) -> Result<PathBuf, OutputError> {
        let added = self.stage(target);
        added.map_err(|error| OutputError::write(target, error))
    }

    fn stage(&mut self, shown: &Path) -> io::Result<PathBuf> {
        let target = without_links(shown)?;
        match fs::metadata(&target) {
            Ok(found) if found.is_dir() => return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder")),
            Ok(found) if !found.is_file() => {
                let reason = "it is no regular file, and its place is not taken";
                return Err(io::Error::new(ErrorKind::InvalidInput, reason));
            }
            _ => {}
        }
        let number = self.files.len();
        let path = self.work_for(&target)?.join(number.to_string());
        self.files.push(StagedPath {
            shown: shown.to_owned(),
            target,
            path: path.clone(),
        });
        Ok(path)
    }

    /// The temporary folder of the file that will be `target`.
    fn work_for(&mut self, target: &Path) -> io::Result<&Path> {
        let own = existing_folder(target.parent().unwrap_or(Path::new("/")));
        let beside = self.folder.as_deref().filter(|folder| target.starts_with(folder));
        let beside = beside.and_then(Path::parent).map(existing_folder);
        let homes = [beside.filter(|beside| is_one_device(beside, own)), Some(own)];
        let homes: Vec<PathBuf> = homes.into_iter().flatten().map(Path::to_owned).collect();
        let known = homes
            .iter()
            .find_map(|home| self.works.iter().position(|work| work.0 == *home));
        let place = match known {
            Some(place) => place,
            None => {
                self.works.push(Self::create_work(&homes)?);
                self.works.len() - 1
            }
        };
        Ok(self.works[place].1.path())
    }

    /// A temporary folder in the first of these folders that takes one.
    fn create_work(homes: &[PathBuf]) -> io::Result<(PathBuf, TemporaryFolder)> {
        let mut failed = io::Error::from(ErrorKind::NotFound);
        for home in homes {
            // An output that replaces this folder sees the temporary folder before it begins, or not at all.
            let _lock = FolderLock::shared(home);
            match TemporaryFolder::create(home, Purpose::Staging) {
                Ok(work) => return Ok((home.clone(), work)),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Waits until the files are on disk.
    ///
    /// # Errors
    /// If a file was not written, or the disk is full.
    pub fn sync(&self) -> Result<(), OutputError> {
        for file in &self.files {
            let synced = File::open(&file.path).and_then(|written| written.sync_all());
            synced.map_err(|error| OutputError::write(&file.shown, error))?;
        }
        Ok(())
    }

    /// Syncs the written files, and gives them their names, over older files of these names.
    ///
    /// # Errors
    /// If a file was not written, or the disk is full. No file has changed then, if the file system has
    /// `RENAME_EXCHANGE`.
    pub fn publish(self) -> Result<(), OutputError> {
        self.sync()?;
        let mut tables = BTreeSet::new();
        let mut parents = BTreeSet::new();
        for file in &self.files {
            let parent = file.target.parent().unwrap_or(Path::new("/"));
            let table = self.folder.as_deref().unwrap_or(parent);
            let made = fs::create_dir_all(table).and_then(|()| match fs::metadata(&file.target) {
                Ok(old) => take_over(&old, &file.path),
                Err(_) => take_group(&fs::metadata(existing_folder(parent))?, &file.path),
            });
            made.map_err(|error| OutputError::write(&file.shown, error))?;
            tables.insert(table_folder(table));
            parents.insert(parent);
        }
        // In one order in all processes, so that none waits for another that waits for it.
        let locks = tables.into_iter().map(|table| {
            let lock = FolderLock::exclusive(table);
            lock.map_err(|error| OutputError::write(table, error))
        });
        let locks = locks.collect::<Result<Vec<_>, _>>()?;
        let moved = temporary_folder::publish(|| Ok(self.move_in()));
        let first = self.files.first().map_or(Path::new(""), |file| &file.shown);
        moved.map_err(|error| OutputError::write(first, error))??;
        drop(locks);
        let top = self.folder.as_deref().and_then(Path::parent);
        let mut synced = BTreeSet::new();
        for parent in parents {
            let folders = parent.ancestors();
            let folders =
                folders.take_while(|folder| *folder == parent || top.is_some_and(|top| folder.starts_with(top)));
            for folder in folders.filter(|folder| synced.insert(folder.to_owned())) {
                sync_folder(folder).map_err(|error| OutputError::write(folder, error))?;
            }
        }
        Ok(())
    }

    fn move_in(&self) -> Result<(), OutputError> {
        let mut done = Vec::with_capacity(self.files.len());
        for file in &self.files {
            match file.move_in(self.files.len() > 1) {
                Ok(moved) => done.push((file, moved)),
                Err(error) => {
                    for (before, moved) in done.into_iter().rev() {
                        before.move_back(&moved);
                    }
                    return Err(OutputError::write(&file.shown, error));
                }
            }
        }
        Ok(())
    }
}

impl StagedPath {
    /// Gives the file its name. An older file of the name is kept if it `may_return`.
    fn move_in(&self, may_return: bool) -> io::Result<Moved> {
        if let Some(parent) = self.target.parent() {
            fs::create_dir_all(parent)?;
        }
        let is_new = fs::symlink_metadata(&self.target).is_err();
        if may_return && !is_new && exchange(&self.path, &self.target)? {
            return Ok(Moved::Exchanged);
        }
        fs::rename(&self.path, &self.target)?;
        Ok(if is_new { Moved::In } else { Moved::Over })
    }

    fn move_back(&self, moved: &Moved) {
        let undone = match moved {
            Moved::In => fs::rename(&self.target, &self.path),
            Moved::Exchanged => exchange(&self.path, &self.target).map(drop),
            Moved::Over => return log::error!("{} is new, unlike others", self.shown.display()),
        };
        if let Err(error) = undone {
            log::error!("{} is new, unlike others: {error}", self.shown.display());
        }
    }
}

/// Whether a rename can move a file from one folder to the other.
#[cfg(unix)]
fn is_one_device(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => one.dev() == other.dev(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_one_device(_: &Path, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Files `a` and `k=1/b` below a folder, which holds an older `a`.
    fn two_files(parent: &Path) -> (PathBuf, StagedFiles) {
        let folder = parent.join("t");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a"), "old").unwrap();
        let mut staged = StagedFiles::below(&folder).unwrap();
        for name in ["a", "k=1/b"] {
            fs::write(staged.add(&folder.join(name)).unwrap(), "new").unwrap();
        }
        assert_eq!(names(&folder), ["a"]);
        (folder, staged)
    }

    #[test]
    fn files_appear_together_and_nothing_else_stays() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, staged) = two_files(parent.path());
        staged.publish().unwrap();
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "new");
        assert_eq!(
            (names(&folder), names(&folder.join("k=1"))),
            (vec!["a".into(), "k=1".into()], vec!["b".into()])
        );
        assert_eq!(names(parent.path()), ["t"]);
    }

    #[test]
    fn failed_rename_undoes_those_before() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, staged) = two_files(parent.path());
        fs::write(folder.join("k=1"), "in the way of a folder").unwrap();
        let error = staged.publish().unwrap_err().to_string();
        assert!(error.contains("t/k=1/b"), "{error}");
        assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "old");
        assert_eq!(
            (names(&folder), names(parent.path())),
            (vec!["a".into(), "k=1".into()], vec!["t".into()])
        );
    }

    #[test]
    fn folder_that_is_replaced_meanwhile_gets_the_files() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, staged) = two_files(parent.path());
        fs::rename(&folder, parent.path().join("old")).unwrap();
        fs::create_dir(&folder).unwrap();
        staged.publish().unwrap();
        assert_eq!(names(&folder), ["a", "k=1"]);
    }

    #[cfg(unix)]
    #[test]
    fn names_stand_for_what_they_lead_to() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        fs::create_dir(parent.join("real")).unwrap();
        symlink("real/new", parent.join("link")).unwrap();
        symlink("real", parent.join("t")).unwrap();
        fs::write(parent.join("real/a"), "old").unwrap();
        fs::set_permissions(parent.join("real/a"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut staged = StagedFiles::new();
        for name in ["link", "t/a"] {
            fs::write(staged.add(&parent.join(name)).unwrap(), "new").unwrap();
        }
        staged.publish().unwrap();
        assert!(fs::symlink_metadata(parent.join("link")).unwrap().is_symlink());
        assert_eq!(names(&parent.join("real")), ["a", "new"]);
        assert_eq!(
            fs::metadata(parent.join("real/a")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let error = StagedFiles::new().add(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("/dev/null: it is no regular file"), "{error}");
        let error = StagedFiles::new().add(&parent.join("real")).unwrap_err().to_string();
        assert!(error.contains("it is a folder"), "{error}");
    }
}
