//! [`Layout`]: the regions of a namespace, and the header that describes them.
//!
//! ```text
//! byte 0      4,096           4,096 + D             N - 4,096 - D         N - 4,096      N
//! | header 0  | directory 0   | files ...           | directory 1         | header 1     |
//! ```
//!
//! The two copies lie at the two ends, where partition tables and file systems put their signatures. A program that
//! writes those damages header 0, and the namespace is no directory of ours any more.

use std::ops::Range;

use uuid::Uuid;

use super::checksum::structure_checksum;

/// Regions begin and end at multiples of this many bytes, whatever the block.
pub(super) const GRAIN_BYTES: u64 = 4096;
/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = GRAIN_BYTES as usize;
/// First bytes of a header.
pub(super) const HEADER_MAGIC: &[u8; 8] = b"GRAMPNVM";
/// The version of the format.
const VERSION: u32 = 1;
/// Offset of a header's checksum.
const CHECKSUM_AT: usize = HEADER_BYTES - 8;
/// Least and most bytes of a copy of the directory: 31 and 2,047 files.
const MIN_DIRECTORY_BYTES: u64 = 16 << 10;
const MAX_DIRECTORY_BYTES: u64 = 1 << 20;

/// The regions of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a logical block.
    pub(super) block_bytes: u64,
    /// Bytes of the namespace, whole grains.
    pub(super) namespace_bytes: u64,
    /// Bytes of a copy of the directory.
    pub(super) directory_bytes: u64,
    /// Number of this directory of files, new at each initialization.
    pub(super) uuid: Uuid,
    /// Seconds since 1970 of the initialization.
    pub(super) created: u64,
}

impl Layout {
    /// The layout of a fresh namespace. The error says what it lacks.
    pub(super) fn new(block_bytes: u64, namespace_bytes: u64, created: u64) -> Result<Self, String> {
        if block_bytes > GRAIN_BYTES {
            return Err(format!(
                "blocks of {block_bytes} bytes are too long: format it with blocks of 512 or 4,096 bytes"
            ));
        }
        let namespace_bytes = namespace_bytes / GRAIN_BYTES * GRAIN_BYTES;
        let wanted = (namespace_bytes / 1024).next_multiple_of(GRAIN_BYTES);
        let layout = Self {
            block_bytes,
            namespace_bytes,
            directory_bytes: wanted.clamp(MIN_DIRECTORY_BYTES, MAX_DIRECTORY_BYTES),
            uuid: Uuid::new_v4(),
            created,
        };
        let least = 2 * (layout.directory_bytes + GRAIN_BYTES) + GRAIN_BYTES;
        match namespace_bytes >= least {
            true => Ok(layout),
            false => Err(format!(
                "{namespace_bytes} bytes are too few: a directory of files needs {least}"
            )),
        }
    }

    /// Position of a copy of the header.
    pub(super) fn header_at(&self, copy: usize) -> u64 {
        header_at(self.namespace_bytes, copy)
    }

    /// Position of a copy of the directory.
    pub(super) fn directory_at(&self, copy: usize) -> u64 {
        match copy {
            0 => GRAIN_BYTES,
            _ => self.data().end,
        }
    }

    /// Where files lie.
    pub(super) fn data(&self) -> Range<u64> {
        let around = GRAIN_BYTES + self.directory_bytes;
        around..self.namespace_bytes - around
    }

    /// The block at a position.
    pub(super) fn lba(&self, position: u64) -> u64 {
        position / self.block_bytes
    }

    /// The bytes of a copy of the header.
    pub(super) fn encode(&self, copy: usize) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, HEADER_MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(self.block_bytes as u32).to_le_bytes());
        put(16, self.uuid.as_bytes());
        put(32, &self.namespace_bytes.to_le_bytes());
        put(40, &self.directory_bytes.to_le_bytes());
        put(48, &self.created.to_le_bytes());
        put(56, &(copy as u32).to_le_bytes());
        let checksum = structure_checksum(&bytes, CHECKSUM_AT);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The layout that a copy of the header describes. The error says what is wrong.
    pub(super) fn decode(bytes: &[u8], copy: usize) -> Result<Self, HeaderError> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if !bytes.starts_with(HEADER_MAGIC) {
            return Err(HeaderError::NoMagic);
        }
        if long(CHECKSUM_AT) != structure_checksum(bytes, CHECKSUM_AT) {
            return Err(HeaderError::Checksum);
        }
        if word(8) != VERSION {
            return Err(HeaderError::Version(word(8)));
        }
        let layout = Self {
            block_bytes: u64::from(word(12)),
            namespace_bytes: long(32),
            directory_bytes: long(40),
            uuid: Uuid::from_bytes(bytes[16..32].try_into().unwrap_or_default()),
            created: long(48),
        };
        let whole = |bytes: u64| bytes.is_multiple_of(GRAIN_BYTES);
        let is_block = layout.block_bytes.is_power_of_two() && (512..=GRAIN_BYTES).contains(&layout.block_bytes);
        let fits = (MIN_DIRECTORY_BYTES..=MAX_DIRECTORY_BYTES).contains(&layout.directory_bytes)
            && whole(layout.directory_bytes)
            && whole(layout.namespace_bytes)
            && layout.namespace_bytes >= 2 * (layout.directory_bytes + GRAIN_BYTES) + GRAIN_BYTES;
        match is_block && fits && word(56) as usize == copy {
            true => Ok(layout),
            false => Err(HeaderError::Fields),
        }
    }
}

/// Position of a copy of the header in a namespace of so many bytes.
pub(super) fn header_at(namespace_bytes: u64, copy: usize) -> u64 {
    match copy {
        0 => 0,
        _ => namespace_bytes / GRAIN_BYTES * GRAIN_BYTES - GRAIN_BYTES,
    }
}

/// What is wrong with a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum HeaderError {
    #[error("there is no header")]
    NoMagic,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("its version is {0}, and this program reads version {VERSION}")]
    Version(u32),
    #[error("its sizes fit no namespace")]
    Fields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_is_read_as_written_and_any_changed_byte_is_noticed() {
        let layout = Layout::new(512, (4 << 20) + 512, 1_700_000_000).unwrap();
        assert_eq!(layout.namespace_bytes, 4 << 20);
        assert_eq!(layout.data(), 20_480..(4 << 20) - 20_480);
        for copy in [0, 1] {
            let bytes = layout.encode(copy);
            assert_eq!(Layout::decode(&bytes, copy), Ok(layout));
            assert_eq!(Layout::decode(&bytes, 1 - copy), Err(HeaderError::Fields));
            for at in 0..HEADER_BYTES {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert!(Layout::decode(&changed, copy).is_err(), "byte {at}");
            }
        }
    }

    #[test]
    fn namespaces_that_are_too_small_or_have_long_blocks_are_refused() {
        assert!(Layout::new(512, 44 << 10, 0).is_ok());
        assert!(Layout::new(512, 40 << 10, 0).unwrap_err().contains("needs 45056"));
        assert!(Layout::new(8192, 1 << 30, 0).unwrap_err().contains("512 or 4,096"));
        assert_eq!(Layout::new(4096, 1 << 40, 0).unwrap().directory_bytes, 1 << 20);
    }
}
