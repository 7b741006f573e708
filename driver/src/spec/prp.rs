//! Physical region pages: the memory that a command's data goes to (Base 2.0c §4.1.1).
//!
//! PRP1 may start anywhere in a page (dword aligned). PRP2 depends on the pages of the data:
//! - one page: PRP2 is unused;
//! - two pages: PRP2 is the second page;
//! - more: PRP2 points at a list of page addresses. If the list does not end within its own page, its last slot points
//!   at the next list.

use crate::error::PrpError;

/// Memory page size of our queues (CC.MPS = 0): 4 KiB.
pub const PAGE_BYTES: u64 = 4096;

/// A run of bus memory that data goes to, in command order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrpSegment {
    /// Bus address of its first byte.
    pub bus_address: u64,
    /// Length in bytes.
    pub length_bytes: u64,
}

/// The memory that a command's PRPs name for `length_bytes` bytes; physically adjacent pages merge.
///
/// `read_list(address, entries)` returns that many 64-bit entries of a PRP list in bus memory.
///
/// # Errors
/// [`PrpError`] for addresses that break the alignment rules and lists that cannot be read.
pub fn prp_segments(
    prp1: u64,
    prp2: u64,
    length_bytes: u64,
    mut read_list: impl FnMut(u64, usize) -> Option<Vec<u64>>,
) -> Result<Vec<PrpSegment>, PrpError> {
    if !prp1.is_multiple_of(4) {
        return Err(PrpError::Unaligned(prp1));
    }
    let mut segments = Vec::with_capacity(2);
    let first = (PAGE_BYTES - prp1 % PAGE_BYTES).min(length_bytes);
    segments.push(PrpSegment {
        bus_address: prp1,
        length_bytes: first,
    });
    let mut left = length_bytes - first;
    let mut add = |address: u64, left: &mut u64| {
        if !address.is_multiple_of(PAGE_BYTES) {
            return Err(PrpError::Offset(address));
        }
        let length = PAGE_BYTES.min(*left);
        *left -= length;
        match segments.last_mut() {
            Some(last) if last.bus_address + last.length_bytes == address => last.length_bytes += length,
            _ => segments.push(PrpSegment {
                bus_address: address,
                length_bytes: length,
            }),
        }
        Ok(())
    };
    match left {
        0 => {}
        1..=PAGE_BYTES => add(prp2, &mut left)?,
        _ => {
            let mut list = prp2;
            // Lists after the first start at a page (Base 2.0c §4.1.1). Otherwise a list whose only slot names itself
            // would never end.
            let mut alignment = 8;
            while left > 0 {
                if !list.is_multiple_of(std::mem::replace(&mut alignment, PAGE_BYTES)) {
                    return Err(PrpError::Offset(list));
                }
                let slots = (PAGE_BYTES - list % PAGE_BYTES) / 8;
                let wanted = left.div_ceil(PAGE_BYTES).min(slots);
                let entries = read_list(list, wanted as usize).ok_or(PrpError::List(list))?;
                // The last slot of a full list page is the next list's address, unless it is the very last entry.
                let chained = left.div_ceil(PAGE_BYTES) > slots;
                let pages = if chained {
                    &entries[..entries.len() - 1]
                } else {
                    &entries[..]
                };
                for &page in pages {
                    add(page, &mut left)?;
                }
                if chained {
                    list = entries[entries.len() - 1];
                }
            }
        }
    }
    Ok(segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: u64, _: usize) -> Option<Vec<u64>> {
        None
    }

    #[test]
    fn prps_of_one_page_two_pages_and_an_offset() {
        assert_eq!(
            prp_segments(0x1000, 0, 512, none).unwrap(),
            [PrpSegment {
                bus_address: 0x1000,
                length_bytes: 512
            }]
        );
        assert_eq!(
            prp_segments(0x1e00, 0x9000, 1024, none).unwrap(),
            [
                PrpSegment {
                    bus_address: 0x1e00,
                    length_bytes: 512
                },
                PrpSegment {
                    bus_address: 0x9000,
                    length_bytes: 512
                }
            ]
        );
        assert_eq!(prp_segments(0x1002, 0, 512, none), Err(PrpError::Unaligned(0x1002)));
        assert_eq!(prp_segments(0x1000, 0x2200, 8192, none), Err(PrpError::Offset(0x2200)));
    }

    #[test]
    fn prp_lists_chain_over_pages_and_adjacent_pages_merge() {
        // 600 list entries: a list page holds 511 pages and the address of the next list.
        let pages: Vec<u64> = (0..600u64).map(|i| 0x10_0000 + i * PAGE_BYTES).collect();
        let (head, tail) = (0x5000u64, 0x7000u64);
        let read = |address: u64, count: usize| {
            Some(if address == head {
                assert_eq!(count, 512);
                let mut list = pages[..511].to_vec();
                list.push(tail);
                list
            } else {
                assert_eq!((address, count), (tail, 89));
                pages[511..].to_vec()
            })
        };
        let length = PAGE_BYTES * 601;
        let segments = prp_segments(0x3000, head, length, read).unwrap();
        assert_eq!(
            segments,
            [
                PrpSegment {
                    bus_address: 0x3000,
                    length_bytes: PAGE_BYTES
                },
                PrpSegment {
                    bus_address: 0x10_0000,
                    length_bytes: 600 * PAGE_BYTES
                }
            ]
        );
    }

    #[test]
    fn list_that_names_itself_ends() {
        let itself = |_: u64, entries: usize| Some(vec![0x5ff8; entries]);
        let named = prp_segments(0x1000, 0x5ff8, 5 * PAGE_BYTES, itself);
        assert_eq!(named, Err(PrpError::Offset(0x5ff8)));
    }

    #[test]
    fn missing_prp_list_is_an_error() {
        assert_eq!(
            prp_segments(0x1000, 0x8000, 3 * PAGE_BYTES, none),
            Err(PrpError::List(0x8000))
        );
    }
}
