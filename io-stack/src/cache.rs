//! `Cache`: the cache in device memory, its size and its start state. Device code fills it (`device/cache.cuh`) and, if
//! it is writable, stores to it (`device/write_back.cuh`).

use std::ops::Range;

use grampus_cuda::CudaError;
use grampus_cuda::{Device, DeviceBuffer};

use crate::abi::{CacheDesc, CacheSet, LINE_BYTES, LineWrites, WAYS};

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

/// Whether kernels may store to the cache's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheUse {
    /// Kernels only read.
    Read,
    /// Kernels also store. Each line takes 32 bytes more.
    Write,
}

/// Number of groups of sets that fit.
fn groups(options: &CacheOptions, usage: CacheUse) -> u32 {
    let more = match usage {
        CacheUse::Read => 0,
        CacheUse::Write => size_of::<LineWrites>() as u64,
    };
    let group = (u64::from(WAYS) << options.group_log2) * (LINE_BYTES + METADATA_BYTES + more);
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
/// empty. Pins are gone with their owners, except the one of a line with stores that are not on the storage. A line
/// that was being replaced has lost its old bytes, and had no such stores.
fn repaired(state: u64, writes: &mut LineWrites) -> Option<u64> {
    // Writes in flight have ended, or will never begin: their sectors are written again.
    (writes.dirty, writes.writing) = (writes.dirty | writes.writing, 0);
    (writes.lock, writes.wanted) = (0, 0);
    (state & LINE_BUSY == 0).then_some(state & !LINE_PINS | u64::from(writes.dirty != 0))
}

/// The cache's memory on the device.
#[derive(Debug)]
pub struct Cache {
    desc: CacheDesc,
    data: DeviceBuffer,
    tags: DeviceBuffer,
    /// States, then sets, then requested sectors.
    words: DeviceBuffer,
    /// A [`LineWrites`] for each line of a cache that kernels store to.
    writes: Option<DeviceBuffer>,
}

impl Cache {
    /// Allocates an empty cache.
    ///
    /// # Errors
    /// Options outside their ranges; out of device memory.
    pub fn new(device: &Device, options: CacheOptions, usage: CacheUse) -> Result<Self, CudaError> {
        if !(7..=12).contains(&options.sector_log2) || options.group_log2 > 12 {
            return Err(CudaError::Arguments {
                kernel: "cache".to_owned(),
                reason: format!("{options:?} is out of range"),
            });
        }
        let groups = groups(&options, usage);
        let set_count = groups << options.group_log2;
        let lines = u64::from(set_count) * u64::from(WAYS);
        let data = DeviceBuffer::new(device, (lines * LINE_BYTES) as usize)?;
        let tags = DeviceBuffer::filled(device, lines as usize * 8, 0xFF)?;
        let sets_at = lines * 8;
        let requested_at = sets_at + u64::from(set_count) * size_of::<CacheSet>() as u64;
        let words = DeviceBuffer::filled(device, (requested_at + lines * 4) as usize, 0)?;
        let writes = match usage {
            CacheUse::Read => None,
            CacheUse::Write => Some(DeviceBuffer::filled(
                device,
                lines as usize * size_of::<LineWrites>(),
                0,
            )?),
        };
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
            writes: writes.as_ref().map_or(0, DeviceBuffer::address),
        };
        Ok(Self {
            desc,
            data,
            tags,
            words,
            writes,
        })
    }

    /// Empties the cache. No kernel and no command may be using it. Stores that were not flushed are lost.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn reset(&self) -> Result<(), CudaError> {
        self.tags.fill(0xFF)?;
        self.words.fill(0)?;
        self.writes.as_ref().map_or(Ok(()), |writes| writes.fill(0))
    }

    /// Number of lines with stores that are not on their storage. No kernel and no command may be using the cache.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn dirty_lines(&self) -> Result<u64, CudaError> {
        let (mut first, mut dirty) = (0, 0);
        while self.writes.is_some() && first < self.lines() {
            let writes = self.writes_of(first, REPAIRED_LINES.min(self.lines() - first) as usize)?;
            dirty += writes.iter().filter(|w| w.dirty | w.writing != 0).count() as u64;
            first += writes.len() as u64;
        }
        Ok(dirty)
    }

    fn writes_of(&self, first: u64, count: usize) -> Result<Vec<LineWrites>, CudaError> {
        match &self.writes {
            Some(writes) => writes.read(first as usize * size_of::<LineWrites>(), count),
            None => Ok(vec![LineWrites::default(); count]),
        }
    }

    /// After a query that ended early: frees what its kernels and commands held, and keeps the sectors that have
    /// arrived and those that were stored to. No kernel and no command may be using the cache.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn repair(&self) -> Result<(), CudaError> {
        self.repair_without(&[])
    }

    /// [`repair`](Self::repair), and drops the lines whose keys lie in the ranges, with their stores.
    ///
    /// # Errors
    /// A failed call: the context is dead.
    pub fn repair_without(&self, dropped: &[Range<u64>]) -> Result<(), CudaError> {
        let (lines, sets) = (self.lines(), u64::from(self.desc.set_count));
        let (sets_at, requested_at) = (lines * 8, lines * 8 + sets * size_of::<CacheSet>() as u64);
        let mut first = 0;
        while first < lines {
            let count = REPAIRED_LINES.min(lines - first) as usize;
            let mut states: Vec<u64> = self.words.read((first * 8) as usize, count)?;
            let mut tags: Vec<u64> = self.tags.read((first * 8) as usize, count)?;
            let mut writes = self.writes_of(first, count)?;
            for ((state, tag), writes) in states.iter_mut().zip(&mut tags).zip(&mut writes) {
                match repaired(*state, writes).filter(|_| !dropped.iter().any(|keys| keys.contains(tag))) {
                    Some(repaired) => *state = repaired,
                    None => (*state, *tag, *writes) = (0, NO_TAG, LineWrites::default()),
                }
            }
            if let Some(buffer) = &self.writes {
                buffer.write(first as usize * size_of::<LineWrites>(), &writes)?;
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
            CacheUse::Read,
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
    fn repairing_keeps_stores_and_their_pin_except_in_dropped_lines() {
        let device = Device::host(1, 1 << 24);
        let options = CacheOptions {
            bytes: 0,
            group_log2: 3,
            ..CacheOptions::default()
        };
        let cache = Cache::new(&device, options, CacheUse::Write).unwrap();
        // Three pins: one of a reader, one of the stores, one of a fill. Sector 0 was stored to, 1 is being written.
        let state = 0b11 << LINE_VALID_SHIFT | 3;
        cache.words.write(0, &[state, state, state]).unwrap();
        cache.tags.write(0, &[4096u64, 4097, 9000]).unwrap();
        let stored = LineWrites {
            lock: 1,
            dirty: 0b01,
            writing: 0b10,
            source: 7,
            storage_byte: 4096,
            wanted: 3,
            pad0: 0,
        };
        let writes = cache.writes.as_ref().unwrap();
        writes.write(0, &[stored, LineWrites::default(), stored]).unwrap();
        assert_eq!(cache.dirty_lines().unwrap(), 2);
        cache.repair_without(&[8192..12288, 0..1]).unwrap();
        let kept = state & !LINE_PINS;
        assert_eq!(cache.words.read::<u64>(0, 3).unwrap(), [kept | 1, kept, 0]);
        assert_eq!(cache.tags.read::<u64>(0, 3).unwrap(), [4096, 4097, NO_TAG]);
        let after = writes.read::<LineWrites>(0, 3).unwrap();
        let words = |w: &LineWrites| (w.lock | w.wanted, w.dirty, w.writing, w.source, w.storage_byte);
        assert_eq!(words(&after[0]), (0, 0b11, 0, 7, 4096));
        assert_eq!(words(&after[2]), (0, 0, 0, 0, 0));
        assert_eq!(cache.dirty_lines().unwrap(), 1);
        cache.reset().unwrap();
        assert_eq!(cache.dirty_lines().unwrap(), 0);
    }

    #[test]
    fn lines_and_their_metadata_fit_into_the_bytes() {
        for bytes in [1u64 << 26, 1 << 30, 100 << 30] {
            let options = CacheOptions {
                bytes,
                ..CacheOptions::default()
            };
            for (usage, line_bytes) in [(CacheUse::Read, 4096 + 21), (CacheUse::Write, 4096 + 21 + 32)] {
                let lines = u64::from(groups(&options, usage)) << 10 << 3;
                assert!(lines * line_bytes <= bytes);
                assert!((lines + (8 << 10)) * line_bytes > bytes, "one more group would not fit");
            }
        }
        let tiny = CacheOptions {
            bytes: 0,
            ..CacheOptions::default()
        };
        assert_eq!(groups(&tiny, CacheUse::Read), 1);
    }
}
