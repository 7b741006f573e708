//! [`ToolError`]: why a generation or a conversion stopped.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use grampus_atomic_output::OutputError;
use grampus_orc_layout::LayoutError;

/// The error of a library underneath, kept for [`Error::source`].
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a generation or a conversion stopped. Nothing new is left behind, and older outputs stay as they were.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Options that contradict each other, the format or the inputs.
    #[error("{0}")]
    Options(String),
    /// An input that cannot be read.
    #[error("{}: {reason}", path.display())]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        reason: String,
        /// The error of the operating system or of the format's reader, if one is behind it.
        #[source]
        cause: Option<Cause>,
    },
    /// The output folder is not empty and the options do not allow overwriting.
    #[error("{} is not empty: name another folder, or allow overwriting", .0.display())]
    NotEmpty(PathBuf),
    /// The output file exists and the options do not allow overwriting.
    #[error("{} exists: name another file, or allow overwriting", .0.display())]
    Exists(PathBuf),
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
    /// The disk is full.
    #[error("no space left for {} (nothing was written)", .0.display())]
    DiskFull(PathBuf),
    /// The operating system refused an output for another reason.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// ORC that cannot be read or written.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// An output that differs from its input when it is read back.
    #[error("{}: what was written reads back differently: {reason} (it was not published)", path.display())]
    Verify {
        /// The output file, which was not published.
        path: PathBuf,
        /// The first difference.
        reason: String,
    },
    /// Arrow refused to build a batch of generated values: a defect of the generator.
    #[error("internal: {0}")]
    Arrow(#[from] arrow::error::ArrowError),
    /// The progress function answered `Break`.
    #[error("cancelled")]
    Cancelled,
}

impl ToolError {
    /// The error for the output `path`; a full disk has a variant of its own.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull(path.to_owned()),
            // A signal ends the program.
            io::ErrorKind::Interrupted => Self::Cancelled,
            _ => Self::Write {
                path: path.to_owned(),
                source,
            },
        }
    }
}

impl From<OutputError> for ToolError {
    fn from(error: OutputError) -> Self {
        match error {
            OutputError::NotEmpty(path) => Self::NotEmpty(path),
            OutputError::NotReplaceable { path, reason } => Self::NotReplaceable { path, reason },
            OutputError::NotAFolder(path) => Self::NotAFolder(path),
            OutputError::Write { path, source } => Self::write(&path, source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_has_a_message_of_its_own() {
        let error = ToolError::write(Path::new("x.orc"), io::Error::from(io::ErrorKind::StorageFull));
        assert_eq!(error.to_string(), "no space left for x.orc (nothing was written)");
    }
}
