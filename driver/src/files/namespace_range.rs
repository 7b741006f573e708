//! [`NamespaceRange`]: consecutive bytes of a namespace, for an agent that drives queues of the controller itself.

use std::sync::{Arc, Mutex};

use super::directory::FileEntry;
use super::drive::Drive;
use super::file_error::FileError;
use super::layout::GRAIN_BYTES;
use crate::host::Device;

/// Consecutive bytes of a drive, such as those of a file.
#[derive(Debug, Clone)]
pub struct NamespaceRange {
    drive: Drive,
    name: String,
    position: u64,
    length_bytes: u64,
}

impl NamespaceRange {
    /// The bytes from `position` on, a multiple of 4,096. `name`: what errors call them.
    ///
    /// # Errors
    /// [`FileError::Range`] if they do not lie inside the namespace, or begin elsewhere.
    pub fn new(drive: &Drive, name: &str, position: u64, length_bytes: u64) -> Result<Self, FileError> {
        let namespace = drive.namespace();
        let bytes = namespace.blocks * namespace.block_bytes();
        let end = position.checked_add(length_bytes);
        if end.is_none_or(|end| end > bytes) || !position.is_multiple_of(GRAIN_BYTES) {
            return Err(FileError::Range {
                name: format!("{}: {name}", drive.name()),
                length_bytes: bytes,
                start: position,
                end: end.unwrap_or(u64::MAX),
            });
        }
        Ok(Self {
            drive: drive.clone(),
            name: name.to_owned(),
            position,
            length_bytes,
        })
    }

    /// The bytes of a file of the drive.
    ///
    /// # Errors
    /// As [`new`](Self::new): a damaged directory.
    pub fn of_file(drive: &Drive, entry: &FileEntry) -> Result<Self, FileError> {
        Self::new(drive, &entry.name, entry.position, entry.length_bytes)
    }

    /// The controller.
    pub fn controller(&self) -> &Arc<Mutex<Device>> {
        self.drive.device()
    }

    /// The number of the namespace.
    pub fn nsid(&self) -> u32 {
        self.drive.namespace().nsid
    }

    /// log2 of the bytes of a block.
    pub fn lba_log2(&self) -> u32 {
        self.drive.namespace().format.lba_log2.into()
    }

    /// Position of the first byte in the namespace.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Number of bytes.
    pub fn length_bytes(&self) -> u64 {
        self.length_bytes
    }

    /// Drive and name, for errors.
    pub fn describe(&self) -> String {
        format!("{}: {}", self.drive.name(), self.name)
    }
}
