//! [`ByteRle`], a reader of byte run-length encoding (ORC v1, "Byte Run Length Encoding"): BYTE columns, union tags,
//! and the bytes below booleans.
//!
//! ```text
//! 0..=127   one byte follows, repeated 3 + control times
//! -128..=-1 -control literal bytes follow
//! ```

use super::EntryPoint;
use super::cursor::StreamCursor;
use crate::error::Result;
use crate::positions::{GroupEnd, StreamPosition};
use crate::proto::stream::Kind;

/// The run under way.
#[derive(Debug, Clone, Copy)]
enum Run {
    Repeat { byte: u8, left: usize },
    Literals { left: usize },
}

/// Available bytes of a byte stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bytes<'a> {
    /// One byte and the number of its repetitions.
    Repeat(u8, usize),
    /// Literal bytes.
    Literals(&'a [u8]),
}

/// Reader of a byte RLE stream.
pub(super) struct ByteRle {
    cursor: StreamCursor,
    run: Run,
}

impl ByteRle {
    pub(super) fn new(cursor: StreamCursor) -> Self {
        let run = Run::Literals { left: 0 };
        Self { cursor, run }
    }

    pub(super) fn cursor(&self) -> &StreamCursor {
        &self.cursor
    }

    /// At least one byte, without moving: the available part of the run.
    pub(super) fn peek(&mut self) -> Result<Bytes<'_>> {
        if let Run::Literals { left: 0 } | Run::Repeat { left: 0, .. } = self.run {
            let control = self.cursor.read_u8()?;
            self.run = if control < 0x80 {
                let byte = self.cursor.read_u8()?;
                let left = usize::from(control) + 3;
                Run::Repeat { byte, left }
            } else {
                let left = 256 - usize::from(control);
                Run::Literals { left }
            };
        }
        match self.run {
            Run::Repeat { byte, left } => Ok(Bytes::Repeat(byte, left)),
            Run::Literals { left } => {
                if !self.cursor.fill(left)? {
                    return Err(self.cursor.ends_early());
                }
                let rest = self.cursor.rest();
                Ok(Bytes::Literals(&rest[..rest.len().min(left)]))
            }
        }
    }

    /// Moves over bytes that [`peek`](Self::peek) returned.
    pub(super) fn consume(&mut self, count: usize) {
        match &mut self.run {
            Run::Repeat { left, .. } => *left -= count,
            Run::Literals { left } => {
                *left -= count;
                self.cursor.consume(count);
            }
        }
    }

    /// Skips `count` bytes.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<()> {
        while count > 0 {
            let at_hand = match self.peek()? {
                Bytes::Repeat(_, length) => length,
                Bytes::Literals(bytes) => bytes.len(),
            };
            let step = count.min(at_hand as u64);
            self.consume(step as usize);
            count -= step;
        }
        Ok(())
    }

    /// Appends `count` signed bytes to `out`.
    pub(super) fn read(&mut self, mut count: usize, out: &mut Vec<i8>) -> Result<()> {
        while count > 0 {
            let step = match self.peek()? {
                Bytes::Repeat(byte, length) => {
                    let step = length.min(count);
                    out.resize(out.len() + step, byte as i8);
                    step
                }
                Bytes::Literals(bytes) => {
                    let step = bytes.len().min(count);
                    out.extend(bytes[..step].iter().map(|&byte| byte as i8));
                    step
                }
            };
            self.consume(step);
            count -= step;
        }
        Ok(())
    }
}

impl EntryPoint for ByteRle {
    fn kind(&self) -> Kind {
        self.cursor.kind()
    }

    fn seek(&mut self, at: StreamPosition) -> Result<()> {
        self.cursor.seek(at)?;
        self.run = Run::Literals { left: 0 };
        self.skip(at.values_to_skip)
    }

    fn limit(&mut self, end: Option<GroupEnd>) {
        self.cursor.limit(end);
    }
}
