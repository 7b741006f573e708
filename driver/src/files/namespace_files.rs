//! [`NamespaceFiles`]: the directory of files of a namespace, and its changes.

use std::io::{ErrorKind, Read};
use std::ops::ControlFlow;
use std::time::SystemTime;

use uuid::Uuid;

use super::block_channel::BlockChannel;
use super::checksum::ContentChecksums;
use super::directory::{Directory, FileEntry, MAX_FILE_BYTES, check_name, extent_bytes};
use super::directory_copies::DirectoryCopies;
use super::drive::Drive;
use super::file_error::FileError;
use super::foreign_data::Finding;
use super::free_space::FreeSpace;
use super::layout::{GRAIN_BYTES, Layout};
use super::verification::{self, Difference, Verified};
use crate::error::DriverError;

/// Gets the bytes that were moved since the last call. `Break` ends the operation.
pub type Progress<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// The files of a namespace. One value changes a namespace at a time: VFIO gives a controller to one process.
#[derive(Debug)]
pub struct NamespaceFiles {
    /// Before the drive: a queue ends before its controller.
    channel: BlockChannel,
    copies: DirectoryCopies,
    drive: Drive,
}

fn now_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

impl NamespaceFiles {
    /// What the namespace holds where signatures lie, in words; `None`: zeros.
    ///
    /// # Errors
    /// The controller's.
    pub fn contents(drive: &Drive) -> Result<Option<String>, FileError> {
        let found = Finding::search(&mut drive.channel()?);
        let found = found.map_err(|source| drive.failed("looking for data", source))?;
        Ok(found.map(|finding| finding.describe()))
    }

    /// Makes an empty directory on a namespace. Everything that the namespace held is lost.
    ///
    /// # Errors
    /// [`FileError::NotEmpty`] unless `erase` is set: a signature or a byte that is not zero in the first or last MiB.
    /// [`FileError::Namespace`] for a namespace that is too small, or with long blocks; the controller's.
    pub fn initialize(drive: Drive, erase: bool) -> Result<Self, FileError> {
        let mut channel = drive.channel()?;
        let (blocks, block_bytes) = (drive.namespace().blocks, drive.namespace().block_bytes());
        let layout = Layout::new(block_bytes, blocks * block_bytes, now_seconds());
        let layout = layout.map_err(|reason| FileError::Namespace {
            drive: drive.name().to_owned(),
            reason,
        })?;
        if !erase {
            let found = Finding::search(&mut channel);
            if let Some(finding) = found.map_err(|source| drive.failed("looking for data", source))? {
                return Err(FileError::NotEmpty {
                    drive: drive.name().to_owned(),
                    found: finding.describe(),
                });
            }
        }
        let copies = DirectoryCopies::create(&drive, &mut channel, layout)?;
        Ok(Self { drive, channel, copies })
    }

