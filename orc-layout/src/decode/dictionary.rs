//! [`DictionaryDecoder`] of STRING, CHAR and VARCHAR: an index for each value and, once per stripe, the entries.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::take;

use super::bits::spread;
use super::cursor::StreamSource;
use super::int::IntReader;
use super::presence::Presence;
use super::steps::{Step, Steps};
use super::string::{Lengths, spread_offsets, too_long};
use super::{Decoder, EntryPoint};
use crate::error::Result;
use crate::proto::stream::Kind;
use crate::schema::ColumnId;
use crate::stripe::Encoding as ColumnEncoding;

/// Entries of up to this length are copied as a block of this size: a fixed size is cheaper than the exact length.
const COPY_BYTES: usize = 16;

/// The entries of a dictionary.
struct Entries {
    text: StringArray,
    /// The same bytes and [`COPY_BYTES`] more, if all are ASCII: gathered text is then UTF-8 without a scan.
    ascii: Option<Vec<u8>>,
    /// Bytes of the longest.
    longest: usize,
}

impl Entries {
    /// The entries; `None` if the bytes are not UTF-8.
    fn new(offsets: OffsetBuffer<i32>, bytes: Vec<u8>) -> Option<Self> {
        let ascii = bytes.is_ascii().then(|| [&bytes[..], &[0; COPY_BYTES]].concat());
        let longest = offsets.windows(2).map(|at| (at[1] - at[0]) as usize).max().unwrap_or(0);
        let text = StringArray::try_new(offsets, Buffer::from_vec(bytes), None).ok()?;
        Some(Self { text, ascii, longest })
    }

    /// The entries of the dense `indexes` (all in range), with nulls between them. `None` if the text exceeds Arrow's
    /// limit.
    fn get(&self, indexes: Vec<u32>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        let most = indexes.len().checked_mul(self.longest)?;
        let ascii = self.ascii.as_deref().filter(|_| i32::try_from(most).is_ok());
        let Some(bytes) = ascii else {
            let indexes = match &nulls {
                Some(nulls) => spread(indexes, nulls.inner()),
                None => indexes,
            };
            return take(&self.text, &UInt32Array::new(indexes.into(), nulls), None).ok();
        };
        let starts = self.text.value_offsets();
        let lengths = indexes
            .iter()
            .map(|&index| (starts[index as usize + 1] - starts[index as usize]) as usize);
        let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
        let text = gather(&indexes, starts, bytes, offsets[indexes.len()] as usize);
        let offsets = match &nulls {
            Some(nulls) => OffsetBuffer::new(spread_offsets(&offsets, nulls.inner()).into()),
            None => offsets,
        };
        Some(Arc::new(
            StringArray::try_new(offsets, Buffer::from_vec(text), nulls).ok()?,
        ))
    }
}

/// The entries of `indexes`, one after the other: `total` bytes. `bytes` continues for [`COPY_BYTES`] after the last
/// entry.
fn gather(indexes: &[u32], starts: &[i32], bytes: &[u8], total: usize) -> Vec<u8> {
    let mut out = vec![0; total + COPY_BYTES];
    let mut at = 0;
    for &index in indexes {
        let (start, end) = (starts[index as usize] as usize, starts[index as usize + 1] as usize);
        let length = end - start;
        let block = bytes[start..].first_chunk::<COPY_BYTES>();
        let room = out[at..].first_chunk_mut::<COPY_BYTES>();
        match (room, block) {
            // The next entry overwrites the bytes after this one.
            (Some(room), Some(block)) if length <= COPY_BYTES => *room = *block,
            _ => out[at..at + length].copy_from_slice(&bytes[start..end]),
        }
        at += length;
    }
    out.truncate(total);
    out
}

/// All entries of a column's dictionary.
pub(super) fn entries(source: &StreamSource, column: ColumnId) -> Result<StringArray> {
    let encoding = source.stripe.encodings.get(column as usize).copied();
    let Some(encoding) = encoding else {
        return Err(source.corrupt(column, "the stripe footer has no encoding for the column"));
    };
    Ok(DictionaryDecoder::open(source, column, encoding).load()?.text)
}

/// STRING, CHAR, VARCHAR in dictionary encoding.
pub(super) struct DictionaryDecoder {
    presence: Presence,
    data: IntReader,
    indexes: Vec<u32>,
    entries: Option<Entries>,
    source: StreamSource,
    column: ColumnId,
    encoding: ColumnEncoding,
}

impl DictionaryDecoder {
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: ColumnEncoding) -> Self {
        Self {
            presence: Presence::open(source, column),
            data: IntReader::new(source.open(column, Kind::Data), encoding.kind, false),
            indexes: Vec::new(),
            entries: None,
            source: source.clone(),
            column,
            encoding,
        }
    }

    fn load(&self) -> Result<Entries> {
        let mut lengths = Lengths::open(&self.source, self.column, self.encoding.kind);
        let mut data = self.source.open(self.column, Kind::DictionaryData);
        let mut all = Steps::default();
        all.read(u64::from(self.encoding.dictionary_size));
        let mut spans = Steps::default();
        if lengths.select(all.as_slice(), &mut spans)?.is_none() {
            return Err(too_long(&self.source, self.column));
        }
        let mut bytes = Vec::new();
        data.read_spans(spans.as_slice(), &mut bytes)?;
        Entries::new(lengths.finish(None), bytes).ok_or_else(|| data.corrupt("a dictionary entry is not valid UTF-8"))
    }
}

impl Decoder for DictionaryDecoder {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.data)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let (indexes, size) = (&mut self.indexes, u64::from(self.encoding.dictionary_size));
        self.data.select_blocks(self.presence.select(rows)?, |data, block| {
            if block.iter().fold(0, |most, &index| (index as u64).max(most)) >= size {
                return Err(data
                    .cursor()
                    .corrupt(format!("an index lies beyond the {size} entries of the dictionary")));
            }
            indexes.extend(block.iter().map(|&index| index as u32));
            Ok(())
        })
    }

    fn finish(&mut self, parent: Option<&NullBuffer>) -> Result<ArrayRef> {
        let nulls = self.presence.finish(parent);
        let indexes = std::mem::take(&mut self.indexes);
        if indexes.is_empty() {
            return Ok(Arc::new(StringArray::new_null(nulls.map_or(0, |nulls| nulls.len()))));
        }
        let entries = match self.entries.take() {
            Some(entries) => entries,
            None => self.load()?,
        };
        let array = entries.get(indexes, nulls);
        self.entries = Some(entries);
        array.ok_or_else(|| too_long(&self.source, self.column))
    }
}
