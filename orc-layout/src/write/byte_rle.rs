//! [`ByteRuns`], byte run-length encoding, and [`Bits`], bit streams on top of it (ORC v1, "Byte Run Length Encoding",
//! "Boolean Run Length Encoding").

use arrow::array::BooleanBufferBuilder;

use super::run_encoder::{RunEncoder, Runs};
use super::stream::OutStream;
use crate::error::Result;

/// Longest run of equal bytes.
const MAX_REPEAT: usize = 130;
/// Shortest run of equal bytes.
const MIN_REPEAT: usize = 3;
/// Longest run of literal bytes.
const MAX_LITERALS: usize = 128;
/// Bytes that are collected before runs are chosen for them.
const PENDING_BYTES: usize = 4096;

/// Runs of bytes.
#[derive(Debug)]
pub(super) struct ByteRuns;

impl Runs for ByteRuns {
    type Value = u8;

    fn encode(&self, values: &[u8], out: &mut Vec<u8>) {
        encode_bytes(values, out);
    }
}

/// Encodes bytes into a stream.
pub(super) type ByteEncoder = RunEncoder<ByteRuns>;

impl ByteEncoder {
    pub(super) fn new(stream: OutStream) -> Self {
        Self::over(stream, ByteRuns)
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: impl IntoIterator<Item = u8>) -> Result<()> {
        for byte in bytes {
            self.pending.push(byte);
            if self.pending.len() == PENDING_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut literals_from = 0;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        let limit = bytes.len().min(at + MAX_REPEAT);
        let repeat = bytes[at..limit].iter().take_while(|&&other| other == byte).count();
        if repeat >= MIN_REPEAT {
            push_literals(&bytes[literals_from..at], out);
            out.extend_from_slice(&[(repeat - MIN_REPEAT) as u8, byte]);
            literals_from = at + repeat;
        }
        at += repeat;
    }
    push_literals(&bytes[literals_from..], out);
}

fn push_literals(bytes: &[u8], out: &mut Vec<u8>) {
    for run in bytes.chunks(MAX_LITERALS) {
        out.push((run.len() as u8).wrapping_neg());
        out.extend_from_slice(run);
    }
}

/// Bits of a stripe (nulls, booleans), kept unencoded until the stripe ends: only then is it known whether the stream
/// is needed.
#[derive(Debug, Default)]
pub(super) struct Bits {
    bits: Option<BooleanBufferBuilder>,
    /// Bits before the first false one; used while `bits` is `None`.
    leading_true: usize,
}

impl Bits {
    /// Appends `count` true bits.
    pub(super) fn push_true(&mut self, count: usize) {
        match &mut self.bits {
            Some(bits) => bits.append_n(count, true),
            None => self.leading_true += count,
        }
    }

    /// Appends bits.
    pub(super) fn push(&mut self, more: &arrow::buffer::BooleanBuffer) {
        let leading_true = self.leading_true;
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(leading_true + more.len());
            bits.append_n(leading_true, true);
            bits
        });
        bits.append_buffer(more);
    }

    /// Bits so far.
    pub(super) fn len(&self) -> usize {
        self.bits.as_ref().map_or(self.leading_true, BooleanBufferBuilder::len)
    }

    /// True if only [`push_true`](Self::push_true) was called.
    pub(super) fn all_true(&self) -> bool {
        self.bits.is_none()
    }

    /// Bytes held in memory, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| bits.len() / 8)
    }

    /// Starts anew.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Encodes all bits; `starts` are the bit numbers at which row groups begin. Returns each group's positions: the
    /// stream's, no byte of a run to skip, and the bits of the byte that belong to the previous group.
    pub(super) fn encode(&self, starts: &[usize], encoder: &mut ByteEncoder) -> Result<Vec<Vec<u64>>> {
        let length = self.len();
        let byte_at = |at: usize| match &self.bits {
            // Arrow counts bits from the least significant one, ORC from the most significant one.
            Some(bits) => bits.as_slice()[at].reverse_bits(),
            None if (at + 1) * 8 <= length => 0xff,
            None => 0xff << (8 - length % 8),
        };
        let mut positions = Vec::with_capacity(starts.len());
        let mut done = 0;
        for &start in starts {
            encoder.write((done..start / 8).map(byte_at))?;
            done = done.max(start / 8);
            let mut position = Vec::new();
            encoder.position(&mut position)?;
            position.push((start % 8) as u64);
            positions.push(position);
        }
        encoder.write((done..length.div_ceil(8)).map(byte_at))?;
        encoder.flush()?;
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::stream::Storage;
    use arrow::buffer::BooleanBuffer;
    use proptest::prelude::*;

    /// The specification, read backwards.
    fn decode(mut bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![];
        while let Some((&header, rest)) = bytes.split_first() {
            if (header as i8) < 0 {
                let count = (header as i8).unsigned_abs() as usize;
                out.extend_from_slice(&rest[..count]);
                bytes = &rest[count..];
            } else {
                out.extend(std::iter::repeat_n(rest[0], header as usize + 3));
                bytes = &rest[1..];
            }
        }
        out
    }

    #[test]
    fn byte_runs_equal_the_specifications_examples() {
        let mut out = vec![];
        encode_bytes(&[0; 100], &mut out);
        assert_eq!(out, [0x61, 0x00]);
        out.clear();
        encode_bytes(&[0x44, 0x45], &mut out);
        assert_eq!(out, [0xfe, 0x44, 0x45]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn byte_runs_round_trip(runs in proptest::collection::vec((any::<u8>(), 1usize..300), 0..20)) {
            let length = |n: usize| if n.is_multiple_of(3) { n } else { n % 5 };
            let bytes: Vec<u8> = runs.iter().flat_map(|&(b, n)| std::iter::repeat_n(b, length(n))).collect();
            let mut encoder = ByteEncoder::new(OutStream::new(Storage::Raw));
            encoder.write(bytes.iter().copied()).unwrap();
            encoder.flush().unwrap();
            let mut out = vec![];
            encoder.stream.write_to(&mut out).unwrap();
            prop_assert_eq!(decode(&out), bytes);
        }

        #[test]
        fn bits_round_trip_from_every_group(
            groups in proptest::collection::vec(proptest::collection::vec(any::<bool>(), 0..40), 1..12),
            leading in 0usize..50,
        ) {
            let mut bits = Bits::default();
            let mut all = vec![true; leading];
            bits.push_true(leading);
            let mut starts = vec![];
            for group in &groups {
                starts.push(bits.len());
                bits.push(&BooleanBuffer::from(group.clone()));
                all.extend(group);
            }
            let mut encoder = ByteEncoder::new(OutStream::new(Storage::Raw));
            let positions = bits.encode(&starts, &mut encoder).unwrap();
            let mut out = vec![];
            encoder.stream.write_to(&mut out).unwrap();
            for (position, start) in positions.iter().zip(starts) {
                let bytes = decode(&out[position[0] as usize..]);
                let read = |i: usize| bytes[i / 8] >> (7 - i % 8) & 1 == 1;
                for (i, &expected) in all[start..].iter().enumerate() {
                    prop_assert_eq!(read(position[2] as usize + i), expected);
                }
            }
        }
    }
}
