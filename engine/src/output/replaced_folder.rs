//! [`ReplacedFolder`]: the folder of a table, which `INSERT OVERWRITE` replaces by another one.
//!
//! The new files are written into a hidden folder beside the table's. When all are complete, the two folders are
//! exchanged, and the old one is removed. Before that, any failure leaves the table as it was.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::error::{DataFusionError, Result};
use grampus_atomic_output::staged_folder::{Replaceable, StagedFolder};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;

use super::staged_file::remove_leftovers;
use crate::table::listing::is_hidden_name;

/// The first bytes of each ORC file.
const MAGIC: &[u8] = b"ORC";

const FILES_OF_A_TABLE: Replaceable = Replaceable {
    is_replaceable: is_file_of_a_table,
    otherwise: "is no ORC file of the table: move it away",
};

/// A local folder that will have other files.
pub(super) struct ReplacedFolder {
    staged: StagedFolder,
}

impl ReplacedFolder {
    /// Prepares the replacement of the folder that a sink writes to.
    ///
    /// # Errors
    /// If the folder cannot be replaced: it holds files that are not the table's, or is a mount point.
    pub(super) fn create(config: &FileSinkConfig) -> Result<Self> {
        let [url] = config.table_paths.as_slice() else {
            return Err(DataFusionError::Internal("a table of several folders".to_owned()));
        };
        let folder = LocalFileSystem::new().path_to_filesystem(url.prefix())?;
        remove_leftovers(&folder);
        let staged = StagedFolder::create(&folder, Some(FILES_OF_A_TABLE)).map_err(failed)?;
        Ok(Self { staged })
    }

    /// The place of the new file that will be at `path`.
    ///
    /// # Errors
    /// If the path names no file.
    pub(super) fn place(&self, path: &ObjectPath) -> Result<ObjectPath> {
        let name = path.filename().unwrap_or_default();
        Ok(ObjectPath::from_absolute_path(self.staged.files().join(name))?)
    }

    /// Replaces the folder.
    ///
    /// # Errors
    /// If other files came meanwhile, or the system refuses. The old files stay then.
    pub(super) fn publish(self) -> Result<()> {
        self.staged.publish().map_err(failed)
    }
}

fn failed(error: grampus_atomic_output::OutputError) -> DataFusionError {
    DataFusionError::Execution(format!("INSERT OVERWRITE: {error}"))
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
