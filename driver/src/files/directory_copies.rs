//! [`DirectoryCopies`]: the directory of a namespace, and the two places where it is stored.
//!
//! A change of the directory:
//!
//! ```text
//! both copies hold generation n
//!   new content lies in space that is free in n, and is flushed
//!   copy 0 := n + 1, flush      (power loss: copy 0 is n, torn or n + 1; copy 1 is n)
//!   copy 1 := n + 1, flush      (power loss: copy 0 is n + 1; copy 1 is n, torn or n + 1)
//! both copies hold generation n + 1
//! ```
//!
//! **Invariant:** no content is written, and no change begins, while the copies differ: [`repair`] comes first. So if
//! one copy is lost at any time, the files that the other one lists are whole.
//!
//! [`repair`]: DirectoryCopies::repair

use super::block_channel::BlockChannel;
use super::directory::{Directory, FileEntry};
use super::drive::Drive;
use super::file_error::FileError;
use super::foreign_data::{Finding, SEARCHED_BYTES, foreign_signature};
use super::layout::{HEADER_BYTES, HeaderError, Layout, header_at};
use crate::error::DriverError;

/// The directory, and what its stored copies lack.
#[derive(Debug)]
pub(super) struct DirectoryCopies {
    pub(super) layout: Layout,
    pub(super) directory: Directory,
    /// The copy of the header that is damaged, and how.
    bad_header: Option<(usize, String)>,
    /// The copy of the directory that is damaged or older, and how.
    bad_copy: Option<(usize, String)>,
}

impl DirectoryCopies {
    /// Reads what the namespace holds, and writes nothing.
    pub(super) fn read(drive: &Drive, channel: &mut BlockChannel) -> Result<Self, FileError> {
        let (layout, bad_header) = read_header(drive, channel)?;
        let [first, second] = [0, 1].map(|copy| read_copy(drive, channel, &layout, copy));
        let (directory, bad_copy) = match (first?, second?) {
            (Ok(first), Ok(second)) if first == second => (first, None),
            (Ok(first), Ok(second)) if first.generation == second.generation => {
                let reason = format!("its two copies of generation {} differ", first.generation);
                return Err(damaged(drive, reason));
            }
            (Ok(first), Ok(second)) => {
                let older = |copy: usize| Some((copy, "it is older: a change was interrupted".to_owned()));
                match first.generation > second.generation {
                    true => (first, older(1)),
                    false => (second, older(0)),
                }
            }
            (Ok(first), Err(reason)) => (first, Some((1, reason))),
            (Err(reason), Ok(second)) => (second, Some((0, reason))),
            (Err(first), Err(second)) => {
                let lba = |copy| layout.lba(layout.directory_at(copy));
                let reason = format!("at LBA {}, {first}; at LBA {}, {second}", lba(0), lba(1));
                return Err(damaged(drive, reason));
            }
        };
        Ok(Self {
            layout,
            directory,
            bad_header,
            bad_copy,
        })
    }

    /// Makes an empty directory. What the namespace holds is lost. The namespace is one of ours when the last write,
    /// that of header 0, is durable.
    pub(super) fn create(drive: &Drive, channel: &mut BlockChannel, layout: Layout) -> Result<Self, FileError> {
        let failed = |source: DriverError| drive.failed("initializing the namespace", source);
        let length = layout.namespace_bytes;
        // First the headers: an old directory must not be found beside a half of the new one.
        for copy in [0, 1] {
            channel
                .write_zeros(layout.header_at(copy), HEADER_BYTES as u64)
                .map_err(failed)?;
        }
        channel.flush().map_err(failed)?;
        let searched = SEARCHED_BYTES.min(length);
        for start in [0, length - searched] {
            channel.write_zeros(start, searched).map_err(failed)?;
        }
        channel.flush().map_err(failed)?;
        let directory = Directory {
            generation: 1,
            entries: Vec::new(),
        };
        for copy in [0, 1] {
            channel
                .write_at(layout.directory_at(copy), &directory.encode(&layout))
                .map_err(failed)?;
        }
        channel.flush().map_err(failed)?;
        for copy in [1, 0] {
            channel
                .write_at(layout.header_at(copy), &layout.encode(copy))
                .map_err(failed)?;
            channel.flush().map_err(failed)?;
        }
        Ok(Self {
            layout,
            directory,
            bad_header: None,
            bad_copy: None,
        })
    }

    /// What is damaged and will be written again with the next change, in words.
    pub(super) fn damages(&self) -> Vec<String> {
        let header = self.bad_header.iter().map(|(copy, reason)| {
            let lba = self.layout.lba(self.layout.header_at(*copy));
            format!("copy {copy} of the header, at LBA {lba}: {reason}")
        });
        let directory = self.bad_copy.iter().map(|(copy, reason)| {
            let lba = self.layout.lba(self.layout.directory_at(*copy));
            format!("copy {copy} of the directory, at LBA {lba}: {reason}")
        });
        header.chain(directory).collect()
    }

    /// Writes the damaged or older copies again. Nothing to do is the usual case.
    pub(super) fn repair(&mut self, drive: &Drive, channel: &mut BlockChannel) -> Result<(), FileError> {
        if let Some((copy, _)) = self.bad_copy {
            self.store(channel, copy)
                .map_err(|source| drive.failed(format!("repairing copy {copy} of the directory"), source))?;
            self.bad_copy = None;
        }
        if let Some((copy, _)) = self.bad_header {
            let stored = channel.write_at(self.layout.header_at(copy), &self.layout.encode(copy));
            stored
                .and_then(|()| channel.flush())
                .map_err(|source| drive.failed(format!("repairing copy {copy} of the header"), source))?;
            self.bad_header = None;
        }
        Ok(())
    }

