//! [`BitReader`] of boolean streams (ORC v1, "Boolean Run Length Encoding"): bits, most significant first, in byte RLE.
//! PRESENT streams have this form, so both reading and counting go by words.

use super::EntryPoint;
use super::bits::BitBuilder;
use super::byte_rle::{ByteRle, Bytes};
use super::cursor::StreamCursor;
use crate::error::Result;
use crate::positions::{GroupEnd, StreamPosition};
use crate::proto::stream::Kind;

/// Reader of a boolean stream.
pub(super) struct BitReader {
    bytes: ByteRle,
    /// Bits left of the byte begun, the next one lowest.
    partial: u64,
    partial_length: usize,
}

impl BitReader {
    pub(super) fn new(cursor: StreamCursor) -> Self {
        Self {
            bytes: ByteRle::new(cursor),
            partial: 0,
            partial_length: 0,
        }
    }

    /// Appends `count` bits to `out` and returns the number of set bits among them.
    pub(super) fn read(&mut self, count: u64, out: &mut BitBuilder) -> Result<u64> {
        self.walk(count, |bits, length| out.push(bits, length))
    }

    /// Skips `count` bits and returns the number of set bits among them.
    pub(super) fn skip(&mut self, count: u64) -> Result<u64> {
        self.walk(count, |_, _| {})
    }

    /// Visits `count` bits, up to 64 at a time, and counts the set ones.
    #[inline]
    fn walk(&mut self, mut count: u64, mut each: impl FnMut(u64, usize)) -> Result<u64> {
        let mut ones = self.take_partial(&mut count, &mut each);
        while count >= 8 {
            let whole = usize::try_from(count / 8).unwrap_or(usize::MAX);
            let used = match self.bytes.peek()? {
                Bytes::Repeat(byte, length) => {
                    let length = length.min(whole);
                    let word = u64::from_ne_bytes([byte.reverse_bits(); 8]);
                    ones += u64::from(byte.count_ones()) * length as u64;
                    for _ in 0..length / 8 {
                        each(word, 64);
                    }
                    let rest = length % 8 * 8;
                    if rest > 0 {
                        each(word & (u64::MAX >> (64 - rest)), rest);
                    }
                    length
                }
                Bytes::Literals(bytes) => {
                    let bytes = &bytes[..bytes.len().min(whole)];
                    let (words, rest) = bytes.as_chunks::<8>();
                    for word in words {
                        let bits = u64::from_be_bytes(*word).reverse_bits();
                        ones += u64::from(bits.count_ones());
                        each(bits, 64);
                    }
                    for byte in rest {
                        ones += u64::from(byte.count_ones());
                        each(u64::from(byte.reverse_bits()), 8);
                    }
                    bytes.len()
                }
            };
            self.bytes.consume(used);
            count -= used as u64 * 8;
        }
        if count > 0 {
            let byte = match self.bytes.peek()? {
                Bytes::Repeat(byte, _) => byte,
                Bytes::Literals(bytes) => bytes[0],
            };
            self.bytes.consume(1);
            self.partial = u64::from(byte.reverse_bits());
            self.partial_length = 8;
            ones += self.take_partial(&mut count, &mut each);
        }
        Ok(ones)
    }

    /// Uses up to `count` bits of the byte begun.
    #[inline]
    fn take_partial(&mut self, count: &mut u64, each: &mut impl FnMut(u64, usize)) -> u64 {
        let length = (*count).min(self.partial_length as u64) as usize;
        if length == 0 {
            return 0;
        }
        let bits = self.partial & (u64::MAX >> (64 - length));
        each(bits, length);
        self.partial >>= length;
        self.partial_length -= length;
        *count -= length as u64;
        u64::from(bits.count_ones())
    }
}

impl EntryPoint for BitReader {
    fn kind(&self) -> Kind {
        self.bytes.kind()
    }

    fn seek(&mut self, at: StreamPosition) -> Result<()> {
        self.bytes.seek(at)?;
        self.partial_length = 0;
        self.skip(u64::from(at.bits_to_skip)).map(|_| ())
    }

    fn limit(&mut self, end: Option<GroupEnd>) {
        self.bytes.limit(end);
    }
}
