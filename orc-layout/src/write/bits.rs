//! Bit widths and big-endian bit packing of RLE v2 (ORC v1, "Run Length Encoding version 2").

/// Bits needed for `value`; 0 for 0.
pub(super) fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

/// The smallest width of at least `bits` that the specification can state: 1 to 24, 26, 28, 30, 32, 40, 48, 56, 64.
pub(super) fn fixed_width(bits: u32) -> u32 {
    match bits {
        0 => 1,
        1..=24 => bits,
        25..=26 => 26,
        27..=28 => 28,
        29..=30 => 30,
        31..=32 => 32,
        33..=40 => 40,
        41..=48 => 48,
        49..=56 => 56,
        _ => 64,
    }
}

/// The five-bit code of a width that [`fixed_width`] returned.
pub(super) fn width_code(width: u32) -> u8 {
    match width {
        0..=24 => width.saturating_sub(1) as u8,
        26 => 24,
        28 => 25,
        30 => 26,
        32 => 27,
        40 => 28,
        48 => 29,
        56 => 30,
        _ => 31,
    }
}

/// Maps signed to unsigned values; small magnitudes stay small.
pub(super) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Appends a base-128 varint.
pub(super) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of a base-128 varint.
pub(super) fn varint_length(value: u64) -> usize {
    width_of(value).max(1).div_ceil(7) as usize
}

/// Appends the low `width` (1 to 64) bits of each value, most significant bit first, padded to a whole byte.
/// Higher bits of a value must be zero.
pub(super) fn pack(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    match width {
        8 => out.extend(values.map(|value| value as u8)),
        16 => values.for_each(|value| out.extend_from_slice(&(value as u16).to_be_bytes())),
        32 => values.for_each(|value| out.extend_from_slice(&(value as u32).to_be_bytes())),
        64 => values.for_each(|value| out.extend_from_slice(&value.to_be_bytes())),
        _ => pack_any(out, width, values),
    }
}

fn pack_any(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    debug_assert!((1..64).contains(&width));
    // `word` holds 64 - `free` bits at its top; `free` is never 0 here.
    let (mut word, mut free) = (0u64, 64u32);
    for value in values {
        debug_assert!(width_of(value) <= width);
        if width < free {
            free -= width;
            word |= value << free;
        } else {
            let over = width - free;
            word |= value >> over;
            out.extend_from_slice(&word.to_be_bytes());
            free = 64 - over;
            word = if over == 0 { 0 } else { value << free };
        }
    }
    let bytes = (64 - free).div_ceil(8) as usize;
    out.extend_from_slice(&word.to_be_bytes()[..bytes]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_codes_are_the_specifications_table() {
        let widths: Vec<u32> = (1..=24).chain([26, 28, 30, 32, 40, 48, 56, 64]).collect();
        for (code, &width) in widths.iter().enumerate() {
            assert_eq!(u32::from(width_code(width)), code as u32);
            assert_eq!(fixed_width(width), width);
        }
        assert_eq!(
            (fixed_width(0), fixed_width(25), fixed_width(33), fixed_width(57)),
            (1, 26, 40, 64)
        );
    }

    #[test]
    fn packing_equals_bit_by_bit_writing() {
        for width in 1..=64 {
            let values: Vec<u64> = (0..131u64)
                .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - width))
                .collect();
            let mut expected = vec![0u8; (values.len() * width as usize).div_ceil(8)];
            for (i, value) in values.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = i * width as usize + bit;
                    expected[at / 8] |= ((value >> (width as usize - 1 - bit) & 1) as u8) << (7 - at % 8);
                }
            }
            let mut packed = vec![];
            pack(&mut packed, width, values.iter().copied());
            assert_eq!(packed, expected, "width {width}");
        }
    }

    #[test]
    fn varint_length_equals_the_written_bytes() {
        for value in [0, 1, 127, 128, 16383, 16384, u64::MAX >> 1, u64::MAX] {
            let mut out = vec![];
            push_varint(&mut out, value);
            assert_eq!(out.len(), varint_length(value));
        }
    }
}
