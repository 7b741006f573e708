//! The crate's error type, [`LayoutError`]. Each variant carries what a reader needs to act: the file, the place in the
//! file, and the reason.

use std::sync::Arc;

/// Result with [`LayoutError`].
pub type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// A failure between an ORC file's bytes and its values, in either direction.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LayoutError {
    /// The bytes do not follow the ORC specification.
    #[error("{file}: corrupt ORC file at byte {offset} ({place}): {reason}")]
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
    #[error("{file}: {feature} is not supported: {advice}")]
    Unsupported {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// The feature that the file uses.
        feature: String,
        /// Advice to the user.
        advice: String,
    },
    /// Not an ORC file at all (wrong magic, empty, too short).
    #[error("{file}: not an ORC file: {reason}")]
    NotOrc {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Why the file cannot be ORC.
        reason: String,
    },
    /// The bytes could not be fetched.
    #[error("{file}: cannot read {length} bytes at byte {offset}: {reason}")]
    Io {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// First byte that was asked for.
        offset: u64,
        /// Number of bytes asked for.
        length: u64,
        /// The message of the operating system or the object store.
        reason: String,
    },
    /// A value that the Arrow type cannot hold (a timestamp beyond 64-bit nanoseconds, say).
    #[error("{file}: column {column}: {reason}")]
    OutOfRange {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Dotted column name.
        column: String,
        /// The value and the range that it leaves.
        reason: String,
    },
    /// The values selected at once take more memory than the caller allows.
    #[error("{file}: column {column}: {rows} of its rows, read at once, take more than {limit_bytes} bytes")]
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
    /// The writer received a value that it cannot store.
    #[error("cannot write ORC: {0}")]
    Write(String),
}

impl LayoutError {
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
