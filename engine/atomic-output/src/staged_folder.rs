//! [`StagedFolder`]: a folder of files that is written beside its final place and published whole.
//!
//! 1. The files are written and synced below a [`TemporaryFolder`] in the folder above.
//! 2. If the target is missing or empty, one rename publishes them.
//! 3. If the target holds an older generation, the two folders are exchanged by one call (`RENAME_EXCHANGE`).
//! 4. On file systems without this call, the old folder moves away and the new one moves in. A process that is killed
//!    in between leaves the target missing; the next output into the same place brings the old generation back.
//! 5. The old generation is removed.
//!
//! Steps 2 to 4 hold the [`FolderLock`] of both folders. Outputs into the folder wait, and find the new one then.
//!
//! **Invariant:** only files that [`Replaceable`] allows are ever removed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::durability::{resolve, sync_folder, take_over};
use crate::error::OutputError;
use crate::folder_lock::FolderLock;
use crate::temporary_folder::{self, Purpose, TemporaryFolder};

/// The new generation, and after an exchange the old one, in the temporary folder.
const NEW: &str = "new";
/// The old generation, between the two renames of a file system that cannot exchange.
const OLD: &str = "old";
/// A file with the target's path, written before the first of the two renames.
const TARGET: &str = "target";

/// The files that a new generation may replace.
#[derive(Debug, Clone, Copy)]
pub struct Replaceable {
    /// The first file or folder, at a path or below, that is none.
    pub other_than_these: fn(&Path) -> Option<PathBuf>,
    /// The reason and the advice for any other: `was not written by …; move it away`.
    pub otherwise: &'static str,
}

/// A folder before its publication; dropping this value removes it.
pub struct StagedFolder {
    /// The path as the options name it, for messages.
    shown: PathBuf,
    /// The path without links.
    target: PathBuf,
    work: TemporaryFolder,
    /// `None`: the target must be empty or missing.
    replaces: Option<Replaceable>,
    is_unchanged: Option<Box<Unchanged>>,
}

/// Whether the old generation is still the one that the new one was made of; if not, the reason: `t/a.orc is new`.
type Unchanged = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

impl StagedFolder {
    /// Prepares a place for the folder that will be `shown`. Removes what killed processes left beside it.
    ///
    /// # Errors
    /// If the target holds files and `replaces` is `None`, or if it cannot be replaced: it holds files that `replaces`
    /// does not allow, is a mount point or the current folder, or the folder above cannot be written to.
    pub fn create(shown: &Path, replaces: Option<Replaceable>) -> Result<Self, OutputError> {
        let failed = |error| OutputError::write(shown, error);
        let (parent, target) = resolve(shown).map_err(failed)?;
        if fs::metadata(&target).is_ok_and(|found| !found.is_dir()) {
            return Err(OutputError::NotAFolder(shown.to_owned()));
        }
        let work = TemporaryFolder::create_after(&parent, Purpose::Staging, &bring_back);
        let work = work.map_err(|error| OutputError::beside(shown, &parent, error))?;
        let staged = Self {
            shown: shown.to_owned(),
            target,
            work,
            replaces,
            is_unchanged: None,
        };
        fs::create_dir(staged.files()).map_err(failed)?;
        if let Ok(old) = fs::metadata(&staged.target) {
            temporary_folder::remove_unpublished(&staged.target);
            staged.check_place()?;
            staged.check_contents(&staged.target)?;
            take_over(&old, &staged.files()).map_err(failed)?;
        }
        Ok(staged)
    }

