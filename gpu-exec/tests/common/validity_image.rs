//! `ValidityImage`: the validity of a table's column, a bit for each row, as kernels find it.

use grampus_cuda::{Device, DeviceBuffer};
use grampus_io_stack::abi::{ColumnDesc, Extent, bytes_of};

use super::interpreter::Cell;
use super::random::Random;

/// Bits in device memory, and the extents that describe them.
#[derive(Debug)]
pub(crate) struct ValidityImage {
    /// Kept for the extents.
    _bits: DeviceBuffer,
    extents: DeviceBuffer,
    extent_count: u32,
}

impl ValidityImage {
    /// Places the bits of a few ranges of rows, each from a random byte on. Bits between them are random.
    pub(crate) fn new(random: &mut Random, device: &Device, cells: &[Cell]) -> Self {
        let (mut bytes, mut extents) = (Vec::<u8>::new(), Vec::<Extent>::new());
        let mut row = 0;
        while row < cells.len() {
            let most = cells.len() - row;
            let rows = match random.one_in(3) {
                true => most,
                false => 1 + random.below(most as u64) as usize,
            };
            let start = bytes.len() + random.below(70) as usize;
            let end = start + rows.div_ceil(8);
            bytes.resize_with(end, || random.below(256) as u8);
            for (at, cell) in cells[row..row + rows].iter().enumerate() {
                let (byte, bit) = (&mut bytes[start + at / 8], 1 << (at % 8));
                *byte = *byte & !bit | if cell.is_some() { bit } else { 0 };
            }
            extents.push(Extent {
                first_row: row as u64,
                rows: rows as u64,
                mapped: start as u64,
                ..Extent::default()
            });
            row += rows;
        }
        bytes.resize(bytes.len().next_multiple_of(8) + 8, 0x5A); // kernels load words
        let bits = DeviceBuffer::from_values(device, &bytes).expect("memory");
        extents.iter_mut().for_each(|extent| extent.mapped += bits.address());
        let described: Vec<u8> = extents.iter().flat_map(bytes_of).collect();
        Self {
            _bits: bits,
            extents: DeviceBuffer::from_values(device, &described).expect("memory"),
            extent_count: extents.len() as u32,
        }
    }

    pub(crate) fn desc(&self) -> ColumnDesc {
        ColumnDesc {
            extents: self.extents.address(),
            extent_count: self.extent_count,
            value_bytes: 0,
        }
    }
}
