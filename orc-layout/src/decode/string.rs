//! [`DirectBytesDecoder`] of STRING, CHAR, VARCHAR and BINARY in direct encoding: bytes and lengths.

use std::sync::Arc;

use arrow::array::{ArrayRef, GenericByteArray, StringArray, StringBuilder};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::ByteArrayType;

use super::bits::spread_offsets;
use super::cursor::{StreamCursor, StreamSource};
use super::int::{BLOCK, IntReader};
use super::presence::Presence;
use super::steps::{Step, Steps, read_count};
use super::{Decoder, EntryPoint};
use crate::error::{LayoutError, Result};
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;
use crate::read_options::InvalidUtf8;
use crate::schema::ColumnId;

/// A LENGTH stream, as offsets of the measured items.
pub(super) struct Lengths {
    reader: IntReader,
    /// Start of each item read since the last array, and the end of the last one.
    offsets: Vec<i32>,
    block: Vec<i64>,
}

impl Lengths {
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: Encoding) -> Self {
        Self {
            reader: IntReader::new(source.open(column, Kind::Length), encoding, false),
            offsets: vec![0],
            block: Vec::new(),
        }
    }

    /// The stream, for visitors of entry points.
    pub(super) fn stream(&mut self) -> &mut dyn EntryPoint {
        &mut self.reader
    }

    /// Turns steps over items into steps over their parts. `None` if the items read since the last array have more than
    /// 2^31 - 1 parts.
    pub(super) fn select(&mut self, items: &[Step], parts: &mut Steps) -> Result<Option<()>> {
        for step in items {
            let skip = self.each_block(step.skip, |_, _| Some(()))?;
            parts.skip(skip.unwrap_or(0));
            let Some(read) = self.each_block(step.read, append_offsets)? else {
                return Ok(None);
            };
            parts.read(read);
        }
        Ok(Some(()))
    }

    /// Sum of the next `count` lengths. `each` sees every block of lengths; `None` from it ends the sum with `None`.
    fn each_block(
        &mut self,
        mut count: u64,
        each: impl Fn(&mut Vec<i32>, &[i64]) -> Option<()>,
    ) -> Result<Option<u64>> {
        let mut sum = 0;
        while count > 0 {
            let length = count.min(BLOCK as u64) as usize;
            if self.block.len() < length {
                self.block.resize(length, 0);
            }
            let block = &mut self.block[..length];
            self.reader.read(block)?;
            sum = self.reader.add_lengths(sum, block)?;
            if each(&mut self.offsets, block).is_none() {
                return Ok(None);
            }
            count -= length as u64;
        }
        Ok(Some(sum))
    }

    /// The offsets of every row's item: of length 0 for null rows.
    pub(super) fn finish(&mut self, nulls: Option<&NullBuffer>) -> OffsetBuffer<i32> {
        let dense = std::mem::replace(&mut self.offsets, vec![0]);
        let offsets = match nulls {
            Some(nulls) => spread_offsets(&dense, nulls.inner()),
            None => dense,
        };
        OffsetBuffer::new(offsets.into())
    }
}

/// Appends the ends of items of these (non-negative) lengths; `None` if an end does not fit 32 bits.
fn append_offsets(offsets: &mut Vec<i32>, lengths: &[i64]) -> Option<()> {
    let mut end = i64::from(*offsets.last()?);
    let total: i64 = lengths.iter().sum();
    i32::try_from(end.checked_add(total)?).ok()?;
    offsets.extend(lengths.iter().map(|length| {
        end += length;
        end as i32
    }));
    Some(())
}

/// Direct encoding.
pub(super) struct DirectBytesDecoder<T: ByteArrayType<Offset = i32>> {
    presence: Presence,
    data: StreamCursor,
    lengths: Lengths,
    spans: Steps,
    bytes: Vec<u8>,
    source: StreamSource,
    column: ColumnId,
    array: std::marker::PhantomData<fn() -> T>,
}

impl<T: ByteArrayType<Offset = i32>> DirectBytesDecoder<T> {
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: Encoding) -> Self {
        Self {
            presence: Presence::open(source, column),
            data: source.open(column, Kind::Data),
            lengths: Lengths::open(source, column, encoding),
            spans: Steps::default(),
            bytes: Vec::new(),
            source: source.clone(),
            column,
            array: std::marker::PhantomData,
        }
    }
}

impl<T: ByteArrayType<Offset = i32>> Decoder for DirectBytesDecoder<T> {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.data)?;
        visit(self.lengths.stream())
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        self.spans.clear();
        let values = self.presence.select(rows)?;
        if self.lengths.select(values, &mut self.spans)?.is_none() {
            return Err(too_long(&self.source, self.column));
        }
        self.source.spend(self.column, read_count(self.spans.as_slice()))?;
        self.data.read_spans(self.spans.as_slice(), &mut self.bytes)
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let offsets = self.lengths.finish(nulls.as_ref());
        let bytes = Buffer::from_vec(std::mem::take(&mut self.bytes));
        match GenericByteArray::<T>::try_new(offsets.clone(), bytes.clone(), nulls.clone()) {
            Ok(array) => Ok(Arc::new(array)),
            Err(_) => Ok(Arc::new(replaced(&self.source, self.column, &offsets, &bytes, nulls)?)),
        }
    }
}

/// The strings at `offsets` of `bytes`, which are not all UTF-8, with U+FFFD in place of what is not.
///
/// # Errors
/// If the options ask for an error.
pub(super) fn replaced(
    source: &StreamSource,
    column: ColumnId,
    offsets: &OffsetBuffer<i32>,
    bytes: &[u8],
    nulls: Option<NullBuffer>,
) -> Result<StringArray> {
    if source.options.invalid_utf8 == InvalidUtf8::Error {
        let reason = "a string is not valid UTF-8 (Latin-1?): SET grampus.invalid_utf8 = 'replace' reads U+FFFD there";
        return Err(source.out_of_range(column, reason));
    }
    let texts = offsets
        .windows(2)
        .map(|at| String::from_utf8_lossy(bytes.get(at[0] as usize..at[1] as usize).unwrap_or(&[])));
    let mut total = 0;
    let mut values = StringBuilder::with_capacity(offsets.len() - 1, bytes.len());
    for (row, text) in texts.enumerate() {
        total += text.len();
        if i32::try_from(total).is_err() {
            return Err(too_long(source, column));
        }
        let is_valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        values.append_option(is_valid.then_some(text));
    }
    Ok(values.finish())
}

/// The error for more text in one array than 32-bit offsets reach.
pub(super) fn too_long(source: &StreamSource, column: ColumnId) -> LayoutError {
    source.out_of_range(
        column,
        "the values selected at once take more than 2 GiB; read fewer rows at a time",
    )
}
