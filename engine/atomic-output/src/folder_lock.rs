//! [`FolderLock`]: the lock of a folder, held while outputs appear there and while its files are listed.
//!
//! - A writer holds it alone for the renames that publish a statement's files, not while the files are written.
//! - A reader shares it with other readers for one listing. So a listing has all files of a statement or none.
//! - Folders named `key=value` belong to the folder above them, whose lock counts.
//!
//! Programs that know nothing of the lock are not held up. File systems without locks have none.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time to wait. A lock is held for some renames, so its holder was stopped.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(1);

/// A folder's lock. Dropping this value gives it back.
#[derive(Debug)]
pub struct FolderLock {
    /// `None`: the folder has no lock.
    _file: Option<File>,
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Shared,
    Exclusive,
}

impl FolderLock {
    /// The lock of a reader that lists the files in `folder`. A reader that waits too long goes on without it.
    pub fn shared(folder: &Path) -> Self {
        let file = lock(folder, Mode::Shared).unwrap_or_else(|error| {
            log::warn!("{}: {error}", folder.display());
            None
        });
        Self { _file: file }
    }

    /// The lock of a writer whose files appear in `folder`, which exists.
    ///
    /// # Errors
    /// If another process holds it for too long.
    pub fn exclusive(folder: &Path) -> io::Result<Self> {
        let file = lock(folder, Mode::Exclusive)?;
        Ok(Self { _file: file })
    }
}

/// The folder above the `key=value` folders of an absolute path.
pub(crate) fn table_folder(folder: &Path) -> &Path {
    let is_partition = |path: &&Path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().contains('='))
    };
    folder.ancestors().find(|path| !is_partition(path)).unwrap_or(folder)
}

/// Locks the folder that is at the path when the lock is there.
fn lock(folder: &Path, mode: Mode) -> io::Result<Option<File>> {
    let Ok(folder) = fs::canonicalize(folder) else {
        return Ok(None); // nothing there
    };
    let folder = table_folder(&folder);
    let began = Instant::now();
    loop {
        let Ok(file) = File::open(folder) else {
            return Ok(None); // nothing that this user may list
        };
        let locked = match mode {
            Mode::Shared => file.try_lock_shared(),
            Mode::Exclusive => file.try_lock(),
        };
        match locked {
            Ok(()) if is_at(&file, folder) => return Ok(Some(file)),
            // Another folder has taken its place.
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if began.elapsed() > MAX_WAIT => {
                let reason = format!(
                    "another process has been publishing files there for {} seconds",
                    MAX_WAIT.as_secs()
                );
                return Err(io::Error::new(ErrorKind::TimedOut, reason));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(error)) => {
                log::info!("{} cannot be locked: {error}", folder.display());
                return Ok(None);
            }
        }
    }
}

fn is_at(file: &File, folder: &Path) -> bool {
    match (file.metadata(), fs::metadata(folder)) {
        (Ok(locked), Ok(found)) => is_same(&locked, &found),
        _ => false,
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_belong_to_the_folder_above() {
        for (folder, expected) in [
            ("/data/t/year=2020/month=1", "/data/t"),
            ("/data/t", "/data/t"),
            ("/a=1", "/"),
            ("/", "/"),
        ] {
            assert_eq!(table_folder(Path::new(folder)), Path::new(expected), "{folder}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn lock_is_of_the_folder_that_is_there_in_the_end() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, next) = (parent.path().join("t"), parent.path().join("next"));
        fs::create_dir_all(folder.join("k=1")).unwrap();
        fs::create_dir(&next).unwrap();
        let held = FolderLock::exclusive(&folder.join("k=1")).unwrap();
        let waiting = {
            let folder = folder.clone();
            std::thread::spawn(move || {
                let _lock = FolderLock::shared(&folder);
                folder.join("new").exists()
            })
        };
        std::thread::sleep(Duration::from_millis(50));
        fs::rename(&folder, parent.path().join("old")).unwrap();
        fs::rename(&next, &folder).unwrap();
        let second = FolderLock::exclusive(&folder).unwrap();
        drop(held);
        std::thread::sleep(Duration::from_millis(50));
        fs::write(folder.join("new"), "x").unwrap();
        assert!(!waiting.is_finished());
        drop(second);
        assert!(waiting.join().unwrap());
    }
}