    /// Replaces the directory by one of these entries. Their content is durable.
    ///
    /// # Errors
    /// A failed write or flush; the text says whether the change holds.
    pub(super) fn replace(
        &mut self,
        drive: &Drive,
        channel: &mut BlockChannel,
        entries: Vec<FileEntry>,
    ) -> Result<(), FileError> {
        self.repair(drive, channel)?;
        let generation = self.directory.generation + 1;
        let old = std::mem::replace(&mut self.directory, Directory { generation, entries });
        if let Err(source) = self.store(channel, 0) {
            self.directory = old;
            self.bad_copy = Some((0, "a write failed".to_owned()));
            return Err(drive.failed("changing the directory (the change may hold or not)", source));
        }
        self.store(channel, 1).map_err(|source| {
            self.bad_copy = Some((1, "a write failed".to_owned()));
            drive.failed("storing the second copy of the directory (the change holds)", source)
        })
    }

    /// Stores a copy, and makes it durable.
    fn store(&self, channel: &mut BlockChannel, copy: usize) -> Result<(), DriverError> {
        channel.write_at(self.layout.directory_at(copy), &self.directory.encode(&self.layout))?;
        channel.flush()
    }
}

fn damaged(drive: &Drive, reason: String) -> FileError {
    FileError::Damaged {
        drive: drive.name().to_owned(),
        reason,
    }
}

/// The layout, and the copy of the header that is damaged.
///
/// Header 1 stands in for a damaged header 0 only if nothing else was written over the start: the rest of header 0 is
/// there, and no program has left its signature.
fn read_header(drive: &Drive, channel: &mut BlockChannel) -> Result<(Layout, Option<(usize, String)>), FileError> {
    let (blocks, block_bytes) = (drive.namespace().blocks, drive.namespace().block_bytes());
    let namespace_bytes = blocks * block_bytes;
    let failed = |source| drive.failed("reading the header", source);
    let no_directory = |found: String| FileError::NoDirectory {
        drive: drive.name().to_owned(),
        found,
    };
    if namespace_bytes < 2 * HEADER_BYTES as u64 {
        return Err(no_directory(format!("it has {namespace_bytes} bytes")));
    }
    let mut header = |copy: usize| {
        let mut bytes = vec![0; HEADER_BYTES];
        let read = channel.read_at(header_at(namespace_bytes, copy), &mut bytes);
        read.map(|()| (Layout::decode(&bytes, copy), bytes))
    };
    let (first, _) = header(0).map_err(failed)?;
    let (layout, bad) = match first {
        Ok(layout) => {
            let bad = match header(1) {
                Ok((Ok(second), _)) if second == layout => None,
                Ok((Ok(_), _)) => Some("it belongs to another directory".to_owned()),
                Ok((Err(reason), _)) => Some(reason.to_string()),
                Err(error @ DriverError::Command { .. }) => Some(error.to_string()),
                Err(error) => return Err(failed(error)),
            };
            (layout, bad.map(|reason| (1, reason)))
        }
        Err(HeaderError::NoMagic) => {
            let found = Finding::search(channel).map_err(failed)?;
            return Err(no_directory(match found {
                Some(finding) => finding.describe(),
                None => "it is empty".to_owned(),
            }));
        }
        Err(reason @ HeaderError::Version(_)) => return Err(damaged(drive, format!("header: {reason}"))),
        Err(reason) => {
            let second = header(1).map_err(failed)?.0;
            let mut start = vec![0; SEARCHED_BYTES.min(namespace_bytes) as usize];
            channel.read_at(0, &mut start).map_err(failed)?;
            if let Some((position, what)) = foreign_signature(&start) {
                let finding = Finding {
                    signature: Some(what),
                    lba: position / block_bytes,
                };
                return Err(no_directory(finding.describe()));
            }
            let layout = second.map_err(|second| {
                let lba = header_at(namespace_bytes, 1) / block_bytes;
                damaged(drive, format!("header at LBA 0: {reason}; at LBA {lba}: {second}"))
            })?;
            (layout, Some((0, reason.to_string())))
        }
    };
    let whole = namespace_bytes / HEADER_BYTES as u64 * HEADER_BYTES as u64;
    if (layout.block_bytes, layout.namespace_bytes) != (block_bytes, whole) {
        let reason = format!(
            "it was made for {} bytes in blocks of {}, and the namespace has {whole} in blocks of {block_bytes}",
            layout.namespace_bytes, layout.block_bytes
        );
        return Err(damaged(drive, reason));
    }
    Ok((layout, bad))
}

/// A copy of the directory, or what is wrong with it. A block that the drive cannot read is damage like any other. A
/// controller that does not answer says nothing about the copy.
fn read_copy(
    drive: &Drive,
    channel: &mut BlockChannel,
    layout: &Layout,
    copy: usize,
) -> Result<Result<Directory, String>, FileError> {
    let mut bytes = vec![0; layout.directory_bytes as usize];
    match channel.read_at(layout.directory_at(copy), &mut bytes) {
        Ok(()) => Ok(Directory::decode(&bytes, layout)),
        Err(error @ DriverError::Command { .. }) => Ok(Err(error.to_string())),
        Err(error) => Err(drive.failed(format!("reading copy {copy} of the directory"), error)),
    }
}
