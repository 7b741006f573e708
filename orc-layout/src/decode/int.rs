//! [`IntReader`], an integer stream of either run-length encoding. The encoding is chosen once per stream.

use super::EntryPoint;
use super::cursor::StreamCursor;
use super::rle_v1::RleV1;
use super::rle_v2::RleV2;
use super::steps::Step;
use crate::error::Result;
use crate::positions::{GroupEnd, StreamPosition};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;

/// Values decoded at a time before they are narrowed or summed. A block of them fits the first-level cache.
pub(super) const BLOCK: usize = 1024;

/// Reader of an integer stream.
pub(super) enum IntReader {
    V1(RleV1),
    V2(RleV2),
}

impl IntReader {
    /// A reader of a stream of a column with this encoding.
    pub(super) fn new(cursor: StreamCursor, encoding: Encoding, signed: bool) -> Self {
        match encoding {
            Encoding::Direct | Encoding::Dictionary => Self::V1(RleV1::new(cursor, signed)),
            Encoding::DirectV2 | Encoding::DictionaryV2 => Self::V2(RleV2::new(cursor, signed)),
        }
    }

    pub(super) fn cursor(&self) -> &StreamCursor {
        match self {
            Self::V1(reader) => &reader.cursor,
            Self::V2(reader) => &reader.cursor,
        }
    }

    /// Fills `out` with the next values.
    #[inline]
    pub(super) fn read(&mut self, out: &mut [i64]) -> Result<()> {
        match self {
            Self::V1(reader) => reader.read(out),
            Self::V2(reader) => reader.read(out),
        }
    }

    /// Skips `count` values.
    #[inline]
    pub(super) fn skip(&mut self, count: u64) -> Result<()> {
        match self {
            Self::V1(reader) => reader.skip(count),
            Self::V2(reader) => reader.skip(count),
        }
    }

    /// Appends the values that `steps` select to `out`, which grows as values are found.
    pub(super) fn select(&mut self, steps: &[Step], out: &mut Vec<i64>) -> Result<()> {
        for step in steps {
            self.skip(step.skip)?;
            let mut left = step.read;
            while left > 0 {
                // A corrupt count must not cause an allocation before the stream has shown that many values.
                let part = left.min(1 << 16) as usize;
                let start = out.len();
                out.resize(start + part, 0);
                self.read(&mut out[start..])?;
                left -= part as u64;
            }
        }
        Ok(())
    }

    /// Passes the values that `steps` select to `each`, a block at a time.
    pub(super) fn select_blocks(
        &mut self,
        steps: &[Step],
        mut each: impl FnMut(&Self, &[i64]) -> Result<()>,
    ) -> Result<()> {
        let mut block = [0; BLOCK];
        for step in steps {
            self.skip(step.skip)?;
            let mut left = step.read;
            while left > 0 {
                let part = left.min(BLOCK as u64) as usize;
                self.read(&mut block[..part])?;
                each(self, &block[..part])?;
                left -= part as u64;
            }
        }
        Ok(())
    }

    /// The sum of `sum` and the lengths in `block`.
    ///
    /// # Errors
    /// `Corrupt` for negative lengths and sums beyond 64 bits.
    pub(super) fn add_lengths(&self, sum: u64, block: &[i64]) -> Result<u64> {
        // 1,024 lengths below 2^53 cannot overflow, and no valid file has longer ones.
        let seen = block.iter().fold(0, |seen, &length| seen | length as u64);
        if seen >> 53 != 0 {
            return Err(self.cursor().corrupt("a length is negative or absurdly large"));
        }
        let total = block.chunks(BLOCK).try_fold(sum, |sum, part| {
            sum.checked_add(part.iter().map(|&length| length as u64).sum())
        });
        total.ok_or_else(|| self.cursor().corrupt("the lengths add up to more than 64 bits"))
    }
}

impl EntryPoint for IntReader {
    fn kind(&self) -> Kind {
        self.cursor().kind()
    }

    fn seek(&mut self, at: StreamPosition) -> Result<()> {
        match self {
            Self::V1(reader) => {
                reader.cursor.seek(at)?;
                reader.restart();
            }
            Self::V2(reader) => {
                reader.cursor.seek(at)?;
                reader.restart();
            }
        }
        self.skip(at.values_to_skip)
    }

    fn limit(&mut self, end: Option<GroupEnd>) {
        match self {
            Self::V1(reader) => reader.cursor.limit(end),
            Self::V2(reader) => reader.cursor.limit(end),
        }
    }
}
