//! [`Verified`]: the bytes of a file, read back and compared with its checksums.

use std::fmt;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::Xxh3;

use super::block_channel::{BlockChannel, ReadPiece};
use super::checksum::{UNIT_BYTES, UNIT_CHECKSUM_BYTES, unit_checksums};
use super::directory::FileEntry;
use crate::error::DriverError;

/// Content that is read at a time. Its unit checksums are 4 KiB.
const WINDOW_BYTES: u64 = 4 << 20;

/// The result for one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The file.
    pub name: String,
    /// Its bytes.
    pub length_bytes: u64,
    /// The first difference; `None`: all bytes are those that were loaded.
    pub difference: Option<Difference>,
}

/// The first difference between a file's bytes and its checksums.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Content differs in these blocks.
    Content {
        /// The first block of the 4 KiB that differ.
        lba: u64,
        /// Number of blocks.
        blocks: u64,
        /// Position of these bytes in the file.
        offset_bytes: u64,
    },
    /// The content is right; the stored unit checksums are not.
    Checksums {
        /// Their first block.
        lba: u64,
    },
    /// A command failed; the text names its blocks.
    Unreadable(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Content {
                lba,
                blocks: 1,
                offset_bytes,
            } => {
                write!(
                    f,
                    "LBA {lba} (byte {offset_bytes} of the file) differs from what was loaded"
                )
            }
            Self::Content {
                lba,
                blocks,
                offset_bytes,
            } => {
                let last = lba + blocks - 1;
                write!(
                    f,
                    "LBA {lba} to {last} (byte {offset_bytes} of the file) differ from what was loaded"
                )
            }
            Self::Checksums { lba } => write!(
                f,
                "the content is right, and its checksums from LBA {lba} on are damaged"
            ),
            Self::Unreadable(error) => f.write_str(error),
        }
    }
}

/// Reads a whole file. `progress` gets the bytes that were read since the last call, and may end it: `None` then.
pub(super) fn verify(
    channel: &mut BlockChannel,
    entry: &FileEntry,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<Option<Verified>, DriverError> {
    let (mut content_hash, mut units_hash) = (Xxh3::new(), Xxh3::new());
    let mut first_unit = None;
    let mut done = 0;
    let verified = |difference| Verified {
        name: entry.name.clone(),
        length_bytes: entry.length_bytes,
        difference,
    };
    while done < entry.length_bytes {
        let length = WINDOW_BYTES.min(entry.length_bytes - done);
        let mut content = vec![0; length as usize];
        let mut units = vec![0; (length.div_ceil(UNIT_BYTES) * UNIT_CHECKSUM_BYTES) as usize];
        let read = channel.read(&mut [
            ReadPiece {
                position: entry.position + done,
                out: &mut content,
            },
            ReadPiece {
                position: entry.units_at() + done / UNIT_BYTES * UNIT_CHECKSUM_BYTES,
                out: &mut units,
            },
        ]);
        match read {
            Err(error @ DriverError::Command { .. }) => {
                return Ok(Some(verified(Some(Difference::Unreadable(error.to_string())))));
            }
            other => other?,
        }
        content_hash.update(&content);
        units_hash.update(&units);
        let stored = units
            .chunks_exact(4)
            .map(|unit| u32::from_le_bytes(unit.try_into().unwrap_or_default()));
        let differs = unit_checksums(&content)
            .zip(stored)
            .position(|(found, stored)| found != stored);
        first_unit = first_unit.or(differs.map(|unit| done / UNIT_BYTES + unit as u64));
        done += length;
        if progress(length).is_break() {
            return Ok(None);
        }
    }
    let block_bytes = channel.namespace().block_bytes();
    let is_content_right = content_hash.digest() == entry.checksum;
    let are_units_right = units_hash.digest() == entry.units_checksum;
    let difference = match (is_content_right, are_units_right) {
        (true, true) => None,
        (true, false) => Some(Difference::Checksums {
            lba: entry.units_at() / block_bytes,
        }),
        (false, _) => {
            // With damaged unit checksums too, this is the first place of either kind.
            let offset_bytes = first_unit.unwrap_or(0) * UNIT_BYTES;
            Some(Difference::Content {
                lba: (entry.position + offset_bytes) / block_bytes,
                blocks: UNIT_BYTES / block_bytes,
                offset_bytes,
            })
        }
    };
    Ok(Some(verified(difference)))
}
