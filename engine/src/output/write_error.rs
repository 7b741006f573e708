//! Errors of files that statements write, in the words of `grampus convert`.

use std::io::{Error, ErrorKind};
use std::path::Path;

use datafusion::error::DataFusionError;
use grampus_atomic_output::OutputError;

/// The error of the file or folder `path`, which is not there yet or as it was.
pub(super) fn write_error(path: &Path, error: &Error) -> DataFusionError {
    let path = path.display();
    DataFusionError::Execution(match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => format!("no space left for {path} (nothing was written)"),
        ErrorKind::PermissionDenied => format!("cannot write {path}: permission denied"),
        _ => format!("cannot write {path}: {error}"),
    })
}

/// The error of an output.
pub(super) fn output_error(error: &OutputError) -> DataFusionError {
    match error {
        OutputError::Write { path, source } => write_error(path, source),
        other => DataFusionError::Execution(other.to_string()),
    }
}