    /// The same folder, which replaces the old one only if that `is_unchanged`. The function gets the old folder's
    /// path, which may be another one than before.
    ///
    /// # Errors
    /// If it has changed already.
    pub fn replacing_only(
        mut self,
        is_unchanged: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, OutputError> {
        self.is_unchanged = Some(Box::new(is_unchanged));
        if self.target.is_dir() {
            self.check_generation(&self.target)?;
        }
        Ok(self)
    }

    /// The folder to write to.
    pub fn files(&self) -> PathBuf {
        self.work.path().join(NEW)
    }

    /// Publishes the written and synced files, and removes the old generation.
    ///
    /// # Errors
    /// As for [`create`](Self::create), since the target may have changed meanwhile; and if a rename fails. The old
    /// generation stays then.
    pub fn publish(self) -> Result<(), OutputError> {
        let failed = |error| OutputError::write(&self.shown, error);
        sync_folders(&self.files()).map_err(failed)?;
        let parent = self.target.parent().unwrap_or(Path::new("/"));
        // The new folder's lock too: what comes into it waits until it is certain to stay.
        let _old_lock = FolderLock::exclusive(&self.target).map_err(failed)?;
        let _new_lock = FolderLock::exclusive(&self.files()).map_err(failed)?;
        temporary_folder::publish(|| Ok(self.move_in())).map_err(failed)??;
        sync_folder(parent).map_err(failed)
    }

    fn move_in(&self) -> Result<(), OutputError> {
        let failed = |error| OutputError::write(&self.shown, error);
        let (new, target) = (self.files(), &self.target);
        let is_taken = match fs::read_dir(target) {
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            entries => entries.map_err(failed)?.next().is_some(),
        };
        if !is_taken {
            if target.is_dir() {
                self.check_generation(target)?; // files may have gone
            }
            return match fs::rename(&new, target) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                    Err(OutputError::NotEmpty(self.shown.clone()))
                }
                moved => moved.map_err(failed),
            };
        }
        self.check_contents(target)?;
        if !exchange(&new, target).map_err(failed)? {
            return self.move_in_after(&new);
        }
        // A file may have arrived between the check and the exchange.
        self.check_contents(&new).inspect_err(|_| {
            if let Err(error) = exchange(&new, target) {
                log::error!("{} was not restored: {error}", self.shown.display());
            }
        })
    }

    /// Replaces the target by two renames.
    fn move_in_after(&self, new: &Path) -> Result<(), OutputError> {
        let failed = |error| OutputError::write(&self.shown, error);
        self.move_away().map_err(failed)?;
        let old = self.work.path().join(OLD);
        let moved = self
            .check_contents(&old)
            .and_then(|()| fs::rename(new, &self.target).map_err(failed));
        moved.inspect_err(|_| bring_back(self.work.path()))
    }

    /// Moves the old generation away, with a note of its place for [`bring_back`].
    fn move_away(&self) -> io::Result<()> {
        let mut note = File::create(self.work.path().join(TARGET))?;
        note.write_all(self.target.as_os_str().as_encoded_bytes())?;
        note.sync_all()?;
        sync_folder(self.work.path())?;
        fs::rename(&self.target, self.work.path().join(OLD))
    }

    /// Refuses places that a rename cannot replace.
    fn check_place(&self) -> Result<(), OutputError> {
        let refuse = |reason: &str| {
            Err(OutputError::NotReplaceable {
                path: self.shown.clone(),
                reason: reason.to_owned(),
            })
        };
        if is_mount_point(&self.target) {
            return refuse("it is a mount point: name a folder inside it");
        }
        if std::env::current_dir().is_ok_and(|current| current == self.target) {
            return refuse("it is the current folder: go elsewhere, or name another folder");
        }
        Ok(())
    }

    /// Refuses another old generation than the one that the new one was made of.
    fn check_generation(&self, folder: &Path) -> Result<(), OutputError> {
        let unchanged = self
            .is_unchanged
            .as_ref()
            .map_or(Ok(()), |is_unchanged| is_unchanged(folder));
        unchanged.map_err(|reason| OutputError::NotReplaceable {
            path: self.shown.clone(),
            reason,
        })
    }

    /// Refuses contents that may not be removed.
    fn check_contents(&self, folder: &Path) -> Result<(), OutputError> {
        self.check_generation(folder)?;
        let failed = |error| OutputError::write(&self.shown, error);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let Some(replaces) = self.replaces else {
                return Err(OutputError::NotEmpty(self.shown.clone()));
            };
            if let Some(other) = (replaces.other_than_these)(&entry.map_err(failed)?.path()) {
                let name = other.file_name().and_then(OsStr::to_str);
                let shown = self.shown.join(other.strip_prefix(folder).unwrap_or(&other));
                let reason = match name.is_some_and(temporary_folder::is_staging) {
                    true => "another process is writing into it: try again when that is done".to_owned(),
                    false => format!("{} {}", shown.display(), replaces.otherwise),
                };
                return Err(OutputError::NotReplaceable {
                    path: self.shown.clone(),
                    reason,
                });
            }
        }
        Ok(())
    }
}

/// Syncs a folder and those below it.
fn sync_folders(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_folders(&entry.path())?;
        }
    }
    sync_folder(folder)
}

