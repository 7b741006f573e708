//! `PartialPages`: partially resident columns of a table, as the host has them. The bytes of a missing page are garbage
//! until the kernel requests the page.

use grampus_cuda::{Device, DeviceBuffer};
use grampus_gpu_exec::abi::paging::{PagedPiece, PagingDesc};
use grampus_io_stack::abi::bytes_of;
use grampus_io_stack::stack::Run;

use super::random::Random;

/// Entries of the list. Some tables have more pages.
const CAPACITY: u32 = 96;

/// One column of one stripe.
#[derive(Debug)]
struct StripePages {
    column: usize,
    rows: std::ops::Range<u64>,
    first_page: u32,
    page_rows: u32,
    pages: u32,
    /// All pages are resident, and there are no bits.
    whole: bool,
}

/// Pages of a table.
#[derive(Debug)]
pub(crate) struct PartialPages {
    pieces: Vec<StripePages>,
    stripes: Vec<u64>,
    pages: u32,
    first_rows: DeviceBuffer,
    described: DeviceBuffer,
    there: DeviceBuffer,
    wanted: DeviceBuffer,
    list: DeviceBuffer,
    missed: DeviceBuffer,
}

impl PartialPages {
    /// Divides `rows` into stripes, and the stripes' columns into pages.
    pub(crate) fn new(random: &mut Random, device: &Device, columns: &[usize], rows: u64) -> Self {
        let mut stripes = vec![0];
        while *stripes.last().expect("one") < rows && stripes.len() < 6 {
            let last = *stripes.last().expect("one");
            stripes.push(last + 1 + random.below(rows - last));
        }
        let mut pieces = Vec::new();
        let mut pages = 0;
        for &column in columns {
            for (at, &first) in stripes.iter().enumerate() {
                let end = stripes.get(at + 1).copied().unwrap_or(rows.max(first));
                let page_rows = *random.pick(&[1, 8, 16, 64, 1000]);
                let count = (end - first).div_ceil(u64::from(page_rows)) as u32;
                pieces.push(StripePages {
                    column,
                    rows: first..end,
                    first_page: pages,
                    page_rows,
                    pages: count,
                    whole: random.one_in(5),
                });
                pages = (pages + count).next_multiple_of(32);
            }
        }
        let bytes = |bytes: usize| DeviceBuffer::filled(device, bytes.max(16), 0).expect("memory");
        let bits = pages as usize / 8;
        let there = bytes(bits);
        let described: Vec<u8> = (pieces.iter())
            .flat_map(|piece| {
                bytes_of(&PagedPiece {
                    there: if piece.whole {
                        0
                    } else {
                        there.address() + u64::from(piece.first_page) / 8
                    },
                    values: 0,
                    bytes: 0,
                    first_page: piece.first_page,
                    page_rows: piece.page_rows,
                    pages: piece.pages,
                    pad0: 0,
                })
            })
            .collect();
        Self {
            first_rows: DeviceBuffer::from_values(device, &stripes).expect("memory"),
            described: DeviceBuffer::from_values(device, &described).expect("memory"),
            wanted: bytes(bits),
            list: bytes(4 * CAPACITY as usize),
            missed: bytes(4),
            pieces,
            stripes,
            pages,
            there,
        }
    }

    pub(crate) fn desc(&self) -> PagingDesc {
        PagingDesc {
            first_rows: self.first_rows.address(),
            pieces: self.described.address(),
            wanted: self.wanted.address(),
            list: self.list.address(),
            missed: self.missed.address(),
            capacity: CAPACITY,
            stripes: self.stripes.len() as u32,
        }
    }

    /// Maximum number of passes of a kernel with `steps` steps.
    pub(crate) fn max_passes(&self, steps: usize) -> usize {
        1 + steps + (self.pages / CAPACITY) as usize
    }

    /// Makes some pages resident, and fills the others with garbage.
    pub(crate) fn scatter(
        &self,
        random: &mut Random,
        image: &[u8],
        columns: &[(u32, Vec<Run>)],
        memory: &DeviceBuffer,
    ) {
        let mut bytes = image.to_vec();
        let mut bits = vec![0u32; self.pages as usize / 32];
        let share = *random.pick(&[1, 2, 30]);
        for piece in self.pieces.iter().filter(|piece| !piece.whole) {
            for page in 0..piece.pages {
                let number = piece.first_page + page;
                if !random.one_in(share) {
                    bits[number as usize / 32] |= 1 << (number % 32);
                    continue;
                }
                for (at, len) in self.places(piece, page, &columns[piece.column]) {
                    bytes[at..at + len].fill(0xC3);
                }
            }
        }
        memory.write(0, &bytes).expect("fits");
        self.there.write(0, &bits).expect("fits");
    }

    /// Prepares a pass.
    pub(crate) fn clear(&self) {
        for buffer in [&self.wanted, &self.missed, &self.list] {
            buffer.fill(0).expect("memory");
        }
    }

    /// Loads the pages that a pass requested, and returns the number of pages that it missed.
    pub(crate) fn serve(&self, image: &[u8], columns: &[(u32, Vec<Run>)], memory: &DeviceBuffer) -> u32 {
        let missed = self.missed.read::<u32>(0, 1).expect("readable")[0];
        let list = self.list.read::<u32>(0, CAPACITY as usize).expect("readable");
        let mut bits = self.there.read::<u32>(0, self.pages as usize / 32).expect("readable");
        let (listed, rest) = list.split_at(missed.min(CAPACITY) as usize);
        assert!(rest.iter().all(|word| *word == 0), "entries that were not counted");
        for word in listed {
            let number = word.checked_sub(1).expect("an entry that was counted is there");
            let at = self.pieces.partition_point(|p| p.first_page <= number) - 1;
            let piece = (self.pieces[..=at].iter().rev())
                .find(|p| p.pages > 0 && p.first_page <= number)
                .expect("a piece");
            assert!(
                !piece.whole && number < piece.first_page + piece.pages,
                "page {number} of {piece:?}"
            );
            let bit = 1 << (number % 32);
            assert!(
                bits[number as usize / 32] & bit == 0,
                "page {number} was there, or is asked for twice"
            );
            bits[number as usize / 32] |= bit;
            for (at, len) in self.places(piece, number - piece.first_page, &columns[piece.column]) {
                memory.write(at, &image[at..at + len]).expect("fits");
            }
        }
        self.there.write(0, &bits).expect("fits");
        missed
    }

    /// Ranges of a page's bytes.
    fn places(&self, piece: &StripePages, page: u32, (width, runs): &(u32, Vec<Run>)) -> Vec<(usize, usize)> {
        let first = piece.rows.start + u64::from(page) * u64::from(piece.page_rows);
        let rows = first..(first + u64::from(piece.page_rows)).min(piece.rows.end);
        let mut before = 0;
        let mut places = Vec::new();
        for run in runs {
            let (from, to) = (rows.start.max(before), rows.end.min(before + run.rows));
            if from < to {
                let at = run.byte + (from - before) * u64::from(*width);
                places.push((at as usize, (to - from) as usize * *width as usize));
            }
            before += run.rows;
        }
        places
    }
}
