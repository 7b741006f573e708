//! `DataPointer`: the dwords of a command that say where its data lies, as PRPs or as an SGL (Base 2.0c §4.1).

use std::sync::Arc;

use super::dma::{BusRange, DmaBuffer, DmaPool};
use crate::error::DriverError;
use crate::spec::{PAGE_BYTES, SubmissionEntry};

const PAGE: usize = PAGE_BYTES as usize;
/// Entries of 8 bytes in a page of a PRP list.
const PRPS: usize = PAGE / 8;
/// Descriptors of 16 bytes in an SGL segment of one page.
const DESCRIPTORS: usize = PAGE / 16;
/// SGL descriptor type, in the top byte: data block, with an address.
const SGL_DATA_BLOCK: u64 = 0;
/// SGL segment, which another segment follows.
const SGL_SEGMENT: u64 = 2 << 60;
/// Last SGL segment.
const SGL_LAST_SEGMENT: u64 = 3 << 60;
/// PSDT 01b: an SGL, and a contiguous metadata buffer.
const PSDT_SGL: u8 = 1 << 6;

/// How the driver describes data to a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataPointers {
    /// Physical region pages, which every controller takes.
    #[default]
    Prp,
    /// Scatter-gather lists where the controller takes them, else physical region pages.
    Sgl,
}

/// The data pointer of one command, and the memory of its lists.
#[derive(Debug)]
pub(super) struct DataPointer {
    prp1: u64,
    prp2: u64,
    psdt: u8,
    /// Lists in memory, which the controller reads until the command ends.
    pub(super) list: Option<DmaBuffer>,
}

impl DataPointer {
    /// Describes a range by PRPs. Lists take memory of `pool`.
    pub(super) fn prps(range: &BusRange, pool: &Arc<DmaPool>) -> Result<Self, DriverError> {
        check(range, 4)?;
        let mut pointer = Self {
            prp1: range.start(),
            prp2: 0,
            psdt: 0,
            list: None,
        };
        let rest = &range.pages[1..];
        match rest {
            [] => {}
            [second] => pointer.prp2 = *second,
            _ => {
                // A page holds 512 entries. The last one of a page that does not end the list points at the next page.
                let pages = if rest.len() <= PRPS {
                    1
                } else {
                    (rest.len() - 1).div_ceil(PRPS - 1)
                };
                let list = pool.allocate(pages * PAGE)?;
                for page in 0..pages {
                    let from = page * (PRPS - 1);
                    let last = page + 1 == pages;
                    let mine = &rest[from..if last { rest.len() } else { from + PRPS - 1 }];
                    let mut words: Vec<u8> = mine.iter().flat_map(|address| address.to_le_bytes()).collect();
                    if !last {
                        words.extend(list.bus_address((page + 1) * PAGE).to_le_bytes());
                    }
                    list.write(page * PAGE, &words);
                }
                pointer.prp2 = list.bus_address(0);
                pointer.list = Some(list);
            }
        }
        Ok(pointer)
    }

    /// Describes a range by an SGL. Segments take memory of `pool`.
    pub(super) fn sgl(range: &BusRange, pool: &Arc<DmaPool>) -> Result<Self, DriverError> {
        check(range, 4)?;
        let blocks = data_blocks(range);
        if let [(address, length)] = blocks[..] {
            return Ok(Self {
                prp1: address,
                prp2: SGL_DATA_BLOCK | length,
                psdt: PSDT_SGL,
                list: None,
            });
        }
        // As for PRPs, the last descriptor of a page points at the next page.
        let pages = if blocks.len() <= DESCRIPTORS {
            1
        } else {
            (blocks.len() - 1).div_ceil(DESCRIPTORS - 1)
        };
        let list = pool.allocate(pages * PAGE)?;
        let count = |page: usize| match page + 1 == pages {
            true => blocks.len() - page * (DESCRIPTORS - 1),
            false => DESCRIPTORS,
        };
        let segment = |page: usize| {
            let kind = if page + 1 == pages {
                SGL_LAST_SEGMENT
            } else {
                SGL_SEGMENT
            };
            (list.bus_address(page * PAGE), kind | (count(page) * 16) as u64)
        };
        for page in 0..pages {
            let from = page * (DESCRIPTORS - 1);
            let last = page + 1 == pages;
            let mut descriptors = blocks[from..from + count(page) - usize::from(!last)].to_vec();
            if !last {
                descriptors.push(segment(page + 1));
            }
            let words = descriptors
                .iter()
                .flat_map(|(address, rest)| [address.to_le_bytes(), rest.to_le_bytes()]);
            list.write(page * PAGE, &words.flatten().collect::<Vec<u8>>());
        }
        let (prp1, prp2) = segment(0);
        Ok(Self {
            prp1,
            prp2,
            psdt: PSDT_SGL,
            list: Some(list),
        })
    }

    /// Writes the pointer into a command.
    pub(super) fn put(&self, entry: &mut SubmissionEntry) {
        entry.prp1 = self.prp1;
        entry.prp2 = self.prp2;
        entry.flags |= self.psdt;
    }
}

