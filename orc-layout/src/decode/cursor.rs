//! [`StreamCursor`], a position in one stream. The cursor fetches through the [`ByteSource`], decompresses one chunk at
//! a time and returns uncompressed bytes to the decoders above.

use std::sync::Arc;

use bytes::Bytes;

use super::EntryPoint;
use super::budget::Budget;
use super::entries::DictionaryShare;
use super::steps::{Step, is_sparse};
use crate::chunk::{ChunkHeader, HEADER_BYTES};
use crate::codec::{self, Compression};
use crate::error::{LayoutError, Result};
use crate::positions::{GroupEnd, StreamPosition};
use crate::proto::stream::Kind;
use crate::read_options::ReadOptions;
use crate::schema::ColumnId;
use crate::source::ByteSource;
use crate::stripe::StripeLayout;
use crate::tail::FileTail;

/// Largest read of an uncompressed stream.
const WINDOW_BYTES: u64 = 256 * 1024;

/// Bytes of an uncompressed stream read beyond the wanted row groups: the run that straddles their end.
const OVERRUN_BYTES: u64 = 512;

/// Shared context of all streams of a column reader.
#[derive(Clone)]
pub(super) struct StreamSource {
    pub(super) tail: Arc<FileTail>,
    pub(super) stripe: Arc<StripeLayout>,
    pub(super) source: Arc<dyn ByteSource>,
    /// The limit of the running read.
    pub(super) budget: Arc<Budget>,
    pub(super) options: ReadOptions,
    /// The dictionaries of the stripe; `None`: each decoder has its own.
    pub(super) dictionaries: Option<Arc<dyn DictionaryShare>>,
}

impl StreamSource {
    /// Counts bytes that a column is about to decode.
    ///
    /// # Errors
    /// `TooLarge` if the running read may not decode as many.
    pub(super) fn spend(&self, column: ColumnId, bytes: u64) -> Result<()> {
        match self.budget.spend(bytes) {
            true => Ok(()),
            false => Err(self.too_large(column)),
        }
    }

    #[cold]
    fn too_large(&self, column: ColumnId) -> LayoutError {
        LayoutError::TooLarge {
            file: self.tail.file.clone(),
            column: self.tail.schema.path(column),
            rows: 0, // the reader knows
            limit_bytes: self.budget.limit(),
        }
    }

    /// A cursor at the start of a stream. Without such a stream in the stripe, the cursor is at its end.
    pub(super) fn open(&self, column: ColumnId, kind: Kind) -> StreamCursor {
        let (start, end, missing) = match self.stripe.stream(column, kind) {
            Some(stream) => (stream.offset, stream.offset.saturating_add(stream.length), false),
            None => (self.stripe.info.offset, self.stripe.info.offset, true),
        };
        StreamCursor {
            stream: self.clone(),
            column,
            kind,
            missing,
            start,
            end,
            compression: self.tail.compression,
            shared: Bytes::new(),
            unpacked: Vec::new(),
            is_unpacked: false,
            at: 0,
            block_start: start,
            next: start,
            pending: 0,
            peeked: None,
            limit: end,
            last: end,
        }
    }

    /// Whether the stripe has a non-empty stream of this kind.
    pub(super) fn has(&self, column: ColumnId, kind: Kind) -> bool {
        self.stripe.stream(column, kind).is_some_and(|stream| stream.length > 0)
    }

    /// "column 7 (trip.fare)".
    pub(super) fn describe(&self, column: ColumnId) -> String {
        format!("column {column} ({})", self.tail.schema.path(column))
    }

    /// A `Corrupt` error about a column of this stripe as a whole.
    pub(super) fn corrupt(&self, column: ColumnId, reason: impl Into<String>) -> LayoutError {
        LayoutError::Corrupt {
            file: self.tail.file.clone(),
            offset: self.stripe.info.offset,
            place: format!("stripe {} {}", self.stripe.info.index, self.describe(column)),
            reason: reason.into(),
        }
    }

    /// An `OutOfRange` error about a column.
    pub(super) fn out_of_range(&self, column: ColumnId, reason: impl Into<String>) -> LayoutError {
        LayoutError::OutOfRange {
            file: self.tail.file.clone(),
            column: self.tail.schema.path(column),
            reason: reason.into(),
        }
    }
}

