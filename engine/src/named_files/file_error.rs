//! [`FileError`]: a file that cannot be read as its format says.

use std::error::Error;
use std::io;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;

use crate::error::message;
use crate::redaction::without_passwords;
use crate::store_error::StoreError;

/// A file that cannot be read, with the reader's reason.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    /// This user may not read it.
    #[error("{file}: cannot be opened: permission denied")]
    Unopened { file: String },
    /// Its bytes are not those of the format.
    #[error("{file}: cannot be read as {format}: {reason}")]
    Unreadable {
        file: String,
        format: String,
        reason: String,
    },
}

/// The file and its format, for errors.
#[derive(Debug, Clone)]
pub(crate) struct FileName {
    pub(super) file: String,
    pub(super) format: String,
}

impl FileName {
    /// The name of the object at `path` of the store of `url`.
    pub(super) fn new(url: &str, path: &object_store::path::Path, format: &str) -> Self {
        let url = without_passwords(url);
        Self {
            file: format!(
                "{}/{path}",
                url.strip_prefix("file://").unwrap_or(&url).trim_end_matches('/')
            ),
            format: format.to_owned(),
        }
    }

    /// The error with this name, if it is about bytes and has no name yet.
    pub(super) fn name(&self, error: DataFusionError) -> DataFusionError {
        if StoreError::find(&error).is_some() || !is_about_bytes(error.find_root()) {
            return error;
        }
        let file = self.file.clone();
        DataFusionError::External(Box::new(match is_permission(&error) {
            true => FileError::Unopened { file },
            false => FileError::Unreadable {
                file,
                format: self.format.clone(),
                reason: with_advice(reason(&message(&error))),
            },
        }))
    }
}

/// Whether the system refused for lack of permission.
fn is_permission(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| io.kind() == io::ErrorKind::PermissionDenied) {
            return true;
        }
        next = error.source();
    }
    false
}

fn is_about_bytes(root: &DataFusionError) -> bool {
    match root {
        DataFusionError::ParquetError(_) | DataFusionError::ObjectStore(_) | DataFusionError::IoError(_) => true,
        DataFusionError::ArrowError(error, _) => matches!(
            error.as_ref(),
            ArrowError::CsvError(_)
                | ArrowError::JsonError(_)
                | ArrowError::IpcError(_)
                | ArrowError::ParquetError(_)
                | ArrowError::ParseError(_)
                | ArrowError::SchemaError(_)
                | ArrowError::InvalidArgumentError(_)
                | ArrowError::IoError(..)
        ),
        _ => false,
    }
}

/// The reason, with the way out if a value is not of the type that was inferred from earlier ones.
fn with_advice(reason: String) -> String {
    match reason.contains("Error while parsing value ") {
        true => format!(
            "{reason}. The type is that of the first rows: declare the columns, CREATE EXTERNAL TABLE t \
             (column VARCHAR, …) STORED AS CSV LOCATION '…'"
        ),
        false => reason,
    }
}

/// The reader's words without its prefixes.
fn reason(words: &str) -> String {
    const PREFIXES: [&str; 14] = [
        "Arrow error: ",
        "Arrow: ",
        "Csv error: ",
        "EOF: ",
        "External: ",
        "Invalid argument error: ",
        "IO error: ",
        "Ipc error: ",
        "Json error: ",
        "Parquet argument error: ",
        "Parquet error: ",
        "ParquetError: ",
        "Parser error: ",
        "Schema error: ",
    ];
    let mut words = words.split("\n\nbacktrace:").next().unwrap_or(words).trim();
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| words.strip_prefix(prefix)) {
        words = rest;
    }
    words.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_about_bytes_get_the_files_name_and_others_stay() {
        let name = FileName::new("file:///", &"tmp/a.csv".into(), "csv");
        let csv = ArrowError::CsvError("2 fields in line 3, expected 1".to_owned());
        let error = name.name(DataFusionError::ArrowError(Box::new(csv), None).context("reading"));
        assert_eq!(
            message(&error),
            "/tmp/a.csv: cannot be read as csv: 2 fields in line 3, expected 1"
        );
        let twice = FileName::new("s3://b/", &"c.csv".into(), "csv").name(error);
        assert!(message(&twice).starts_with("/tmp/a.csv: "));
        for other in [
            DataFusionError::ArrowError(Box::new(ArrowError::DivideByZero), None),
            DataFusionError::ResourcesExhausted("memory".to_owned()),
        ] {
            let text = other.to_string();
            assert_eq!(name.name(other).to_string(), text);
        }
    }
}