    /// Reads the directory of a namespace. Writes nothing.
    ///
    /// # Errors
    /// [`FileError::NoDirectory`], [`FileError::Damaged`], or the controller's.
    pub fn open(drive: Drive) -> Result<Self, FileError> {
        let mut channel = drive.channel()?;
        let copies = DirectoryCopies::read(&drive, &mut channel)?;
        Ok(Self { drive, channel, copies })
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The number that this directory got at its initialization.
    pub fn uuid(&self) -> Uuid {
        self.copies.layout.uuid
    }

    /// The files, by position.
    pub fn entries(&self) -> &[FileEntry] {
        &self.copies.directory.entries
    }

    /// The file of a name.
    ///
    /// # Errors
    /// [`FileError::NotFound`].
    pub fn entry(&self, name: &str) -> Result<&FileEntry, FileError> {
        let found = self.copies.directory.find(name);
        found.ok_or_else(|| FileError::NotFound {
            drive: self.drive.name().to_owned(),
            name: name.to_owned(),
        })
    }

    /// Bytes for files in all, and those that are free.
    pub fn space(&self) -> (u64, u64) {
        let data = self.copies.layout.data();
        let free = FreeSpace::of(&self.copies.layout, self.entries());
        (data.end - data.start, free.bytes().0)
    }

    /// Copies of header or directory that are damaged or older than the others, in words. The next change writes them
    /// again.
    pub fn damages(&self) -> Vec<String> {
        self.copies.damages()
    }

    /// Stores a file of `length_bytes` bytes, which `source` gives, and reads it back. The name leads to the file when
    /// this returns, and after any interruption it leads to the whole file or to none. `progress` gets the bytes
    /// written and the bytes read back: twice the length in all.
    ///
    /// # Errors
    /// A name that cannot be stored or is taken, no room for the file, a source of another length, bytes that come
    /// back changed, or the controller's.
    pub fn load(
        &mut self,
        name: &str,
        length_bytes: u64,
        source: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<FileEntry, FileError> {
        let position = self.place_for(name, length_bytes)?;
        self.copies.repair(&self.drive, &mut self.channel)?;
        let checksums = self.write_content(name, position, length_bytes, source, progress)?;
        let units = checksums.units.len().next_multiple_of(GRAIN_BYTES as usize);
        let (checksum, units_checksum) = checksums.digest();
        let entry = FileEntry {
            name: name.to_owned(),
            position,
            length_bytes,
            checksum,
            units_checksum,
            loaded_seconds: now_seconds(),
            id: Uuid::new_v4(),
        };
        let mut stored_units = checksums.units;
        stored_units.resize(units, 0);
        let written = self.channel.write_at(entry.units_at(), &stored_units);
        written
            .and_then(|()| self.channel.flush())
            .map_err(|source| self.drive.failed(format!("writing {name}"), source))?;
        self.read_back(&entry, progress)?;
        let mut entries = self.entries().to_vec();
        let at = entries.partition_point(|other| other.position < entry.position);
        entries.insert(at, entry.clone());
        self.copies.replace(&self.drive, &mut self.channel, entries)?;
        Ok(entry)
    }

    /// Checks name and length, and returns a position with room.
    fn place_for(&self, name: &str, length_bytes: u64) -> Result<u64, FileError> {
        check_name(name)?;
        let drive = || self.drive.name().to_owned();
        let full = |reason: String| FileError::Full {
            drive: drive(),
            name: name.to_owned(),
            reason,
        };
        if self.copies.directory.find(name).is_some() {
            return Err(FileError::Exists {
                drive: drive(),
                name: name.to_owned(),
            });
        }
        if length_bytes == 0 {
            let reason = "belongs to an empty file, and those are not stored".to_owned();
            let name = name.to_owned();
            return Err(FileError::Name { name, reason });
        }
        let capacity = Directory::capacity(&self.copies.layout);
        if self.entries().len() >= capacity {
            return Err(full(format!("its directory holds {capacity} files, and all are there")));
        }
        let free = FreeSpace::of(&self.copies.layout, self.entries());
        let (free_bytes, longest) = free.bytes();
        let needed = extent_bytes(length_bytes.min(MAX_FILE_BYTES));
        free.best_fit(needed).ok_or_else(|| {
            full(format!(
                "{needed} bytes in one run are needed, {free_bytes} are free, and the longest run has {longest}"
            ))
        })
    }

    /// Writes the content from its source.
    fn write_content(
        &mut self,
        name: &str,
        position: u64,
        length_bytes: u64,
        source: &mut dyn Read,
        progress: Progress<'_>,
    ) -> Result<ContentChecksums, FileError> {
        let drive = &self.drive;
        let mut checksums = ContentChecksums::default();
        let mut left = length_bytes;
        let stored_bytes = length_bytes.next_multiple_of(GRAIN_BYTES);
        let mut fill = |out: &mut [u8]| {
            let content = left.min(out.len() as u64);
            let (content, padding) = out.split_at_mut(content as usize);
            source
                .read_exact(content)
                .map_err(|error| Stop::Source(shorter(error)))?;
            padding.fill(0);
            checksums.add(content);
            left -= content.len() as u64;
            match progress(content.len() as u64) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(Stop::Ended),
            }
        };
        let written = self.channel.write(position, stored_bytes, &mut fill);
        let name = || name.to_owned();
        written.map_err(|stop| match stop {
            Stop::Driver(source) => drive.failed(format!("writing {}", name()), source),
            Stop::Source(source) => FileError::Source { name: name(), source },
            Stop::Ended => FileError::Ended { name: name() },
        })?;
        match source.read(&mut [0]) {
            Ok(0) => Ok(checksums),
            Ok(_) => Err(FileError::Source {
                name: name(),
                source: changed("grew"),
            }),
            Err(source) => Err(FileError::Source { name: name(), source }),
        }
    }

    /// Compares what the drive returns with the checksums of what was written.
    fn read_back(&mut self, entry: &FileEntry, progress: Progress<'_>) -> Result<(), FileError> {
        let name = || entry.name.clone();
        let verified = verification::verify(&mut self.channel, entry, progress);
        let verified = verified.map_err(|source| self.drive.failed(format!("reading back {}", name()), source))?;
        let lba = match verified.ok_or_else(|| FileError::Ended { name: name() })?.difference {
            None => return Ok(()),
            Some(Difference::Content { lba, .. } | Difference::Checksums { lba }) => lba,
            Some(Difference::Unreadable(reason)) => {
                return Err(FileError::Namespace {
                    drive: self.drive.name().to_owned(),
                    reason: format!("{} cannot be read back: {reason}", name()),
                });
            }
        };
        Err(FileError::Content {
            drive: self.drive.name().to_owned(),
            name: name(),
            lba,
        })
    }

    /// Takes a file out of the directory. Its bytes stay until other files take their place.
    ///
    /// # Errors
    /// [`FileError::NotFound`], or the controller's.
    pub fn remove(&mut self, name: &str) -> Result<FileEntry, FileError> {
        let entry = self.entry(name)?.clone();
        let entries = self.entries().iter().filter(|other| other.name != name);
        let entries = entries.cloned().collect();
        self.copies.replace(&self.drive, &mut self.channel, entries)?;
        Ok(entry)
    }

    /// Reads all bytes of a file, and compares them with their checksums. `progress` gets the bytes read.
    ///
    /// # Errors
    /// [`FileError::NotFound`], [`FileError::Ended`], or a failure of the controller. A command that fails is a
    /// [`Difference`].
    pub fn verify(&mut self, name: &str, progress: Progress<'_>) -> Result<Verified, FileError> {
        let entry = self.entry(name)?.clone();
        let verified = verification::verify(&mut self.channel, &entry, progress);
        let verified = verified.map_err(|source| self.drive.failed(format!("reading {name}"), source))?;
        verified.ok_or_else(|| FileError::Ended { name: name.to_owned() })
    }

    /// Ends the changes, and gives the drive, the files and the first queue to a reader.
    pub(super) fn into_parts(self) -> (Drive, Vec<FileEntry>, BlockChannel) {
        (self.drive, self.copies.directory.entries, self.channel)
    }
}

/// Why a write of content stopped.
enum Stop {
    Driver(DriverError),
    Source(std::io::Error),
    Ended,
}

impl From<DriverError> for Stop {
    fn from(error: DriverError) -> Self {
        Self::Driver(error)
    }
}

fn shorter(error: std::io::Error) -> std::io::Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => changed("shrank"),
        _ => error,
    }
}

fn changed(how: &str) -> std::io::Error {
    std::io::Error::other(format!("the file {how} while it was loaded; load it again"))
}
