//! [`OutputError`]: why an output was not published.

use std::io;
use std::path::{Path, PathBuf};

/// Why an output was not published. An older output stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The output folder is not empty, and it may not be replaced.
    #[error("{} is not empty: name another folder, or allow overwriting", .0.display())]
    NotEmpty(PathBuf),
    /// The output folder cannot be replaced.
    #[error("{} cannot be replaced: {reason}", path.display())]
    NotReplaceable {
        /// The folder.
        path: PathBuf,
        /// The reason, and what to do.
        reason: String,
    },
    /// The path of the output folder names something else.
    #[error("{} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// The operating system refused an output.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl OutputError {
    /// The error for the output `path`.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    /// The error for the temporary folder in `parent`, in which the output `path` is written first.
    pub(crate) fn beside(path: &Path, parent: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::NotReplaceable {
                path: path.to_owned(),
                reason: format!(
                    "it is written in {} first, where this user may not write",
                    parent.display()
                ),
            },
            _ => Self::write(path, source),
        }
    }
}