/// A range that a data pointer can describe: its pages are aligned, and hold its bytes exactly.
fn check(range: &BusRange, alignment: usize) -> Result<(), DriverError> {
    let pages = (range.offset_bytes + range.length_bytes).div_ceil(PAGE);
    let fits = range.length_bytes > 0 && range.offset_bytes < PAGE && range.pages.len() == pages;
    let aligned =
        range.offset_bytes.is_multiple_of(alignment) && range.pages.iter().all(|page| page.is_multiple_of(PAGE_BYTES));
    match fits && aligned {
        true => Ok(()),
        false => Err(DriverError::BusRange {
            offset_bytes: range.offset_bytes,
            length_bytes: range.length_bytes,
            pages: range.pages.len(),
        }),
    }
}

/// The runs of a range that follow each other on the bus: address and length.
fn data_blocks(range: &BusRange) -> Vec<(u64, u64)> {
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    let mut left = range.length_bytes as u64;
    let mut within = range.offset_bytes as u64;
    for page in &range.pages {
        let length = (PAGE_BYTES - within).min(left);
        let address = page + within;
        match blocks.last_mut() {
            // A length has 32 bits.
            Some((start, so_far)) if *start + *so_far == address && *so_far + length < 1 << 32 => *so_far += length,
            _ => blocks.push((address, length)),
        }
        (left, within) = (left - length, 0);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::dma::MappedMemory;
    use crate::raw::SharedMemory;
    use crate::spec::{PrpSegment, prp_segments};

    fn pool(pages: usize) -> Arc<DmaPool> {
        let memory = SharedMemory::anonymous(pages * PAGE).unwrap();
        DmaPool::new(Arc::new(MappedMemory::linear(memory, 0x10_0000)))
    }

    fn word(pool: &DmaPool, bus: u64) -> u64 {
        let mut out = [0; 8];
        pool.memory().memory().read((bus - 0x10_0000) as usize, &mut out);
        u64::from_le_bytes(out)
    }

    /// Every second page: none follows another on the bus.
    fn range(count: usize, offset_bytes: usize, length_bytes: usize) -> BusRange {
        let pages = (0..count as u64).map(|i| 0x1000_0000 + i * 0x2000);
        BusRange::paged(pages.collect(), offset_bytes, length_bytes)
    }

    /// The bytes of a range, one by one.
    fn addresses(range: &BusRange) -> Vec<PrpSegment> {
        data_blocks(range)
            .into_iter()
            .map(|(bus_address, length_bytes)| PrpSegment {
                bus_address,
                length_bytes,
            })
            .collect()
    }

    #[test]
    fn prps_of_every_length_name_the_range() {
        // 511 to 513 entries fill a page of the list, and 1,023 two pages.
        for pages in [1, 2, 3, 4, 511, 512, 513, 514, 1022, 1023, 1024, 1025, 1600] {
            for (offset, tail) in [(0, PAGE), (512, 512), (4092, 4)] {
                let length = (pages - 1) * PAGE + tail - if pages == 1 { 0 } else { offset };
                if offset + length > pages * PAGE || offset + length <= (pages - 1) * PAGE {
                    continue;
                }
                let pool = pool(8);
                let range = range(pages, offset, length);
                let pointer = DataPointer::prps(&range, &pool).unwrap();
                let list = |at, n| Some((0..n as u64).map(|i| word(&pool, at + 8 * i)).collect());
                let named = prp_segments(pointer.prp1, pointer.prp2, length as u64, list).unwrap();
                assert_eq!(named, addresses(&range), "{pages} pages from {offset}");
            }
        }
    }

    #[test]
    fn sgls_of_every_length_name_the_range() {
        for pages in [1, 2, 255, 256, 257, 258, 511, 512, 600] {
            let pool = pool(8);
            let range = range(pages, 1024, pages * PAGE - 1024);
            let pointer = DataPointer::sgl(&range, &pool).unwrap();
            let mut named = Vec::new();
            let mut next = (pointer.prp1, pointer.prp2);
            while next.1 >> 60 != 0 {
                let (at, length, last) = (next.0, next.1 & 0xffff_ffff, next.1 >> 60 == 3);
                let mut inside: Vec<_> = (0..length / 16)
                    .map(|i| (word(&pool, at + 16 * i), word(&pool, at + 16 * i + 8)))
                    .collect();
                next = if last { (0, 0) } else { inside.pop().unwrap() };
                named.extend(inside);
            }
            if next != (0, 0) {
                named.push(next);
            }
            assert_eq!(named, data_blocks(&range), "{pages} pages");
        }
    }

    #[test]
    fn neighbours_on_the_bus_are_one_data_block() {
        let range = BusRange::contiguous(0x7004, 5 * PAGE);
        assert_eq!(data_blocks(&range), [(0x7004, 5 * PAGE as u64)]);
        assert!(DataPointer::sgl(&range, &pool(1)).unwrap().list.is_none());
    }

    #[test]
    fn range_that_breaks_the_rules_is_refused() {
        let pool = pool(1);
        assert!(
            DataPointer::prps(&range(1, 2, 512), &pool).is_err(),
            "not dword aligned"
        );
        assert!(DataPointer::prps(&range(2, 0, 512), &pool).is_err(), "too many pages");
        assert!(DataPointer::sgl(&range(1, 0, 8192), &pool).is_err(), "too few pages");
        assert!(DataPointer::prps(&range(1, 0, 0), &pool).is_err(), "no bytes");
    }
}
