//! Errors: those of the layout crate as DataFusion carries them, and `CacheFileError`.

use std::io;
use std::path::{Path, PathBuf};

use datafusion::error::DataFusionError;
use grampus_orc_layout::LayoutError;

pub use crate::redaction::{with_stars, without_passwords, without_secrets};
use crate::store_error::StoreError;

/// Wraps an error about a file's bytes. [`message`] returns the error's own text, which names the file and the place.
pub fn layout(error: LayoutError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// The text of `error` for people, without DataFusion's wrapping and without passwords of URLs.
pub fn message(error: &DataFusionError) -> String {
    let root = error.find_root();
    without_passwords(&match (StoreError::find(root), root) {
        (Some(store), _) => store.to_string(),
        (None, DataFusionError::External(inner)) => inner.to_string(),
        (None, root) => root.strip_backtrace(),
    })
}

/// A file of the user's cache folder could not be written.
#[derive(Debug, thiserror::Error)]
pub enum CacheFileError {
    /// The disk is full.
    #[error("no space left for {} (the unfinished file was removed)", .0.display())]
    DiskFull(PathBuf),
    /// The operating system refused for another reason.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's words.
        source: io::Error,
    },
}

impl CacheFileError {
    /// The error of a write to `path`.
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path.to_owned()),
            _ => Self::Io {
                path: path.to_owned(),
                source,
            },
        }
    }
}
