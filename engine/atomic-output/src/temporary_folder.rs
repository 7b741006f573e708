//! [`TemporaryFolder`]: a folder that its process removes, and that a later process removes if its own was killed.
//!
//! Each folder holds a file `lock`, locked as long as the process lives. A folder of the right name whose lock is free
//! is a leftover.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name of the lock file inside.
const LOCK: &str = "lock";
/// Random characters of a name.
const RANDOM_CHARACTERS: usize = 12;
/// End of a name.
const SUFFIX: &str = ".tmp";
/// Attempts to create a folder. Another process's search for leftovers can remove one that is not yet locked.
const MAX_CREATIONS: usize = 16;
/// Attempts to remove a folder in which other threads still create files.
const MAX_REMOVALS: usize = 40;
/// Time between two attempts to remove.
const REMOVAL_PAUSE: Duration = Duration::from_millis(5);

/// The folders of this process.
static LIVE: Mutex<Live> = Mutex::new(Live {
    folders: Vec::new(),
    is_closed: false,
});

struct Live {
    folders: Vec<PathBuf>,
    /// Set by [`remove_all`]: nothing is created or published any more.
    is_closed: bool,
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The uses of temporary folders, which decide their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Data that is read again by the same process: `grampus-….tmp`.
    Scratch,
    /// Output before it is published, in the folder of its final place: hidden, `.grampus-….tmp`.
    Staging,
}

impl Purpose {
    fn prefix(self) -> &'static str {
        match self {
            Self::Scratch => "grampus-",
            Self::Staging => ".grampus-",
        }
    }

    /// Whether a folder of this purpose can have this name.
    fn names(self, name: &str) -> bool {
        let random = name
            .strip_prefix(self.prefix())
            .and_then(|rest| rest.strip_suffix(SUFFIX));
        random.is_some_and(|random| {
            random.len() == RANDOM_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }
}

/// A folder of this process; dropping this value removes it with its contents.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// Locked while the value lives; `None` for a folder that another library made.
    _lock: Option<File>,
}

impl TemporaryFolder {
    /// Removes the leftovers of killed processes from `parent`, and creates a folder there that only this user may
    /// enter.
    ///
    /// # Errors
    /// If `parent` does not exist or cannot be written to, or after [`remove_all`].
    pub fn create(parent: &Path, purpose: Purpose) -> io::Result<Self> {
        Self::create_after(parent, purpose, &|_| {})
    }

    /// Like [`create`](Self::create). `rescue` may move things out of a leftover before its removal.
    pub(crate) fn create_after(parent: &Path, purpose: Purpose, rescue: &dyn Fn(&Path)) -> io::Result<Self> {
        let mut live = live();
        if live.is_closed {
            return Err(closed());
        }
        let folder = Self::create_locked(parent, purpose)?;
        live.folders.push(folder.path.clone());
        drop(live);
        remove_leftovers(parent, purpose, &folder, rescue);
        Ok(folder)
    }

    fn create_locked(parent: &Path, purpose: Purpose) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder
            .prefix(purpose.prefix())
            .suffix(SUFFIX)
            .rand_bytes(RANDOM_CHARACTERS);
        for _ in 0..MAX_CREATIONS {
            // An error is the system's, without the folder's hidden name.
            let made = builder.make_in(parent, create_private)?;
            let path = made.into_temp_path().keep().map_err(|error| error.error)?;
            match lock_new(&path) {
                Ok(Some(lock)) => {
                    return Ok(Self {
                        path,
                        _lock: Some(lock),
                    });
                }
                // The search of another process took the folder for a leftover.
                Ok(None) => {}
                Err(error) => {
                    let _ = remove(&path);
                    return Err(error);
                }
            }
        }
        Err(io::Error::other("other processes removed each new temporary folder"))
    }

    /// Takes over a folder that another library made. It vanishes with this process, but later processes do not know it
    /// if this one is killed.
    pub fn adopt(path: PathBuf) -> Self {
        live().folders.push(path.clone());
        Self { path, _lock: None }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        live().folders.retain(|folder| *folder != self.path);
        // A folder that stays is a leftover for the next process.
        let _ = remove(&self.path);
    }
}