/// A read position in one stream, in uncompressed bytes.
///
/// The *block* holds the available bytes: a window of an uncompressed stream, or one chunk of a compressed one.
/// Uncompressed bytes and original chunks are the source's own (`shared`). Decompressed chunks share one buffer.
pub(super) struct StreamCursor {
    stream: StreamSource,
    column: ColumnId,
    kind: Kind,
    missing: bool,
    /// Absolute bounds of the stream.
    start: u64,
    end: u64,
    compression: Option<Compression>,
    shared: Bytes,
    unpacked: Vec<u8>,
    is_unpacked: bool,
    /// Next byte in the block.
    at: usize,
    /// Absolute offset of the block: of its chunk header, if the stream is compressed.
    block_start: u64,
    /// Absolute offset of the first byte after the block.
    next: u64,
    /// Bytes to skip in the next block, once it is loaded: a seek reads nothing.
    pending: usize,
    /// The header of the chunk at this offset, if it was read before the chunk's body.
    peeked: Option<(u64, ChunkHeader)>,
    /// Absolute offset that windows do not cross without need.
    limit: u64,
    /// Absolute offset of the latest end of the run or chunk that straddles `limit`. No window reaches beyond it before
    /// everything up to it has been read.
    last: u64,
}

impl StreamCursor {
    /// The available bytes; empty does not mean the end, see [`fill`](Self::fill).
    #[inline]
    pub(super) fn rest(&self) -> &[u8] {
        self.block().get(self.at..).unwrap_or(&[])
    }

    #[inline]
    fn block(&self) -> &[u8] {
        if self.is_unpacked { &self.unpacked } else { &self.shared }
    }

    /// The part of the block that [`contiguous`](Self::contiguous) named; valid until the cursor moves on.
    #[inline]
    pub(super) fn part(&self, start: usize, end: usize) -> &[u8] {
        self.block().get(start..end).unwrap_or(&[])
    }

