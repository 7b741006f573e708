//! [`FileReader`]: reads of a namespace's files from many threads, over several queues.
//!
//! A read takes a free queue, keeps up to eight commands in flight there, and gives the queue back. So as many reads
//! run at a time as there are queues, and others wait for their turn.
//!
//! A queue whose commands do not end is replaced by the next read. If the controller has failed, it is reset first. If
//! it has no queue left for this reader, which has lost all of its own, it is reset too. A read whose queue goes with a
//! reset is repeated once.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::block_channel::{BlockChannel, ReadPiece};
use super::directory::FileEntry;
use super::drive::Drive;
use super::file_error::FileError;
use super::namespace_files::NamespaceFiles;
use crate::error::DriverError;
use crate::host::Device;

/// Longest wait for a queue. Each read before this one is bounded by the timeouts of its commands.
const QUEUE_PATIENCE: Duration = Duration::from_secs(120);

/// The queues that no read has.
#[derive(Debug)]
struct Queues {
    free: Vec<BlockChannel>,
    /// Queues that work, free or not, and those that the reader began with.
    alive: usize,
    wanted: usize,
    /// Why the last queue failed.
    failure: Option<String>,
}

/// The files of a namespace, as they were when it was opened, for concurrent reads.
#[derive(Debug)]
pub struct FileReader {
    /// Before the drive: queues end before their controller.
    queues: Mutex<Queues>,
    returned: Condvar,
    /// By name.
    entries: Vec<FileEntry>,
    drive: Drive,
}

impl FileReader {
    /// A reader with up to `queues` queues; fewer if the controller grants fewer, or the memory is short.
    pub fn new(files: NamespaceFiles, queues: usize) -> Self {
        let (drive, mut entries, first) = files.into_parts();
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        let mut free = vec![first];
        while free.len() < queues {
            match drive.channel() {
                Ok(channel) => free.push(channel),
                Err(error) => {
                    log::debug!("{} of {queues} queues: {error}", free.len());
                    break;
                }
            }
        }
        let queues = Queues {
            alive: free.len(),
            wanted: free.len(),
            free,
            failure: None,
        };
        Self {
            queues: Mutex::new(queues),
            returned: Condvar::new(),
            entries,
            drive,
        }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The files, by name.
    pub fn entries(&self) -> &[FileEntry] {
        &self.entries
    }

    /// The file of a name.
    pub fn entry(&self, name: &str) -> Option<&FileEntry> {
        let at = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name));
        at.ok().map(|at| &self.entries[at])
    }

    /// The bytes of each range of a file, in the given order. Waits for the commands.
    ///
    /// # Errors
    /// [`FileError::Range`] for bytes outside the file; a failed command, with its LBA.
    pub fn read(&self, entry: &FileEntry, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>, FileError> {
        ranges.iter().try_for_each(|range| check_inside(entry, range))?;
        let mut read: Vec<Vec<u8>> = ranges
            .iter()
            .map(|range| vec![0; (range.end - range.start) as usize])
            .collect();
        let pieces = read.iter_mut().zip(ranges).map(|(out, range)| ReadPiece {
            position: entry.position + range.start,
            out,
        });
        let mut pieces: Vec<ReadPiece<'_>> = pieces.collect();
        self.read_pieces(entry, &mut pieces)?;
        Ok(read)
    }

    /// Reads bytes of a file from `offset` on. Waits for the commands.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_at(&self, entry: &FileEntry, offset: u64, out: &mut [u8]) -> Result<(), FileError> {
        check_inside(entry, &(offset..offset.saturating_add(out.len() as u64)))?;
        let position = entry.position + offset;
        self.read_pieces(entry, &mut [ReadPiece { position, out }])
    }

    fn read_pieces(&self, entry: &FileEntry, pieces: &mut [ReadPiece<'_>]) -> Result<(), FileError> {
        let mut is_second = false;
        loop {
            let mut channel = self.take(entry)?;
            let done = channel.read(pieces);
            self.give_back(channel, done.as_ref().err());
            match done {
                Ok(()) => return Ok(()),
                // The controller has failed, or was reset for another reader.
                Err(DriverError::QueueGone { .. } | DriverError::Fatal { .. }) if !is_second => {
                    is_second = true;
                    let recovered = self.recover(|device| device.recover());
                    recovered.map_err(|source| self.drive.failed("recovering", source))?;
                }
                Err(source) => return Err(self.drive.failed(format!("reading {}", entry.name), source)),
            }
        }
    }

    /// Locks the queues. Each change is one field or one push.
    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, entry: &FileEntry) -> Result<BlockChannel, FileError> {
        let stopped = |reason: String| FileError::Namespace {
            drive: self.drive.name().to_owned(),
            reason: format!("{} cannot be read: {reason}", entry.name),
        };
        let end = Instant::now() + QUEUE_PATIENCE;
        let mut has_tried = false;
        let mut queues = self.lock();
        loop {
            while let Some(channel) = queues.free.pop() {
                if !channel.has_failed() {
                    return Ok(channel);
                }
                queues.alive -= 1; // it has gone with a reset
            }
            if queues.alive < queues.wanted && !std::mem::replace(&mut has_tried, true) {
                queues.alive += 1; // the one that is made
                let is_last = queues.alive == 1;
                drop(queues);
                let made = self.replaced(is_last);
                queues = self.lock();
                match made {
                    Ok(channel) => return Ok(channel),
                    Err(error) => {
                        queues.alive -= 1;
                        queues.failure = Some(error.to_string());
                    }
                }
                continue;
            }
            if queues.alive == 0 {
                let failure = queues.failure.clone().unwrap_or_default();
                return Err(stopped(format!("the controller stopped answering: {failure}")));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(stopped(format!("no queue became free within {QUEUE_PATIENCE:?}")));
            }
            let waited = self.returned.wait_timeout(queues, left);
            queues = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A queue in place of one that was lost. `is_last`: the reader has no other.
    fn replaced(&self, is_last: bool) -> Result<BlockChannel, FileError> {
        let failed = |source| self.drive.failed("recovering", source);
        self.recover(|device| device.recover()).map_err(failed)?;
        let (drive, during, source) = match self.drive.channel() {
            Err(FileError::Device { drive, during, source }) => (drive, during, source),
            made => return made,
        };
        let recovered = self.recover(|device| match &source {
            // Queues whose commands do not end are not given back: they go with a reset.
            DriverError::NoQueue { .. } if is_last => device.reset().map(|()| true),
            error => device.recover_from(error),
        });
        match recovered.map_err(failed)? {
            true => self.drive.channel(),
            false => Err(FileError::Device { drive, during, source }),
        }
    }

    /// Recovers the controller. Whether it was reset: then the queues of before take no more commands.
    fn recover(&self, recover: impl FnOnce(&mut Device) -> Result<bool, DriverError>) -> Result<bool, DriverError> {
        recover(&mut self.drive.device().lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn give_back(&self, channel: BlockChannel, error: Option<&DriverError>) {
        let mut queues = self.lock();
        if channel.has_failed() {
            queues.alive -= 1;
            queues.failure = error.map(ToString::to_string);
        } else {
            queues.free.push(channel);
        }
        drop(queues);
        // With no queue left, every waiting read has to end.
        self.returned.notify_all();
    }
}

fn check_inside(entry: &FileEntry, range: &Range<u64>) -> Result<(), FileError> {
    match range.start <= range.end && range.end <= entry.length_bytes {
        true => Ok(()),
        false => Err(FileError::Range {
            name: entry.name.clone(),
            length_bytes: entry.length_bytes,
            start: range.start,
            end: range.end,
        }),
    }
}
