//! The crate's error type, [`LayoutError`]. Each variant carries what a reader needs to act: the file, the place in the
//! file, and the reason.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use arrow::error::ArrowError;

/// Result with [`LayoutError`].
pub type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// A failure between an ORC file's bytes and its values, in either direction. Clones share their source.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LayoutError {
    /// The bytes do not follow the ORC specification.
    Corrupt {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Absolute offset of the structure that could not be read.
        offset: u64,
        /// The structure at `offset`: "postscript", "stripe 3 footer", "column 7 (fare) DATA stream", …
        place: String,
        /// The fault of the structure.
        reason: String,
    },
    /// A valid file with a feature that this reader does not support (encryption, DWRF, …).
    Unsupported {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// The feature that the file uses.
        feature: String,
        /// Advice to the user.
        advice: String,
    },
    /// Not an ORC file at all (wrong magic, empty, too short).
    NotOrc {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Why the file cannot be ORC.
        reason: String,
    },
    /// The bytes could not be fetched.
    Io {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// First byte that was asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// The message of the operating system or the object store.
        reason: String,
        /// The error of the operating system or the object store, if there is one.
        source: Option<Arc<dyn Error + Send + Sync>>,
    },
    /// A value that the Arrow type cannot hold (a timestamp beyond 64-bit nanoseconds, say).
    OutOfRange {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Dotted column name.
        column: String,
        /// The value and the range that it leaves.
        reason: String,
    },
    /// The values selected at once take more memory than the caller allows.
    TooLarge {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Dotted column name.
        column: String,
        /// Rows that were selected.
        rows: u64,
        /// The limit that the caller gave.
        limit_bytes: u64,
    },
    /// The reader was asked for something that the file does not have: a stripe, a column, rows.
    InvalidRequest {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// What was asked for, and what there is.
        reason: String,
    },
    /// A row filter failed, or its answer does not fit the rows.
    Filter {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// The filter's message.
        reason: String,
        /// The filter's error, if it returned one.
        source: Option<Arc<ArrowError>>,
    },
    /// The writer received a value or a property that it cannot store.
    Write(String),
    /// The writer's sink failed.
    Sink {
        /// The sink's message, with advice.
        reason: String,
        /// The sink's error.
        source: Arc<io::Error>,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt {
                file,
                offset,
                place,
                reason,
            } => write!(f, "{file}: corrupt ORC file at byte {offset} ({place}): {reason}"),
            Self::Unsupported { file, feature, advice } => write!(f, "{file}: {feature} is not supported: {advice}"),
            Self::NotOrc { file, reason } => write!(f, "{file}: not an ORC file: {reason}"),
            Self::Io {
                file,
                length: 0,
                reason,
                ..
            } => write!(f, "{file}: cannot be opened: {reason}"),
            Self::Io {
                file,
                offset,
                length,
                reason,
                ..
            } => write!(f, "{file}: cannot read {length} bytes at byte {offset}: {reason}"),
            Self::OutOfRange { file, column, reason } => write!(f, "{file}: column {column}: {reason}"),
            Self::TooLarge {
                file,
                column,
                rows,
                limit_bytes,
            } => write!(
                f,
                "{file}: column {column}: {rows} of its rows, read at once, take more than {limit_bytes} bytes"
            ),
            Self::InvalidRequest { file, reason } => write!(f, "{file}: {reason}"),
            Self::Filter { file, reason, .. } => write!(f, "{file}: the row filter failed: {reason}"),
            Self::Write(reason) | Self::Sink { reason, .. } => write!(f, "cannot write ORC: {reason}"),
        }
    }
}

impl Error for LayoutError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source.as_ref()?),
            Self::Filter { source, .. } => Some(&**source.as_ref()?),
            Self::Sink { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// For readers that are iterators of Arrow's results.
impl From<LayoutError> for ArrowError {
    fn from(error: LayoutError) -> Self {
        Self::ExternalError(Box::new(error))
    }
}

impl LayoutError {
    /// The error of a read of `range` that failed. `error` becomes its source.
    pub fn io(file: &Arc<str>, range: Range<u64>, error: impl Error + Send + Sync + 'static) -> Self {
        Self::Io {
            file: file.clone(),
            offset: range.start,
            length: range.end.saturating_sub(range.start),
            reason: error.to_string(),
            source: Some(Arc::new(error)),
        }
    }

    /// The error of a read of `range` that failed for a reason without an error of its own.
    pub fn io_without_source(file: &Arc<str>, range: Range<u64>, reason: impl Into<String>) -> Self {
        Self::Io {
            file: file.clone(),
            offset: range.start,
            length: range.end.saturating_sub(range.start),
            reason: reason.into(),
            source: None,
        }
    }

    /// The error for a request that the file cannot answer.
    pub(crate) fn invalid_request(file: &Arc<str>, reason: impl Into<String>) -> Self {
        Self::InvalidRequest {
            file: file.clone(),
            reason: reason.into(),
        }
    }

    /// The error for a file that is not ORC.
    pub(crate) fn not_orc(file: &Arc<str>, reason: impl Into<String>) -> Self {
        Self::NotOrc {
            file: file.clone(),
            reason: reason.into(),
        }
    }

    /// The error for a valid feature that this reader does not support.
    pub(crate) fn unsupported(file: &Arc<str>, feature: impl Into<String>, advice: &str) -> Self {
        Self::Unsupported {
            file: file.clone(),
            feature: feature.into(),
            advice: advice.into(),
        }
    }
}

/// A section of a file, as errors name it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Path or URL of the file.
    pub(crate) file: &'a Arc<str>,
    /// Absolute offset of the section's first byte.
    pub(crate) offset: u64,
    /// Name of the section: "footer", "stripe 3 footer", …
    pub(crate) name: &'a str,
}

impl Section<'_> {
    /// A `Corrupt` error `at` bytes into the section.
    pub(crate) fn corrupt(&self, at: u64, reason: impl Into<String>) -> LayoutError {
        LayoutError::Corrupt {
            file: self.file.clone(),
            offset: self.offset.saturating_add(at),
            place: self.name.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Fault of the footer's types.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// The types contradict the specification.
    Corrupt(String),
    /// The types are valid, but this reader cannot represent them: the feature, and advice to the user.
    Unsupported(&'static str, &'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_keep_the_error_below_them() {
        let file: Arc<str> = "a.orc".into();
        let error = LayoutError::io(&file, 5..9, io::Error::from_raw_os_error(5));
        assert!(
            error.to_string().starts_with("a.orc: cannot read 4 bytes at byte 5: "),
            "{error}"
        );
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(5));
        let arrow = ArrowError::from(error);
        let source = arrow.source().and_then(|source| source.downcast_ref::<LayoutError>());
        assert!(matches!(source, Some(LayoutError::Io { .. })));
        assert!(LayoutError::io_without_source(&file, 0..1, "gone").source().is_none());
    }
}