/// Moves an old generation back to its place, if the process was killed between the two renames.
fn bring_back(work: &Path) {
    let Ok(target) = fs::read(work.join(TARGET)) else {
        return;
    };
    let Some(target) = path_of(target) else { return };
    if fs::symlink_metadata(&target).is_err_and(|error| error.kind() == ErrorKind::NotFound)
        && fs::rename(work.join(OLD), &target).is_ok()
        && let Some(parent) = target.parent()
    {
        log::info!("{} is back: its replacement was interrupted", target.display());
        // A lost rename is repeated at the next start.
        let _ = sync_folder(parent);
    }
}

#[cfg(unix)]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(not(unix))]
fn path_of(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

/// Exchanges two folders or files; false if the file system cannot.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
pub(crate) fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) fn exchange(_: &Path, _: &Path) -> io::Result<bool> {
    Ok(false)
}

/// Whether a file system is mounted at this folder.
#[cfg(target_os = "linux")]
fn is_mount_point(folder: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    let found = statx(CWD, folder, AtFlags::empty(), StatxFlags::BASIC_STATS);
    found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mount_point(_: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that end in `.orc` may be replaced.
    const ORC: Option<Replaceable> = Some(Replaceable {
        other_than_these: |path| (path.extension()? != "orc").then(|| path.to_owned()),
        otherwise: "is no ORC file",
    });

    fn write_orc(path: &Path) {
        fs::write(path, "ORC").unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// A folder `out` with `old.orc`, and a staged folder with `new.orc` for the same place.
    fn generations() -> (tempfile::TempDir, StagedFolder) {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        fs::create_dir(&out).unwrap();
        write_orc(&out.join("old.orc"));
        let staged = StagedFolder::create(&out, ORC).unwrap();
        write_orc(&staged.files().join("new.orc"));
        (folder, staged)
    }

    #[test]
    fn new_generation_replaces_the_old_one_whole() {
        let (folder, staged) = generations();
        assert_eq!(names(&folder.path().join("out")), ["old.orc"]);
        staged.publish().unwrap();
        assert_eq!(names(&folder.path().join("out")), ["new.orc"]);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn file_systems_without_an_exchange_take_two_renames() {
        let (folder, staged) = generations();
        staged.move_in_after(&staged.files()).unwrap();
        drop(staged);
        assert_eq!(names(&folder.path().join("out")), ["new.orc"]);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn process_killed_between_the_two_renames_leaves_the_old_generation_to_be_brought_back() {
        let (folder, staged) = generations();
        staged.move_away().unwrap();
        assert!(!folder.path().join("out").exists());
        // As after a kill: the lock is free and nothing was removed.
        let left = folder.path().join(".grampus-abcdefghijkl.tmp");
        fs::create_dir(&left).unwrap();
        for entry in fs::read_dir(staged.work.path()).unwrap().flatten() {
            fs::rename(entry.path(), left.join(entry.file_name())).unwrap();
        }
        drop(staged);
        let next = StagedFolder::create(&folder.path().join("out"), ORC).unwrap();
        assert_eq!(names(&folder.path().join("out")), ["old.orc"]);
        drop(next);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn failed_second_rename_brings_the_old_generation_back() {
        let (folder, staged) = generations();
        fs::remove_dir_all(staged.files()).unwrap();
        staged.move_in_after(&staged.files()).unwrap_err();
        assert_eq!(names(&folder.path().join("out")), ["old.orc"]);
    }

    #[test]
    fn file_that_arrives_meanwhile_stops_the_publication() {
        let (folder, staged) = generations();
        fs::write(folder.path().join("out/notes.txt"), "mine").unwrap();
        let error = staged.publish().unwrap_err();
        assert!(matches!(error, OutputError::NotReplaceable { .. }), "{error}");
        assert_eq!(names(&folder.path().join("out")), ["notes.txt", "old.orc"]);
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn folder_with_content_is_refused_unless_overwriting() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("new/deep");
        StagedFolder::create(&out, None).unwrap().publish().unwrap();
        StagedFolder::create(&out, None).unwrap().publish().unwrap();
        write_orc(&out.join("a.orc"));
        let refused = StagedFolder::create(&out, None).map(drop);
        assert!(matches!(refused, Err(OutputError::NotEmpty(_))));
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let refused = StagedFolder::create(&file, ORC).map(drop);
        assert!(matches!(refused, Err(OutputError::NotAFolder(_))));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn mount_points_are_recognized() {
        assert!(is_mount_point(Path::new("/proc")));
        assert!(!is_mount_point(tempfile::tempdir().unwrap().path()));
    }
}