    /// Moves over bytes that [`rest`](Self::rest) returned.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.rest().len());
        self.at += count;
    }

    /// Makes [`rest`](Self::rest) non-empty if the stream has more bytes; false at its end. `wanted` is the approximate
    /// number of bytes that will be needed.
    pub(super) fn fill(&mut self, wanted: usize) -> Result<bool> {
        while self.rest().is_empty() {
            if self.next >= self.end {
                if self.pending > 0 {
                    return Err(self.corrupt("an entry point lies beyond the end of the stream"));
                }
                return Ok(false);
            }
            match self.compression {
                None => self.load_window(wanted as u64)?,
                Some(compression) => self.load_chunk(compression)?,
            }
            if self.pending > self.block().len() {
                return Err(self.corrupt("an entry point lies beyond the end of its chunk"));
            }
            self.at = std::mem::take(&mut self.pending);
        }
        Ok(true)
    }

    fn load_window(&mut self, wanted: u64) -> Result<()> {
        let length = match self.limit.checked_sub(self.next) {
            Some(ahead @ 1..) => ahead.min(WINDOW_BYTES.max(wanted)),
            _ => {
                let length = wanted.clamp(OVERRUN_BYTES, WINDOW_BYTES);
                match self.last.checked_sub(self.next) {
                    Some(ahead @ 1..) => ahead.min(length),
                    _ => length,
                }
            }
        }
        .min(self.end - self.next);
        self.shared = self.stream.source.read(self.next..self.next + length)?;
        if self.shared.len() as u64 != length {
            return Err(self.corrupt("the source returned fewer bytes than it was asked for"));
        }
        self.is_unpacked = false;
        self.at = 0;
        self.block_start = self.next;
        self.next += length;
        Ok(())
    }

    /// The next chunk's header, and the bytes read: the header and up to `more` bytes of the body.
    fn chunk_header(&self, more: usize) -> Result<(ChunkHeader, Bytes)> {
        let body = self.next + HEADER_BYTES as u64;
        if body > self.end {
            return Err(self.corrupt_at(self.next, "a chunk header is cut off"));
        }
        let bytes = self.stream.source.read(self.next..self.end.min(body + more as u64))?;
        let header = ChunkHeader::first_of(&bytes)
            .ok_or_else(|| self.corrupt_at(self.next, "the source returned fewer bytes than it was asked for"))?;
        if u64::from(header.length) > self.end - body {
            let (length, left) = (header.length, self.end - body);
            return Err(self.corrupt_at(self.next, format!("a chunk of {length} bytes with {left} bytes left")));
        }
        Ok((header, bytes))
    }

    fn load_chunk(&mut self, compression: Compression) -> Result<()> {
        let header = match self.peeked.take() {
            Some((at, header)) if at == self.next => header,
            _ => self.chunk_header(0)?.0,
        };
        let body = self.next + HEADER_BYTES as u64;
        let end = body + u64::from(header.length);
        self.block_start = self.next;
        self.at = 0;
        let bytes = self.stream.source.read(body..end)?;
        self.is_unpacked = !header.original;
        if header.original {
            self.shared = bytes;
        } else {
            codec::decompress_over(compression.codec, compression.block_size(), &bytes, &mut self.unpacked)
                .map_err(|reason| self.corrupt_at(self.next, reason))?;
        }
        self.next = end;
        Ok(())
    }

    /// Moves forward by `count` bytes. Skipped bytes of an uncompressed stream are not fetched, nor skipped chunks that
    /// state their length.
    pub(super) fn skip(&mut self, mut count: u64) -> Result<()> {
        loop {
            let at_hand = self.rest().len() as u64;
            if count <= at_hand {
                self.at += count as usize;
                return Ok(());
            }
            count -= at_hand;
            self.at += at_hand as usize;
            if self.compression.is_none() {
                let target = self
                    .next
                    .checked_add(self.pending as u64)
                    .and_then(|from| from.checked_add(count));
                return match target {
                    Some(target) if target <= self.end => {
                        self.jump(target, 0);
                        Ok(())
                    }
                    _ => Err(self.ends_early()),
                };
            }
            if let Some((length, next)) = self.next_chunk_length()?
                && (self.pending as u64..=self.pending as u64 + count).contains(&length)
            {
                count -= length - self.pending as u64;
                self.jump(next, 0);
                continue;
            }
            if !self.fill(0)? {
                return Err(self.ends_early());
            }
        }
    }

    /// Length and end of the next chunk, if the length is known without decompressing the chunk.
    fn next_chunk_length(&mut self) -> Result<Option<(u64, u64)>> {
        let Some(compression) = self.compression.filter(|_| self.next < self.end) else {
            return Ok(None);
        };
        let (header, bytes) = self.chunk_header(codec::stated_length_bytes(compression.codec))?;
        self.peeked = Some((self.next, header));
        let end = self.next + HEADER_BYTES as u64 + u64::from(header.length);
        let stored = bytes.get(HEADER_BYTES..).unwrap_or(&[]);
        let stored = &stored[..stored.len().min(header.length as usize)];
        let length = if header.original {
            Some(u64::from(header.length))
        } else {
            codec::stated_length(compression.codec, stored)
        };
        Ok(length.map(|length| (length, end)))
    }

    /// Drops the block and goes to `skip` bytes into the block that starts at the absolute offset `target`.
    fn jump(&mut self, target: u64, skip: usize) {
        self.shared = Bytes::new();
        self.is_unpacked = false;
        self.at = 0;
        self.block_start = target;
        self.next = target;
        self.pending = skip;
    }

    /// The next byte.
    #[inline]
    pub(super) fn read_u8(&mut self) -> Result<u8> {
        loop {
            if let Some(&byte) = self.rest().first() {
                self.at += 1;
                return Ok(byte);
            }
            if !self.fill(1)? {
                return Err(self.ends_early());
            }
        }
    }

    /// Base-128 varint, least significant group first, as 64 bits.
    #[inline]
    pub(super) fn read_varint(&mut self) -> Result<u64> {
        let rest = self.rest();
        let mut value = 0u64;
        for (i, &byte) in rest.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.at += i + 1;
                return Ok(value);
            }
        }
        self.read_varint_bytewise()
    }

    fn read_varint_bytewise(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for i in 0..10 {
            let byte = self.read_u8()?;
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.corrupt("a variable-length integer has more than 64 bits"))
    }

    /// Appends the next `count` bytes to `out`, which grows as the bytes arrive.
    pub(super) fn read_into(&mut self, mut count: usize, out: &mut Vec<u8>) -> Result<()> {
        if self.compression.is_none() && count as u64 > self.bytes_left() {
            return Err(self.ends_early());
        }
        while count > 0 {
            if !self.fill(count)? {
                return Err(self.ends_early());
            }
            let length = self.rest().len().min(count);
            out.extend_from_slice(&self.rest()[..length]);
            self.at += length;
            count -= length;
        }
        Ok(())
    }

    /// The next `count` bytes (at most a run's) without a gap. Bytes that lie in the block are returned as bounds for
    /// [`part`](Self::part); others are copied to `scratch`.
    #[inline]
    pub(super) fn contiguous(&mut self, count: usize, scratch: &mut Vec<u8>) -> Result<Option<(usize, usize)>> {
        let start = self.at;
        if start + count <= self.block().len() {
            self.at += count;
            return Ok(Some((start, self.at)));
        }
        scratch.clear();
        self.read_into(count, scratch)?;
        Ok(None)
    }

    /// Appends the bytes that `spans` select. If an uncompressed stream is selected sparsely, only the selected bytes
    /// are fetched.
    pub(super) fn read_spans(&mut self, spans: &[Step], out: &mut Vec<u8>) -> Result<()> {
        let sparse = self.compression.is_none() && is_sparse(spans);
        let limit = self.limit;
        let mut result = Ok(());
        for span in spans {
            result = self.skip(span.skip);
            if sparse {
                // The window ends with the span.
                self.limit = self.position().saturating_add(span.read);
            }
            result = result.and_then(|()| self.read_into(span.read as usize, out));
            if result.is_err() {
                break;
            }
        }
        self.limit = limit;
        result
    }

    /// Whether the bytes at [`position`](Self::position) are stored uncompressed in the file.
    pub(super) fn is_raw(&self) -> bool {
        self.compression.is_none()
    }

    /// Absolute offset of the next byte of an uncompressed stream.
    pub(super) fn position(&self) -> u64 {
        self.next - self.rest().len() as u64 + self.pending as u64
    }

    /// Bytes left in an uncompressed stream.
    pub(super) fn bytes_left(&self) -> u64 {
        self.end.saturating_sub(self.position())
    }

    /// The source of an uncompressed stream, for reads around the cursor.
    pub(super) fn source(&self) -> &dyn ByteSource {
        &*self.stream.source
    }

    /// A `Corrupt` error at the block.
    #[cold]
    pub(super) fn corrupt(&self, reason: impl Into<String>) -> LayoutError {
        self.corrupt_at(self.block_start, reason)
    }

    /// The error for a stream that has fewer values than its column.
    #[cold]
    pub(super) fn ends_early(&self) -> LayoutError {
        if self.missing {
            self.corrupt_at(self.start, "the stream is missing from the stripe")
        } else {
            self.corrupt_at(self.end, "the stream ends before the last of its values")
        }
    }

    #[cold]
    fn corrupt_at(&self, offset: u64, reason: impl Into<String>) -> LayoutError {
        let column = self.stream.describe(self.column);
        let kind = self.kind.as_str_name();
        LayoutError::Corrupt {
            file: self.stream.tail.file.clone(),
            offset,
            place: format!("stripe {} {column} {kind} stream", self.stream.stripe.info.index),
            reason: reason.into(),
        }
    }
}

impl EntryPoint for StreamCursor {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn seek(&mut self, at: StreamPosition) -> Result<()> {
        let target = self.start.checked_add(at.offset).filter(|&target| target <= self.end);
        let (Some(target), Ok(byte)) = (target, usize::try_from(at.byte_in_chunk)) else {
            return Err(self.corrupt("an entry point lies beyond the end of the stream"));
        };
        let loaded = !self.block().is_empty();
        match self.compression {
            None if loaded && (self.block_start..=self.next).contains(&target) => {
                self.at = (target - self.block_start) as usize;
            }
            Some(_) if loaded && self.block_start == target && byte <= self.block().len() => self.at = byte,
            _ => self.jump(target, byte),
        }
        Ok(())
    }

    fn limit(&mut self, end: Option<GroupEnd>) {
        let place = |offset: u64| self.start.saturating_add(offset).min(self.end);
        (self.limit, self.last) = end.map_or((self.end, self.end), |end| (place(end.next), place(end.last)));
    }
}
