//! [`ReplacedFolder`]: the folder of a table, which `INSERT OVERWRITE` replaces by another one.
//!
//! The new files are written into a hidden folder beside the table's. When all are complete, the two folders are
//! exchanged, and the old one is removed. Before that, any failure leaves the table as it was.
//!
//! The folder is replaced only if it has the files that the statement was planned for ([`FolderFiles`]). Otherwise rows
//! that another statement has added since would be lost, which the new files do not have.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use std::sync::Arc;

use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::error::{DataFusionError, Result};
use grampus_atomic_output::staged_folder::{Replaceable, StagedFolder};
use grampus_atomic_output::temporary_folder;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;

use crate::table::folder_files::FolderFiles;
use crate::table::hive_partitions::NULL_VALUE;
use crate::table::listing::is_hidden_name;

/// The first bytes of each ORC file.
const MAGIC: &[u8] = b"ORC";

const FILES_OF_A_TABLE: Replaceable = Replaceable {
    other_than_these: other_than_a_table,
    otherwise: "is no ORC file of the table: move it away",
};

/// A local folder that will have other files.
pub(super) struct ReplacedFolder {
    /// The table's folder.
    place: ObjectPath,
    staged: StagedFolder,
}

impl ReplacedFolder {
    /// Prepares the replacement of the folder that a sink writes to, if it has these files in the end.
    ///
    /// # Errors
    /// If the folder cannot be replaced: it holds files that are not the table's, or is a mount point; or if it has
    /// changed already.
    pub(super) fn create(config: &FileSinkConfig, files: Arc<FolderFiles>) -> Result<Self> {
        let [url] = config.table_paths.as_slice() else {
            return Err(DataFusionError::Internal("a table of several folders".to_owned()));
        };
        let folder = LocalFileSystem::new().path_to_filesystem(url.prefix())?;
        remove_all_leftovers(&folder);
        let staged = StagedFolder::create(&folder, Some(FILES_OF_A_TABLE)).map_err(failed)?;
        let staged = staged
            .replacing_only(move |folder| files.verify(folder))
            .map_err(failed)?;
        let place = url.prefix().clone();
        Ok(Self { place, staged })
    }

    /// The path of the new file that will be at `path` below the table's folder.
    ///
    /// # Errors
    /// If the path is elsewhere.
    pub(super) fn new_place(&self, path: &ObjectPath) -> Result<PathBuf> {
        let files = ObjectPath::from_absolute_path(self.staged.files())?;
        match path.prefix_match(&self.place) {
            Some(parts) => {
                let new = parts.fold(files, |folder, part| folder.join(part));
                Ok(LocalFileSystem::new().path_to_filesystem(&new)?)
            }
            None => Err(DataFusionError::Internal(format!("{path} is not below {}", self.place))),
        }
    }

    /// The place of a file without rows, in the folder of NULL for each of the partition columns.
    pub(super) fn place_without_rows(&self, config: &FileSinkConfig) -> ObjectPath {
        let columns = config.table_partition_cols.iter();
        let folders = columns.map(|(name, _)| format!("{name}={NULL_VALUE}"));
        let folder = folders.fold(self.place.clone(), |folder, name| folder.join(name));
        folder.join("empty.orc")
    }

    /// Replaces the folder.
    ///
    /// # Errors
    /// If files came, went or changed meanwhile, or the system refuses. The old files stay then.
    pub(super) fn publish(self) -> Result<()> {
        self.staged.publish().map_err(failed)
    }
}

fn failed(error: grampus_atomic_output::OutputError) -> DataFusionError {
    DataFusionError::Execution(format!("INSERT OVERWRITE: {error}"))
}

/// A folder's name is that of a partition.
fn is_partition(name: &str) -> bool {
    name.contains('=') && !is_hidden_name(name)
}

/// The first file or folder, at a path or below, that is neither a partition nor the table's.
fn other_than_a_table(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !(is_partition(&name) && fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())) {
        return (!is_file_of_a_table(path)).then(|| path.to_owned());
    }
    let Ok(entries) = fs::read_dir(path) else {
        return Some(path.to_owned());
    };
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path()));
    paths.find_map(|entry| entry.map_or_else(|_| Some(path.to_owned()), |entry| other_than_a_table(&entry)))
}

/// Removes what killed processes left in the folder of a table and in its partitions.
fn remove_all_leftovers(folder: &Path) {
    temporary_folder::remove_unpublished(folder);
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && is_partition(&entry.file_name().to_string_lossy()) {
            remove_all_leftovers(&entry.path());
        }
    }
}

/// Whether a file holds rows of the table, or none at all, or stands beside data that Hadoop writes.
fn is_file_of_a_table(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_beside_data = name == "_SUCCESS" || name.ends_with(".crc");
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => false,
        Ok(found) => is_beside_data || (!is_hidden_name(&name) && (found.len() == 0 || is_orc(path))),
        Err(_) => false,
    }
}

fn is_orc(path: &Path) -> bool {
    let mut start = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == MAGIC
}
