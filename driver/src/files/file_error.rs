//! [`FileError`]: why files on a namespace cannot be found, loaded or read.

use std::io;

use crate::error::DriverError;

/// An error of the files on a namespace. Each names the drive, as `0000:01:00.0, namespace 1`.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The controller or one of its commands failed. The source names opcode and LBA.
    #[error("{drive}: {during}: {source}")]
    Device {
        /// The drive.
        drive: String,
        /// What was done: `reading trips.orc`.
        during: String,
        /// The driver's error.
        source: DriverError,
    },
    /// The controller has no such namespace, or one that cannot be used.
    #[error("{drive}: {reason}")]
    Namespace {
        /// The drive.
        drive: String,
        /// The reason, with the namespaces that there are.
        reason: String,
    },
    /// There is no directory of files.
    #[error("{drive} has no directory of files: {found}")]
    NoDirectory {
        /// The drive.
        drive: String,
        /// What is there instead.
        found: String,
    },
    /// Both copies of a structure are damaged, or they contradict each other.
    #[error("{drive}: the directory of files is damaged: {reason}")]
    Damaged {
        /// The drive.
        drive: String,
        /// The places and what is wrong there.
        reason: String,
    },
    /// The namespace holds data, and erasing it was not asked for.
    #[error("{drive} is not empty: {found}")]
    NotEmpty {
        /// The drive.
        drive: String,
        /// What was found, and where.
        found: String,
    },
    /// A name that cannot be stored.
    #[error("the file name '{name}' {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name is taken.
    #[error("{drive} has a file {name} already")]
    Exists {
        /// The drive.
        drive: String,
        /// The name.
        name: String,
    },
    /// There is no file of that name.
    #[error("{drive} has no file {name}")]
    NotFound {
        /// The drive.
        drive: String,
        /// The name.
        name: String,
    },
    /// The file does not fit.
    #[error("{drive} has no room for {name}: {reason}")]
    Full {
        /// The drive.
        drive: String,
        /// The name.
        name: String,
        /// What is too small, in bytes or files.
        reason: String,
    },
    /// The file to be loaded cannot be read, or changes its length meanwhile.
    #[error("{name}: {source}")]
    Source {
        /// The name.
        name: String,
        /// The error.
        source: io::Error,
    },
    /// Bytes read back differ from those written, or stored bytes from their checksum.
    #[error("{drive}: {name}: the bytes at LBA {lba} are not those that were written")]
    Content {
        /// The drive.
        drive: String,
        /// The name.
        name: String,
        /// The first block of the first 4 KiB that differ.
        lba: u64,
    },
    /// A range outside a file.
    #[error("{name} has {length_bytes} bytes: {start}..{end} do not lie inside it")]
    Range {
        /// The file.
        name: String,
        /// Its length.
        length_bytes: u64,
        /// First byte.
        start: u64,
        /// Byte behind the last.
        end: u64,
    },
    /// The caller ended a load.
    #[error("the load of {name} was ended; the directory is as before")]
    Ended {
        /// The name.
        name: String,
    },
}
