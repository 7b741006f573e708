//! [`NewFiles`]: the files that a statement writes, which appear when all are complete.
//!
//! - *Local*: hidden files, published together by renames ([`StagedFiles`]).
//! - *In the place of a table's files* (`INSERT OVERWRITE`): files of a hidden folder ([`ReplacedFolder`]).
//! - *In an object store*: temporary local files, uploaded one after the other ([`UploadedFile`]).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::error::{DataFusionError, Result};
use grampus_atomic_output::StagedFiles;
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;

use super::replaced_folder::ReplacedFolder;
use super::uploaded_file::UploadedFile;
use super::write_error::{output_error, write_error};

/// The files of one statement. Dropped unpublished, they are removed.
pub(super) enum NewFiles {
    Local(StagedFiles),
    Replacing {
        folder: ReplacedFolder,
        paths: Vec<PathBuf>,
    },
    Remote {
        store: Arc<dyn ObjectStore>,
        files: Vec<UploadedFile>,
    },
}

/// Whether a sink writes one file, whose name is the statement's.
pub(super) fn is_single(config: &FileSinkConfig) -> bool {
    let place = config.table_paths.first();
    config.table_partition_cols.is_empty()
        && place.is_some_and(|place| config.file_output_mode.single_file_output(place))
}

/// Whether a place is in the file system.
pub(super) fn is_local(place: &ListingTableUrl) -> bool {
    let store = place.object_store();
    let url: &url::Url = store.as_ref();
    url.scheme() == "file"
}

/// No files yet, of a local file or folder.
///
/// # Errors
/// If the path cannot be resolved.
pub(super) fn staged_files(place: &ListingTableUrl, is_single: bool) -> Result<StagedFiles> {
    match is_single {
        true => Ok(StagedFiles::new()),
        false => StagedFiles::below(&local_path(place.prefix())?).map_err(|error| output_error(&error)),
    }
}

/// A path of the file system.
///
/// # Errors
/// If the name of a file or folder has characters that it cannot have.
pub(super) fn local_path(path: &ObjectPath) -> Result<PathBuf> {
    Ok(LocalFileSystem::new().path_to_filesystem(path)?)
}

impl NewFiles {
    /// No files yet, of the place that a sink writes to, a file system or `store`.
    ///
    /// # Errors
    /// If the place cannot be resolved.
    pub(super) fn create(config: &FileSinkConfig, store: &Arc<dyn ObjectStore>) -> Result<Self> {
        let [place] = config.table_paths.as_slice() else {
            return Err(DataFusionError::Internal("a sink of several places".to_owned()));
        };
        Ok(match is_local(place) {
            true => Self::Local(staged_files(place, is_single(config))?),
            false => Self::Remote {
                store: Arc::clone(store),
                files: Vec::new(),
            },
        })
    }

    /// No files yet, of a folder that takes the table's place.
    pub(super) fn replacing(folder: ReplacedFolder) -> Self {
        let paths = Vec::new();
        Self::Replacing { folder, paths }
    }

    /// Starts the file at `path`. Returns its name for messages, and the place of the empty file to write to.
    ///
    /// # Errors
    /// If the file cannot be made. The error names it.
    pub(super) fn add(&mut self, path: &ObjectPath) -> Result<(String, PathBuf)> {
        match self {
            Self::Local(files) => {
                let target = local_path(path)?;
                let staged = files.add(&target).map_err(|error| output_error(&error))?;
                File::create_new(&staged).map_err(|error| write_error(&target, &error))?;
                Ok((target.display().to_string(), staged))
            }
            Self::Replacing { folder, paths } => {
                let (shown, new) = (local_path(path)?, folder.new_place(path)?);
                let made = new.parent().map_or(Ok(()), fs::create_dir_all);
                let made = made.and_then(|()| File::create_new(&new));
                made.map_err(|error| write_error(&shown, &error))?;
                paths.push(new.clone());
                Ok((shown.display().to_string(), new))
            }
            Self::Remote { files, .. } => {
                let new = UploadedFile::create(path.clone())?;
                let place = new.place().to_owned();
                files.push(new);
                Ok((path.to_string(), place))
            }
        }
    }

    /// Makes the files visible.
    ///
    /// # Errors
    /// If one cannot be renamed or uploaded. A file that was there before stays.
    pub(super) async fn publish(self) -> Result<()> {
        match self {
            Self::Local(files) => files.publish().map_err(|error| output_error(&error)),
            Self::Replacing { folder, paths } => {
                for path in &paths {
                    sync(path)?;
                }
                folder.publish()
            }
            Self::Remote { store, files } => {
                for file in &files {
                    file.upload(store.as_ref()).await?;
                }
                Ok(())
            }
        }
    }
}

/// Waits until the bytes of a file are on disk.
fn sync(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| write_error(path, &error))
}