/// Removes all folders of this process. Afterwards nothing is created or published: for a process about to end, whose
/// other threads still run.
pub fn remove_all() {
    let mut live = live();
    live.is_closed = true;
    for folder in std::mem::take(&mut live.folders) {
        let _ = remove(&folder);
    }
}

/// Runs the renames that publish an output, unless [`remove_all`] has run or runs.
pub(crate) fn publish<T>(renames: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let live = live();
    match live.is_closed {
        true => Err(closed()),
        false => renames(),
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::Interrupted, "the program is ending")
}

/// Creates a folder that only this user may enter.
fn create_private(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Whether a folder of this name may hold outputs before they are published.
pub fn is_staging(name: &str) -> bool {
    Purpose::Staging.names(name)
}

/// Removes from `folder` the outputs that killed processes left unpublished.
pub fn remove_unpublished(folder: &Path) {
    if let Ok(own) = fs::metadata(folder) {
        remove_leftovers_of(folder, Purpose::Staging, &own, None, &|_| {});
    }
}

/// Creates and locks the lock file of a new folder; `None` if another process removes the folder.
fn lock_new(folder: &Path) -> io::Result<Option<File>> {
    let path = folder.join(LOCK);
    let mut lock = match File::create_new(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        created => created?,
    };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // Without locks, no process ever takes this folder for a leftover.
        Err(TryLockError::Error(error)) => log_unlocked(folder, &error),
        Ok(()) => {}
    }
    if let Some(boot) = boot_id() {
        lock.write_all(boot.as_bytes())?;
    }
    // Between creation and lock another process may have locked and removed the file.
    Ok(path.exists().then_some(lock))
}

fn log_unlocked(folder: &Path, error: &io::Error) {
    log::info!("{} cannot be locked: {error}", folder.display());
}

/// Removes the folders in `parent` whose processes have ended.
fn remove_leftovers(parent: &Path, purpose: Purpose, own: &TemporaryFolder, rescue: &dyn Fn(&Path)) {
    if let Ok(own_metadata) = fs::metadata(&own.path) {
        remove_leftovers_of(parent, purpose, &own_metadata, Some(&own.path), rescue);
    }
}

/// Removes such folders that belong to the user of `owned`, except `own`.
fn remove_leftovers_of(parent: &Path, purpose: Purpose, owned: &Metadata, own: Option<&Path>, rescue: &dyn Fn(&Path)) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let named = entry.file_name().to_str().is_some_and(|name| purpose.names(name));
        let path = entry.path();
        if !named || own == Some(&path) || !entry.metadata().is_ok_and(|found| is_ours(&found, owned)) {
            continue;
        }
        // Network file systems lock only files that are open for writing.
        match File::options().read(true).write(true).open(path.join(LOCK)) {
            Ok(lock) if lock.try_lock().is_ok() && is_decided_here(&path) => {
                rescue(&path);
                if let Err(error) = remove(&path) {
                    log::info!("{} of an ended process cannot be removed: {error}", path.display());
                }
            }
            // Its process ended, or is, between two calls. The call removes an empty folder only.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let _ = fs::remove_dir(&path);
            }
            _ => {}
        }
    }
}

/// Whether `found` is a folder, no link, of the user that `own` belongs to.
fn is_ours(found: &Metadata, own: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        found.is_dir() && found.uid() == own.uid()
    }
    #[cfg(not(unix))]
    {
        let _ = own;
        found.is_dir()
    }
}

/// Whether a free lock proves that the folder's process has ended. On network file systems, locks may be known to one
/// machine only: there, the lock file has to name this machine's boot.
fn is_decided_here(folder: &Path) -> bool {
    is_local(folder) || boot_id().is_some_and(|boot| fs::read_to_string(folder.join(LOCK)).is_ok_and(|id| id == boot))
}

