//! `Cache`: the cache in device memory, its size and its start state. Device code fills it (`device/cache.cuh`).

use std::ops::Range;

use crate::abi::{CacheDesc, CacheSet, LINE_BYTES, WAYS};
use crate::cuda::{Device, DeviceBuffer};
use crate::error::CudaError;

/// Size of the cache, and of what it fetches.
#[derive(Debug, Clone, Copy)]
pub struct CacheOptions {
    /// Device memory for lines and their metadata, in bytes; rounded down to whole groups of sets, at least one.
    pub bytes: u64,
    /// log2 of a sector's bytes, 7 … 12: what a miss fetches.
    pub sector_log2: u32,
    /// log2 of the lines of a group: the longest run that one command fills; 10 is 4 MiB.
    pub group_log2: u32,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self {
            bytes: 1 << 30,
            sector_log2: 9,
            group_log2: 10,
        }
    }
}

/// Bytes of metadata per line: tag, state, requested sectors. The ways of a set share the set's words.
const METADATA_BYTES: u64 = 8 + 8 + 4 + size_of::<CacheSet>() as u64 / WAYS as u64;

/// Number of groups of sets that fit.
fn groups(options: &CacheOptions) -> u32 {
    let group = (u64::from(WAYS) << options.group_log2) * (LINE_BYTES + METADATA_BYTES);
    (options.bytes / group).clamp(1, u64::from(u32::MAX >> (options.group_log2 + 3))) as u32
}

/// The cache's memory on the device.
#[derive(Debug)]
pub struct Cache {
    desc: CacheDesc,
    data: DeviceBuffer,
    tags: DeviceBuffer,
    /// States, then sets, then requested sectors.
    words: DeviceBuffer,
}

impl Cache {
    /// Allocates an empty cache.
    ///
    /// # Errors
    /// Options outside their ranges; out of device memory.
    pub fn new(device: &Device, options: CacheOptions) -> Result<Self, CudaError> {
        if !(7..=12).contains(&options.sector_log2) || options.group_log2 > 12 {
            return Err(CudaError::Arguments {
                kernel: "cache".to_owned(),
                reason: format!("{options:?} is out of range"),
            });
        }
        let groups = groups(&options);
        let set_count = groups << options.group_log2;
        let lines = u64::from(set_count) * u64::from(WAYS);
        let data = DeviceBuffer::new(device, (lines * LINE_BYTES) as usize)?;
        let tags = DeviceBuffer::filled(device, lines as usize * 8, 0xFF)?;
        let sets_at = lines * 8;
        let requested_at = sets_at + u64::from(set_count) * size_of::<CacheSet>() as u64;
        let words = DeviceBuffer::filled(device, (requested_at + lines * 4) as usize, 0)?;
        let desc = CacheDesc {
            data: data.address(),
            tags: tags.address(),
            state: words.address(),
            requested: words.address() + requested_at,
            sets: words.address() + sets_at,
            set_count,
            groups,
            group_log2: options.group_log2,
            sector_log2: options.sector_log2,
            zero: 0,
            pad0: 0,
        };
        Ok(Self {
            desc,
            data,
            tags,
            words,
        })
    }

    /// Empties the cache. No kernel and no command may be using it.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn reset(&self) -> Result<(), CudaError> {
        self.tags.fill(0xFF)?;
        self.words.fill(0)
    }

    /// The description that kernels read.
    pub fn desc(&self) -> CacheDesc {
        self.desc
    }

    /// Number of lines.
    pub fn lines(&self) -> u64 {
        u64::from(self.desc.set_count) * u64::from(WAYS)
    }

    /// Device addresses of the data, for the bus.
    pub fn data_range(&self) -> Range<u64> {
        self.data.address()..self.data.address() + self.data.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_their_metadata_fit_into_the_bytes() {
        for bytes in [1u64 << 26, 1 << 30, 100 << 30] {
            let options = CacheOptions {
                bytes,
                ..CacheOptions::default()
            };
            let lines = u64::from(groups(&options)) << 10 << 3;
            assert!(lines * (LINE_BYTES + METADATA_BYTES) <= bytes);
            assert!(
                (lines + (8 << 10)) * (LINE_BYTES + METADATA_BYTES) > bytes,
                "one more group would not fit"
            );
        }
        let tiny = CacheOptions {
            bytes: 0,
            ..CacheOptions::default()
        };
        assert_eq!(groups(&tiny), 1);
    }
}
