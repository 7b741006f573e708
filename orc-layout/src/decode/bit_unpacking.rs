//! Unpacking of bit-packed integers, most significant bit first, to `i64`. Eight values at a time are unpacked with a
//! width known at compile time, single ones by their bit offset.

/// Undoes the zigzag encoding of signed integers.
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Widths that RLE v2 can encode in five bits (ORC v1, "Run Length Encoding version 2").
const WIDTHS: [u8; 32] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 40, 48, 56,
    64,
];

/// The width for the five bits of a header.
#[inline]
pub(super) fn decode_width(encoded: u8) -> u32 {
    u32::from(WIDTHS[usize::from(encoded & 31)])
}

/// The narrowest width in which RLE v2 packs `bits` bits.
pub(super) fn closest_width(bits: u32) -> u32 {
    WIDTHS
        .iter()
        .map(|&width| u32::from(width))
        .find(|&width| width >= bits)
        .unwrap_or(64)
}

/// Bytes of `count` packed values of `width` bits.
#[inline]
pub(super) fn packed_bytes(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(8)
}

/// Value `index` of `packed`, as stored. Bytes beyond the end count as zero.
#[inline]
pub(super) fn get(packed: &[u8], width: u32, index: usize) -> u64 {
    let bit = index * width as usize;
    let from = packed.get(bit / 8..).unwrap_or(&[]);
    let word = match from.first_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => {
            let mut word = [0; 8];
            word[..from.len()].copy_from_slice(from);
            u64::from_be_bytes(word)
        }
    };
    // No width above 56 leaves a byte boundary, so a value never has more than these eight bytes.
    (word << (bit % 8)) >> (64 - width)
}

/// Unpacks values `first..first + out.len()` of `packed`; zigzag-decodes them if `signed`. `packed` holds all of them.
pub(super) fn unpack(packed: &[u8], width: u32, signed: bool, first: usize, out: &mut [i64]) {
    // Only every eighth value surely begins at a byte.
    let head = (first.next_multiple_of(8) - first).min(out.len());
    let (head, body) = out.split_at_mut(head);
    for (i, value) in head.iter_mut().enumerate() {
        let raw = get(packed, width, first + i);
        *value = if signed { unzigzag(raw) } else { raw as i64 };
    }
    if !body.is_empty() {
        let packed = &packed[(first + head.len()) / 8 * width as usize..];
        if signed {
            unpack_aligned::<true>(packed, width, body);
        } else {
            unpack_aligned::<false>(packed, width, body);
        }
    }
}

fn unpack_aligned<const SIGNED: bool>(packed: &[u8], width: u32, out: &mut [i64]) {
    macro_rules! by_width {
        ($($width:literal)*) => {
            match width {
                $($width => unpack_width::<$width, SIGNED>(packed, out),)*
                _ => unpack_words::<SIGNED>(packed, out),
            }
        };
    }
    by_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 26 28 30 32 40 48 56)
}

/// 64-bit values.
fn unpack_words<const SIGNED: bool>(packed: &[u8], out: &mut [i64]) {
    let (words, _) = packed.as_chunks::<8>();
    for (value, word) in out.iter_mut().zip(words) {
        let raw = u64::from_be_bytes(*word);
        *value = if SIGNED { unzigzag(raw) } else { raw as i64 };
    }
}

/// Eight values of `W` (at most 56) bits are `W` bytes; each lies in one unaligned 64-bit word.
fn unpack_width<const W: usize, const SIGNED: bool>(packed: &[u8], out: &mut [i64]) {
    let (blocks, tail) = out.as_chunks_mut::<8>();
    // End of the last value's word, counted from the block's first byte.
    let needed = 7 * W / 8 + 8;
    let mut offset = 0;
    for block in blocks {
        match packed.get(offset..offset + needed) {
            Some(bytes) => unpack_block::<W, SIGNED>(bytes, block),
            None => unpack_last::<W, SIGNED>(packed, offset, block),
        }
        offset += W;
    }
    if !tail.is_empty() {
        let mut block = [0; 8];
        unpack_last::<W, SIGNED>(packed, offset, &mut block);
        tail.copy_from_slice(&block[..tail.len()]);
    }
}

#[inline(always)]
fn unpack_block<const W: usize, const SIGNED: bool>(bytes: &[u8], block: &mut [i64; 8]) {
    for (i, value) in block.iter_mut().enumerate() {
        let bit = i * W;
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[bit / 8..bit / 8 + 8]);
        let raw = (u64::from_be_bytes(word) << (bit % 8)) >> (64 - W);
        *value = if SIGNED { unzigzag(raw) } else { raw as i64 };
    }
}

/// Unpacks a block near the end, where 64-bit words would reach beyond the packed bytes.
#[cold]
fn unpack_last<const W: usize, const SIGNED: bool>(packed: &[u8], offset: usize, block: &mut [i64; 8]) {
    let mut padded = [0; 64];
    let rest = packed.get(offset..).unwrap_or(&[]);
    let length = rest.len().min(W);
    padded[..length].copy_from_slice(&rest[..length]);
    unpack_block::<W, SIGNED>(&padded[..7 * W / 8 + 8], block);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs bit by bit.
    pub(crate) fn pack(values: &[u64], width: u32) -> Vec<u8> {
        let mut out = vec![0; packed_bytes(values.len(), width)];
        for (i, value) in values.iter().enumerate() {
            for b in 0..width as usize {
                let bit = i * width as usize + b;
                out[bit / 8] |= ((value >> (width as usize - 1 - b) & 1) as u8) << (7 - bit % 8);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn unpack_returns_every_part_at_every_width(
            words in proptest::collection::vec(any::<u64>(), 1..80),
            encoded in 0u8..32,
            part in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let width = decode_width(encoded);
            let values: Vec<u64> = words.iter().map(|word| word >> (64 - width)).collect();
            let packed = pack(&values, width);
            let (a, b) = (part.0.index(values.len() + 1), part.1.index(values.len() + 1));
            let (first, last) = (a.min(b), a.max(b));
            for signed in [false, true] {
                let mut out = vec![0; last - first];
                unpack(&packed, width, signed, first, &mut out);
                let expected: Vec<i64> = values[first..last]
                    .iter()
                    .map(|&v| if signed { unzigzag(v) } else { v as i64 })
                    .collect();
                prop_assert_eq!(out, expected);
            }
        }
    }

    #[test]
    fn widths_and_zigzag_follow_the_specification() {
        let pairs = [(0, 0), (1, -1), (2, 1), (u64::MAX, i64::MIN), (u64::MAX - 1, i64::MAX)];
        assert!(pairs.iter().all(|&(stored, value)| unzigzag(stored) == value));
        assert_eq!(
            [
                closest_width(1),
                closest_width(25),
                closest_width(33),
                closest_width(64)
            ],
            [1, 26, 40, 64]
        );
    }
}