#[cfg(target_os = "linux")]
fn is_local(folder: &Path) -> bool {
    /// NFS, CIFS, SMB2, 9p, FUSE, Ceph, Lustre, AFS, in statfs(2)'s numbers.
    const REMOTE: [u32; 8] = [
        0x6969,
        0xFF53_4D42,
        0xFE53_4D42,
        0x0102_1997,
        0x6573_5546,
        0x00C3_6400,
        0x0BD0_0BD0,
        0x5346_414F,
    ];
    rustix::fs::statfs(folder).is_ok_and(|found| !REMOTE.contains(&(found.f_type as u32)))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &Path) -> bool {
    true
}

/// The identity of this start of the operating system.
fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()
}

/// Removes a folder, its lock file last: a removal that is cut short leaves a leftover that is recognized.
fn remove(folder: &Path) -> io::Result<()> {
    let gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    };
    for _ in 0..MAX_REMOVALS {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name() == LOCK {
                continue;
            }
            // A thread that still writes into this folder makes the removal fail; the next attempt follows.
            let _ = match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path()),
                false => fs::remove_file(entry.path()),
            };
        }
        if fs::read_dir(folder)?.count() <= 1 {
            gone(fs::remove_file(folder.join(LOCK)))?;
            match gone(fs::remove_dir(folder)) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                other => return other,
            }
        }
        std::thread::sleep(REMOVAL_PAUSE);
    }
    Err(io::Error::new(ErrorKind::DirectoryNotEmpty, "it does not become empty"))
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

    /// A folder as a killed process leaves it: unlocked.
    fn leftover(parent: &Path, purpose: Purpose, random: &str) -> PathBuf {
        let path = parent.join(format!("{}{random}.tmp", purpose.prefix()));
        fs::create_dir(&path).unwrap();
        fs::create_dir(path.join("deep")).unwrap();
        fs::write(path.join("deep/data"), "x").unwrap();
        fs::write(path.join(LOCK), boot_id().unwrap_or_default()).unwrap();
        path
    }

    #[test]
    fn folder_vanishes_with_its_contents() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::create(parent.path(), Purpose::Scratch).unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/data"), "x").unwrap();
        assert_eq!(names(parent.path()).len(), 1);
        drop(folder);
        assert_eq!(names(parent.path()), [""; 0]);
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let parent = parent.path();
        leftover(parent, Purpose::Scratch, "abcdefghijkl");
        let empty = parent.join("grampus-mnopqrstuvwx.tmp");
        fs::create_dir(&empty).unwrap();
        let staging = leftover(parent, Purpose::Staging, "abcdefghijkl");
        // No lock file, other names, a plain file and a link: not ours.
        fs::create_dir_all(parent.join("grampus-nolocknolock.tmp/notes")).unwrap();
        fs::create_dir_all(parent.join("grampus-data/lock")).unwrap();
        fs::write(parent.join("grampus-plainfileeee.tmp"), "x").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&staging, parent.join("grampus-linklinklink.tmp")).unwrap();
        let alive = TemporaryFolder::create(parent, Purpose::Scratch).unwrap();
        let before = names(parent);
        assert!(!before.contains(&"grampus-abcdefghijkl.tmp".to_owned()), "{before:?}");
        assert!(!empty.exists() && staging.exists());
        let expected = if cfg!(unix) { 6 } else { 5 };
        assert_eq!(before.len(), expected, "{before:?}");
        let second = TemporaryFolder::create(parent, Purpose::Scratch).unwrap();
        assert!(alive.path().exists(), "a live folder stays");
        drop((alive, second));
        assert_eq!(names(parent).len(), expected - 1);
    }

    #[test]
    fn removal_waits_for_threads_that_still_write() {
        let parent = tempfile::tempdir().unwrap();
        let folder = TemporaryFolder::create(parent.path(), Purpose::Scratch).unwrap();
        let path = folder.path().to_owned();
        let writer = std::thread::spawn(move || {
            let mut written = 0;
            while written < 100_000 && fs::write(path.join(format!("{written}")), "x").is_ok() {
                written += 1;
            }
        });
        drop(folder);
        writer.join().unwrap();
        assert_eq!(names(parent.path()), [""; 0]);
    }

    #[test]
    fn missing_parent_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        let error = TemporaryFolder::create(&parent.path().join("nowhere"), Purpose::Scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
