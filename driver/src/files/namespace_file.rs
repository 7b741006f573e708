//! [`NamespaceFile`]: one file of a namespace, as it was when its directory was read.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use super::directory::FileEntry;
use super::file_error::FileError;
use super::file_reader::FileReader;
use super::namespace_range::NamespaceRange;
use crate::error::StorageError;
use crate::host::Device;
use crate::spec::StatusCode;
use crate::storage::{Channel, ImmediateChannel, Storage, namespace_bytes};

/// A file of a namespace. Clones share its queues.
#[derive(Clone)]
pub struct NamespaceFile {
    reader: Arc<FileReader>,
    entry: FileEntry,
}

impl NamespaceFile {
    /// The file of a name; `None`: there is none.
    pub fn open(reader: &Arc<FileReader>, name: &str) -> Option<Self> {
        let entry = reader.entry(name)?.clone();
        Some(Self {
            reader: reader.clone(),
            entry,
        })
    }

    /// What the directory says of it.
    pub fn entry(&self) -> &FileEntry {
        &self.entry
    }

    /// Its drive's controller.
    pub fn controller(&self) -> &Arc<Mutex<Device>> {
        self.reader.drive().device()
    }

    /// Reads bytes from `offset` on. Waits for the commands.
    ///
    /// # Errors
    /// As [`FileReader::read`].
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), FileError> {
        self.reader.read_at(&self.entry, offset, out)
    }

    /// Its bytes, for queues that another agent drives.
    ///
    /// # Errors
    /// As [`NamespaceRange::new`]: a damaged directory.
    pub fn range(&self) -> Result<NamespaceRange, FileError> {
        NamespaceRange::of_file(self.reader.drive(), &self.entry)
    }
}

/// A storage of the software controller, which reads through the drive's queues.
impl Storage for NamespaceFile {
    fn describe(&self) -> String {
        format!("{self:?}")
    }

    fn size_bytes(&self) -> u64 {
        namespace_bytes(self.entry.length_bytes)
    }

    fn channel(&self, depth: u32) -> Result<Box<dyn Channel>, StorageError> {
        let file = self.clone();
        Ok(Box::new(ImmediateChannel::new(depth, move |offset, out: &mut [u8]| {
            let there = file.entry.length_bytes.saturating_sub(offset).min(out.len() as u64);
            let (bytes, behind) = out.split_at_mut(there as usize);
            behind.fill(0);
            file.read_at(offset, bytes).map_err(|error| StorageError {
                storage: file.describe(),
                offset,
                length: there,
                reason: error.to_string(),
                code: StatusCode::UnrecoveredReadError,
            })
        })))
    }
}

/// The same load of a file, by the same opening of its drive.
impl PartialEq for NamespaceFile {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.reader, &other.reader) && self.entry.id == other.entry.id
    }
}

impl Eq for NamespaceFile {}

impl Hash for NamespaceFile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entry.id.hash(state);
    }
}

impl fmt::Debug for NamespaceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reader.drive().name(), self.entry.name)
    }
}
