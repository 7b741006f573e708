//! The one error type of this crate. Each variant carries what a reader needs to act: the file, the
//! place in it, and what is wrong there.

use std::sync::Arc;

/// Result with [`LayoutError`].
pub type Result<T, E = LayoutError> = std::result::Result<T, E>;

/// What can go wrong between an ORC file's bytes and its values, or the other way.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LayoutError {
    /// The bytes do not follow the ORC specification.
    #[error("{file}: corrupt ORC file at byte {offset} ({place}): {reason}")]
    Corrupt {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Absolute offset of the structure that could not be read.
        offset: u64,
        /// What stands there: "postscript", "stripe 3 footer", "column 7 (fare) DATA stream", …
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A valid file that uses something this reader does not support (encryption, DWRF, …).
    #[error("{file}: {feature} is not supported: {advice}")]
    Unsupported {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// What the file uses.
        feature: String,
        /// What the user can do about it.
        advice: String,
    },
    /// Not an ORC file at all (wrong magic, empty, too short).
    #[error("{file}: not an ORC file: {reason}")]
    NotOrc {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Why it cannot be one.
        reason: String,
    },
    /// The bytes could not be fetched.
    #[error("{file}: cannot read {length} bytes at byte {offset}: {reason}")]
    Io {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// First byte that was asked for.
        offset: u64,
        /// How many bytes were asked for.
        length: u64,
        /// The operating system's or the store's words.
        reason: String,
    },
    /// A value that the Arrow type cannot hold (a timestamp beyond 64-bit nanoseconds, say).
    #[error("{file}: column {column}: {reason}")]
    OutOfRange {
        /// Path or URL as the user named it.
        file: Arc<str>,
        /// Dotted column name.
        column: String,
        /// Which value and which range.
        reason: String,
    },
    /// The writer was given something that it cannot store.
    #[error("cannot write ORC: {0}")]
    Write(String),
}

impl LayoutError {
    /// Not an ORC file, and why.
    pub(crate) fn not_orc(file: &Arc<str>, reason: impl Into<String>) -> Self {
        Self::NotOrc {
            file: file.clone(),
            reason: reason.into(),
        }
    }

    /// A valid feature that this reader does not support.
    pub(crate) fn unsupported(file: &Arc<str>, feature: impl Into<String>, advice: &str) -> Self {
        Self::Unsupported {
            file: file.clone(),
            feature: feature.into(),
            advice: advice.into(),
        }
    }
}

/// Where a section stands in its file, for errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    /// Path or URL of the file.
    pub(crate) file: &'a Arc<str>,
    /// Absolute offset of the section's first byte.
    pub(crate) offset: u64,
    /// Its name: "footer", "stripe 3 footer", …
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

/// Why the footer's types make no schema.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SchemaError {
    /// They contradict the specification.
    Corrupt(String),
    /// They are valid, but there is no way to show them: what, and what can be done about it.
    Unsupported(&'static str, &'static str),
}
