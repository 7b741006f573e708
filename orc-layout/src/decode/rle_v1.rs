//! [`RleV1`], a reader of integer run-length encoding, version 1 (ORC v1, "Run Length Encoding version 1"). Files of
//! Hive 0.11 have it, and columns of encoding DIRECT or DICTIONARY in any file.
//!
//! ```text
//! 0..=127   signed byte delta, varint base: 3 + control values, each delta more than the one before
//! -128..=-1 -control varints
//! ```

use super::bit_unpacking::unzigzag;
use super::cursor::StreamCursor;
use crate::error::Result;

#[derive(Debug, Clone, Copy)]
enum Run {
    /// The next value, and the difference to its successor.
    Sequence { next: i64, delta: i64 },
    /// Varints in the stream.
    Literals,
}

/// Reader of an RLE v1 stream.
pub(super) struct RleV1 {
    pub(super) cursor: StreamCursor,
    signed: bool,
    run: Run,
    left: usize,
}

impl RleV1 {
    pub(super) fn new(cursor: StreamCursor, signed: bool) -> Self {
        Self {
            cursor,
            signed,
            run: Run::Literals,
            left: 0,
        }
    }

    /// Forgets the run, after the cursor has moved.
    pub(super) fn restart(&mut self) {
        self.left = 0;
    }

    fn start_run(&mut self) -> Result<()> {
        let control = self.cursor.read_u8()?;
        if control < 0x80 {
            let delta = i64::from(self.cursor.read_u8()? as i8);
            let next = self.value()?;
            self.run = Run::Sequence { next, delta };
            self.left = usize::from(control) + 3;
        } else {
            self.run = Run::Literals;
            self.left = 256 - usize::from(control);
        }
        Ok(())
    }

    #[inline]
    fn value(&mut self) -> Result<i64> {
        let raw = self.cursor.read_varint()?;
        Ok(if self.signed { unzigzag(raw) } else { raw as i64 })
    }

    /// Fills `out` with the next values.
    pub(super) fn read(&mut self, mut out: &mut [i64]) -> Result<()> {
        while !out.is_empty() {
            if self.left == 0 {
                self.start_run()?;
            }
            let (part, rest) = out.split_at_mut(self.left.min(out.len()));
            self.left -= part.len();
            match &mut self.run {
                Run::Sequence { next, delta } => {
                    for value in part {
                        *value = *next;
                        *next = next.wrapping_add(*delta);
                    }
                }
                Run::Literals => {
                    for value in part {
                        *value = self.value()?;
                    }
                }
            }
            out = rest;
        }
        Ok(())
    }

    /// Skips `count` values.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            if self.left == 0 {
                self.start_run()?;
            }
            let step = count.min(self.left as u64);
            match &mut self.run {
                Run::Sequence { next, delta } => *next = next.wrapping_add(delta.wrapping_mul(step as i64)),
                Run::Literals => skip_varints(&mut self.cursor, step)?,
            }
            self.left -= step as usize;
            count -= step;
        }
        Ok(())
    }
}

/// Moves over `count` varints of any length: each ends with the first byte below 128.
pub(super) fn skip_varints(cursor: &mut StreamCursor, mut count: u64) -> Result<()> {
    while count > 0 {
        if !cursor.fill(usize::try_from(count).unwrap_or(usize::MAX))? {
            return Err(cursor.ends_early());
        }
        let mut used = 0;
        let (words, tail) = cursor.rest().as_chunks::<8>();
        for word in words {
            // A clear high bit ends a varint.
            let ends = u64::from((!u64::from_ne_bytes(*word) & 0x8080_8080_8080_8080).count_ones());
            if ends >= count {
                break;
            }
            count -= ends;
            used += 8;
        }
        let tail = if used == words.len() * 8 {
            tail
        } else {
            &words[used / 8][..]
        };
        for byte in tail {
            used += 1;
            count -= u64::from(*byte < 0x80);
            if count == 0 {
                break;
            }
        }
        cursor.consume(used);
    }
    Ok(())
}
