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

/// Parts of a line's state (`device/cache.h`).
const LINE_PINS: u64 = 0xFFFF;
const LINE_BUSY: u64 = 1 << 16;
const LINE_VALID_SHIFT: u32 = 32;
/// The tag of no line.
const NO_TAG: u64 = u64::MAX;
/// Lines that are repaired at a time: their words pass through the host's memory.
const REPAIRED_LINES: u64 = 1 << 20;

/// The state of a line after a query that ended early, with no kernel and no command in flight; `None`: the line is
/// empty. Pins are gone with their owners. A line that was being replaced has lost its old bytes.
fn repaired(state: u64) -> Option<u64> {
    (state & LINE_BUSY == 0).then_some(state & !LINE_PINS)
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
            pad0: 0,
            pad1: 0,
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

    /// After a query that ended early: frees what its kernels and commands held, and keeps the sectors that have
    /// arrived. No kernel and no command may be using the cache.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn repair(&self) -> Result<(), CudaError> {
        let (lines, sets) = (self.lines(), u64::from(self.desc.set_count));
        let (sets_at, requested_at) = (lines * 8, lines * 8 + sets * size_of::<CacheSet>() as u64);
        let mut first = 0;
        while first < lines {
            let count = REPAIRED_LINES.min(lines - first) as usize;
            let mut states: Vec<u64> = self.words.read((first * 8) as usize, count)?;
            let mut tags: Vec<u64> = self.tags.read((first * 8) as usize, count)?;
            for (state, tag) in states.iter_mut().zip(&mut tags) {
                match repaired(*state) {
                    Some(repaired) => *state = repaired,
                    None => (*state, *tag) = (0, NO_TAG),
                }
            }
            // What was requested and has not arrived is requested again.
            let requested: Vec<u32> = states.iter().map(|state| (state >> LINE_VALID_SHIFT) as u32).collect();
            self.tags.write((first * 8) as usize, &tags)?;
            self.words.write((first * 8) as usize, &states)?;
            self.words.write((requested_at + first * 4) as usize, &requested)?;
            first += count as u64;
        }
        // Locks, and hands of the policy.
        self.words.write(sets_at as usize, &vec![0u64; sets as usize])
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
    fn repairing_frees_pins_and_keeps_sectors_that_have_arrived() {
        let cache = Cache::new(
            &Device::host(1, 1 << 24),
            CacheOptions {
                bytes: 0,
                group_log2: 3,
                ..CacheOptions::default()
            },
        );
        let cache = cache.unwrap();
        let (lines, sets) = (cache.lines() as usize, cache.desc.set_count as usize);
        // Two pins, REF, a version, sectors 0 and 1; a line that is being replaced.
        let kept = 0b11 << LINE_VALID_SHIFT | 5 << 18 | 1 << 17;
        cache.words.write(0, &[kept | 2, 1 << 18 | LINE_BUSY | 1]).unwrap();
        cache.tags.write(0, &[4096u64, 4097]).unwrap();
        cache.words.write(lines * 8, &[1u64]).unwrap();
        cache.words.write(lines * 8 + sets * 8, &[0b111u32, 0b1]).unwrap();
        cache.repair().unwrap();
        assert_eq!(cache.words.read::<u64>(0, 3).unwrap(), [kept, 0, 0]);
        assert_eq!(cache.tags.read::<u64>(0, 3).unwrap(), [4096, NO_TAG, NO_TAG]);
        assert_eq!(cache.words.read::<u64>(lines * 8, 1).unwrap(), [0]);
        assert_eq!(cache.words.read::<u32>(lines * 8 + sets * 8, 2).unwrap(), [0b11, 0]);
    }

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
