//! [`StagedFile`]: a file that no reader sees before it is complete.
//!
//! - *Local*: the bytes go to a hidden file `.NAME.….grampus` beside the target, whose name no table takes for data.
//!   Publishing syncs the file and renames it, and syncs the folder. A rename replaces an older file at once.
//! - *In an object store*: the bytes go to a temporary local file. Publishing uploads it in parts, and the store shows
//!   the object when the last part is confirmed. If an upload fails, its parts are discarded.
//!
//! A staged file that is dropped unpublished is removed. A killed process leaves its hidden files. Their lock tells
//! them from those of running processes, and a later statement that writes into the folder removes them.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tempfile::NamedTempFile;

/// Bytes of one part of an upload. Stores ask for at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// The end of the name of a hidden file.
const HIDDEN_END: &str = ".grampus";

/// The folder of a local file.
///
/// # Errors
/// If the path is no path of the local file system.
pub(super) fn local_folder(path: &object_store::path::Path) -> Result<PathBuf> {
    let path = LocalFileSystem::new().path_to_filesystem(path)?;
    Ok(path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// Removes the hidden files that killed processes left in `folder`. A file that cannot be locked or removed stays.
pub(super) fn remove_leftovers(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_hidden = name.starts_with('.') && name.ends_with(HIDDEN_END);
        if is_hidden && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            remove_unlocked(&entry.path());
        }
    }
}

/// Removes a file unless a process holds its lock, or the file system has no locks.
fn remove_unlocked(path: &Path) {
    let Ok(file) = File::options().read(true).write(true).open(path) else {
        return;
    };
    if file.try_lock().is_ok() {
        match fs::remove_file(path) {
            Ok(()) => log::info!("{}: removed, left by a killed process", path.display()),
            Err(error) => log::debug!("{}: {error}", path.display()),
        }
    }
}

/// The place where a file appears when it is published.
#[derive(Debug)]
enum Target {
    Local(PathBuf),
    Remote {
        store: Arc<dyn ObjectStore>,
        path: object_store::path::Path,
    },
}

/// A file that is being written.
#[derive(Debug)]
pub(super) struct StagedFile {
    target: Target,
    staged: NamedTempFile,
}

impl StagedFile {
    /// Starts the file at `path` of `store`, which is the local file system if `is_local`.
    ///
    /// # Errors
    /// If the folder or the file cannot be made. The error names the file.
    pub(super) fn create(store: &Arc<dyn ObjectStore>, path: object_store::path::Path, is_local: bool) -> Result<Self> {
        if !is_local {
            let staged = tempfile::Builder::new().prefix("grampus-upload-").tempfile();
            return Ok(Self {
                staged: staged.map_err(|error| failed(&std::env::temp_dir(), &error))?,
                target: Target::Remote {
                    store: Arc::clone(store),
                    path,
                },
            });
        }
        let target = LocalFileSystem::new().path_to_filesystem(&path)?;
        let folder = target.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{name}.");
        builder.prefix(&prefix).suffix(HIDDEN_END);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(fs::Permissions::from_mode(0o666)); // less the process's mask
        }
        let staged = builder.tempfile_in(folder).map_err(|error| failed(&target, &error))?;
        // Until it is published or removed, or the process ends. On file systems without locks, leftovers stay too.
        if let Err(error) = staged.as_file().lock() {
            log::debug!("{}: {error}", staged.path().display());
        }
        Ok(Self {
            staged,
            target: Target::Local(target),
        })
    }

    /// A writer of the file's bytes.
    ///
    /// # Errors
    /// If the file cannot be opened again.
    pub(super) fn writer(&self) -> Result<BufWriter<File>> {
        let file = self
            .staged
            .reopen()
            .map_err(|error| failed(self.staged.path(), &error))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    }

    /// The name in error messages.
    pub(super) fn name(&self) -> String {
        match &self.target {
            Target::Local(path) => path.display().to_string(),
            Target::Remote { path, .. } => path.to_string(),
        }
    }

    /// Waits until the bytes of a local file are on disk.
    ///
    /// # Errors
    /// If the system cannot write them.
    pub(super) fn sync(&self) -> Result<()> {
        match &self.target {
            Target::Local(path) => self.staged.as_file().sync_all().map_err(|error| failed(path, &error)),
            Target::Remote { .. } => Ok(()),
        }
    }

    /// Makes the file visible.
    ///
    /// # Errors
    /// If it cannot be renamed or uploaded. A file that was there before stays.
    pub(super) async fn publish(self) -> Result<()> {
        match self.target {
            Target::Local(path) => {
                let renamed = self.staged.persist(&path);
                renamed.map_err(|error| failed(&path, &error.error))?;
                let folder = path.parent().unwrap_or(Path::new("/"));
                File::open(folder)
                    .and_then(|folder| folder.sync_all())
                    .map_err(|error| failed(folder, &error))
            }
            Target::Remote { store, path } => upload(self.staged, store.as_ref(), &path).await,
        }
    }
}

/// Uploads a file in parts.
async fn upload(staged: NamedTempFile, store: &dyn ObjectStore, path: &object_store::path::Path) -> Result<()> {
    let failed_read = |error| failed(staged.path(), &error);
    let mut file = staged.reopen().map_err(failed_read)?;
    file.rewind().map_err(failed_read)?;
    let first = part(&mut file).map_err(failed_read)?;
    if first.len() < PART_BYTES {
        store.put(path, PutPayload::from(first)).await?;
        return Ok(());
    }
    let mut parts = store.put_multipart(path).await?;
    let mut next = first;
    let sent = async {
        while !next.is_empty() {
            parts.put_part(PutPayload::from(next)).await?;
            next = part(&mut file).map_err(failed_read)?;
        }
        parts.complete().await?;
        Ok(())
    }
    .await;
    if sent.is_err()
        && let Err(error) = parts.abort().await
    {
        log::warn!("{path}: the store keeps the parts of a failed upload: {error}");
    }
    sent
}

/// The next bytes of a file, at most one part.
fn part(file: &mut File) -> std::io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(PART_BYTES);
    file.take(PART_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

fn failed(path: &Path, error: &std::io::Error) -> DataFusionError {
    DataFusionError::Execution(format!("cannot write {}: {error}", path.display()))
}
