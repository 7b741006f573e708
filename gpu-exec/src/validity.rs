//! Validity in device memory: a bit for each row, whether the column has a value there. The first row's is bit 0 of a
//! byte (device/validity.cuh).

use std::ops::Range;

/// Rows whose bits are in one byte. Rows that are written apart from their neighbours begin at a multiple of these.
pub(crate) const ROWS_OF_BYTE: u64 = 8;

/// Bytes of the validity of so many rows.
pub(crate) fn bytes_of(rows: u64) -> u64 {
    rows.div_ceil(ROWS_OF_BYTE)
}

/// The byte that has a row's bit, of rows that begin with a multiple of [`ROWS_OF_BYTE`].
pub(crate) fn byte_of(row: u64) -> u64 {
    debug_assert!(row.is_multiple_of(ROWS_OF_BYTE), "row {row} shares its byte");
    row / ROWS_OF_BYTE
}

/// Whether each row group has bytes of its own in the validity of `rows`: warps decode the groups side by side.
pub(crate) fn groups_have_bytes(rows: &Range<u64>, group_rows: u64) -> bool {
    let first_end = rows.start - rows.start % group_rows + group_rows;
    let is_border = |row: u64| (row - rows.start).is_multiple_of(ROWS_OF_BYTE);
    rows.end <= first_end || (is_border(first_end) && group_rows.is_multiple_of(ROWS_OF_BYTE))
}

/// Writes the bits of rows, each given by a byte that is 0 for NULL. `out`: [`bytes_of`] the rows.
pub(crate) fn pack(valid: &[u8], out: &mut [u8]) {
    for (rows, out) in valid.chunks(ROWS_OF_BYTE as usize).zip(out) {
        let bits = rows.iter().enumerate();
        *out = bits.fold(0, |byte, (at, &valid)| byte | u8::from(valid != 0) << at);
    }
}

/// A byte for each of `rows` bits: 0 for NULL, else 1.
pub(crate) fn unpack(bits: &[u8], rows: usize) -> Vec<u8> {
    let bit = |row: usize| bits[row / ROWS_OF_BYTE as usize] >> (row % ROWS_OF_BYTE as usize) & 1;
    (0..rows).map(bit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bits_from_the_lowest_on() {
        let valid = [1, 0, 0, 1, 0, 0, 0, 1, 0, 7];
        let mut bits = [0xFF; 2];
        pack(&valid, &mut bits);
        assert_eq!(bits, [0b1000_1001, 0b10]);
        assert_eq!(unpack(&bits, 10), [1, 0, 0, 1, 0, 0, 0, 1, 0, 1]);
        assert!(groups_have_bytes(&(0..2_000), 1_000) && groups_have_bytes(&(8..2_000), 1_000));
        assert!(groups_have_bytes(&(101..105), 100) && groups_have_bytes(&(100..200), 100));
        assert!(!groups_have_bytes(&(100..201), 100) && !groups_have_bytes(&(1..1_001), 1_000));
        assert_eq!((bytes_of(0), bytes_of(8), bytes_of(9), byte_of(16)), (0, 1, 2, 2));
    }
}
