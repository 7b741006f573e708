//! [`BitBuilder`], a bitmap under construction, and values spread over the set bits of a bitmap.

use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};

/// A bitmap in Arrow's order (least significant bit first) that grows by words.
#[derive(Debug, Default)]
pub(super) struct BitBuilder {
    words: Vec<u64>,
    length: usize,
}

impl BitBuilder {
    /// Appends the `count` (at most 64) low bits of `bits`; the higher bits must be zero.
    #[inline]
    pub(super) fn push(&mut self, bits: u64, count: usize) {
        debug_assert!(count <= 64 && (count == 64 || bits >> count == 0));
        if count == 0 {
            return;
        }
        let used = self.length % 64;
        self.length += count;
        if used == 0 {
            self.words.push(bits);
            return;
        }
        if let Some(last) = self.words.last_mut() {
            *last |= bits << used;
        }
        if used + count > 64 {
            self.words.push(bits >> (64 - used));
        }
    }

    /// The bitmap so far; starts a new one.
    pub(super) fn finish(&mut self) -> BooleanBuffer {
        let length = std::mem::take(&mut self.length);
        BooleanBuffer::new(Buffer::from_vec(std::mem::take(&mut self.words)), 0, length)
    }
}

/// The bitmap's words, low bit first; the last one's bits beyond the end are zero.
fn words(bits: &BooleanBuffer) -> impl Iterator<Item = (u64, usize)> + '_ {
    let chunks = bits.bit_chunks();
    let (remainder, rest) = (chunks.remainder_bits(), chunks.remainder_len());
    chunks
        .iter()
        .map(|word| (word, 64))
        .chain((rest > 0).then_some((remainder, rest)))
}

/// One item for each bit of `valid`: the next of `values` where the bit is true, `T::default()` where it is false.
/// `values` holds one value for each true bit.
pub(super) fn spread<T: Copy + Default>(mut values: Vec<T>, valid: &BooleanBuffer) -> Vec<T> {
    // Read when the last row has no value.
    values.push(T::default());
    let mut out = Vec::with_capacity(valid.len());
    let mut next = 0;
    for (mut word, length) in words(valid) {
        match word {
            u64::MAX => {
                out.extend_from_slice(&values[next..next + 64]);
                next += 64;
            }
            0 => out.resize(out.len() + length, T::default()),
            _ => out.extend((0..length).map(|_| {
                let present = word & 1 == 1;
                word >>= 1;
                let value = values[next];
                next += usize::from(present);
                if present { value } else { T::default() }
            })),
        }
    }
    out
}

/// One bit for each bit of `valid`: the next of `bits` where `valid` is true, false elsewhere. `bits` holds one bit for
/// each true bit.
pub(super) fn spread_bits(bits: &BooleanBuffer, valid: &BooleanBuffer) -> BooleanBuffer {
    let mut out = BitBuilder::default();
    let mut next = 0;
    for (word, length) in words(valid) {
        let mut spread = 0u64;
        let mut left = word;
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            spread |= u64::from(bits.value(next)) << at;
            next += 1;
        }
        out.push(spread, length);
    }
    out.finish()
}

/// The offsets of every row's item, of length 0 for null rows.
pub(super) fn spread_offsets(dense: &[i32], valid: &BooleanBuffer) -> Vec<i32> {
    let mut out = Vec::with_capacity(valid.len() + 1);
    let mut next = 0;
    out.push(dense[0]);
    out.extend(valid.iter().map(|present| {
        next += usize::from(present);
        dense[next]
    }));
    out
}

/// A null buffer; `None` without nulls.
pub(super) fn nulls(valid: BooleanBuffer) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(valid);
    (nulls.null_count() > 0).then_some(nulls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spread_puts_values_at_set_bits(
            runs in proptest::collection::vec((any::<bool>(), 0usize..128), 0..12),
            offset in 0usize..9,
        ) {
            let mut builder = BitBuilder::default();
            let mut naive = vec![];
            for (bit, count) in runs {
                for part in [count.min(64), count - count.min(64)] {
                    builder.push(if bit { u64::MAX.checked_shr(64 - part as u32).unwrap_or(0) } else { 0 }, part);
                }
                naive.extend(std::iter::repeat_n(bit, count));
            }
            let all = builder.finish();
            let offset = offset.min(all.len());
            let (valid, naive) = (all.slice(offset, all.len() - offset), &naive[offset..]);
            prop_assert_eq!(valid.iter().collect::<Vec<_>>(), naive);
            let count = valid.count_set_bits() as u32;
            let mut next = 0;
            let expected: Vec<u32> = naive.iter().map(|&bit| if bit { next += 1; next } else { 0 }).collect();
            prop_assert_eq!(spread((1..=count).collect(), &valid), expected);
            let dense: BooleanBuffer = (0..count).map(|i| i % 3 == 0).collect();
            let mut next = 0;
            let expected: Vec<bool> = naive.iter().map(|&bit| bit && { next += 1; (next - 1) % 3 == 0 }).collect();
            prop_assert_eq!(spread_bits(&dense, &valid).iter().collect::<Vec<_>>(), expected);
        }
    }
}
