//! [`DictionaryDecoder`] of STRING, CHAR and VARCHAR: an index for each value and, once per stripe, the entries.

use std::sync::Arc;

use arrow::array::{ArrayRef, DictionaryArray, StringArray, UInt32Array, new_null_array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::bits::spread;
use super::char_text::without_padding;
use super::cursor::StreamSource;
use super::int::IntReader;
use super::presence::Presence;
use super::steps::{Step, Steps, read_count, reserve};
use super::string::{Lengths, replaced, spread_offsets, too_long};
use super::{Decoder, EntryPoint, MAX_READ_BYTES};
use crate::error::{LayoutError, Result};
use crate::proto::stream::Kind;
use crate::read_options::CharPadding;
use crate::schema::{ColumnId, TypeKind};
use crate::stripe::Encoding as ColumnEncoding;

/// Entries of up to this length are copied as a block of this size: a fixed size is cheaper than the exact length.
const COPY_BYTES: usize = 16;

/// The entries of a dictionary.
struct Entries {
    /// All arrays of the stripe share it.
    text: Arc<StringArray>,
    /// The same bytes and [`COPY_BYTES`] more, if all are ASCII: gathered text is then UTF-8 without a scan.
    ascii: Option<Vec<u8>>,
    /// Bytes of the longest.
    longest: usize,
}

impl Entries {
    fn new(text: StringArray) -> Self {
        let bytes = text.values().as_slice();
        let ascii = bytes.is_ascii().then(|| [bytes, &[0; COPY_BYTES]].concat());
        let lengths = text.value_offsets().windows(2).map(|at| (at[1] - at[0]) as usize);
        let longest = lengths.max().unwrap_or(0);
        let text = Arc::new(text);
        Self { text, ascii, longest }
    }

    /// Bytes of the entries of `indexes`, all in range.
    fn total_bytes(&self, indexes: &[u32]) -> u64 {
        let starts = self.text.value_offsets();
        let length = |&index: &u32| (starts[index as usize + 1] - starts[index as usize]) as u64;
        indexes.iter().map(length).sum()
    }

    /// All entries, and the dense `indexes` with nulls between them.
    fn coded(&self, indexes: Vec<u32>, nulls: Option<NullBuffer>) -> std::result::Result<ArrayRef, ArrowError> {
        let indexes = match &nulls {
            Some(nulls) => spread(indexes, nulls.inner()),
            None => indexes,
        };
        let keys = UInt32Array::new(indexes.into(), nulls);
        let entries = Arc::clone(&self.text) as ArrayRef;
        Ok(Arc::new(DictionaryArray::try_new(keys, entries)?))
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
            return take(self.text.as_ref(), &UInt32Array::new(indexes.into(), nulls), None).ok();
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

/// The type of a column that keeps its dictionaries.
pub(super) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
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
    let entries = DictionaryDecoder::open(source, column, encoding, false).load()?;
    Ok(Arc::unwrap_or_clone(entries.text))
}

/// STRING, CHAR, VARCHAR in dictionary encoding.
pub(super) struct DictionaryDecoder {
    presence: Presence,
    data: IntReader,
    indexes: Vec<u32>,
    entries: Option<Entries>,
    /// Arrays have the entries and an index for each value.
    keeps: bool,
    source: StreamSource,
    column: ColumnId,
    encoding: ColumnEncoding,
}

impl DictionaryDecoder {
    pub(super) fn open(source: &StreamSource, column: ColumnId, encoding: ColumnEncoding, keeps: bool) -> Self {
        Self {
            keeps,
            presence: Presence::open(source, column),
            data: IntReader::new(source.open(column, Kind::Data), encoding.kind, false),
            indexes: Vec::new(),
            entries: None,
            source: source.clone(),
            column,
            encoding,
        }
    }

    /// Checks the number of entries, before the entries are read. Every entry is the value of a row, or of an element
    /// of a list or a map.
    fn check_size(&self) -> Result<()> {
        let (size, rows) = (u64::from(self.encoding.dictionary_size), self.source.stripe.info.rows);
        if self.source.tail.schema.has_row_per_value(self.column) && size > rows {
            let reason = format!("the dictionary has {size} entries in a stripe of {rows} rows");
            return Err(self.source.corrupt(self.column, reason));
        }
        if size > MAX_READ_BYTES / size_of::<i32>() as u64 {
            return Err(self.too_large());
        }
        Ok(())
    }

    fn too_large(&self) -> LayoutError {
        let reason = format!("its dictionary takes more than {MAX_READ_BYTES} bytes");
        self.source.out_of_range(self.column, reason)
    }

    fn load(&self) -> Result<Entries> {
        self.check_size()?;
        let mut lengths = Lengths::open(&self.source, self.column, self.encoding.kind);
        let mut data = self.source.open(self.column, Kind::DictionaryData);
        let mut all = Steps::default();
        all.read(u64::from(self.encoding.dictionary_size));
        let mut spans = Steps::default();
        if lengths.select(all.as_slice(), &mut spans)?.is_none() {
            return Err(too_long(&self.source, self.column));
        }
        if read_count(spans.as_slice()) > MAX_READ_BYTES {
            return Err(self.too_large());
        }
        let mut bytes = Vec::new();
        data.read_spans(spans.as_slice(), &mut bytes)?;
        let (offsets, bytes) = (lengths.finish(None), Buffer::from_vec(bytes));
        let text = match StringArray::try_new(offsets.clone(), bytes.clone(), None) {
            Ok(text) => text,
            Err(_) => replaced(&self.source, self.column, &offsets, &bytes, None)?,
        };
        let is_char = matches!(self.source.tail.schema.column(self.column).kind, TypeKind::Char { .. });
        Ok(Entries::new(
            match is_char && self.source.options.char_padding == CharPadding::Removed {
                true => without_padding(&text),
                false => text,
            },
        ))
    }
}

impl Decoder for DictionaryDecoder {
    fn streams(&mut self, visit: &mut dyn FnMut(&mut dyn EntryPoint) -> Result<()>) -> Result<()> {
        self.presence.stream().map_or(Ok(()), &mut *visit)?;
        visit(&mut self.data)
    }

    fn select(&mut self, rows: &[Step]) -> Result<()> {
        let (indexes, size) = (&mut self.indexes, u64::from(self.encoding.dictionary_size));
        let steps = self.presence.select(rows)?;
        reserve(indexes, steps);
        self.data.select_blocks(steps, |data, block| {
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
            let data_type = match self.keeps {
                true => dictionary_type(),
                false => DataType::Utf8,
            };
            return Ok(new_null_array(&data_type, nulls.map_or(0, |nulls| nulls.len())));
        }
        let entries = match self.entries.take() {
            Some(entries) => entries,
            None => self.load()?,
        };
        if self.keeps {
            let array = entries.coded(indexes, nulls);
            self.entries = Some(entries);
            return array.map_err(|error| self.source.corrupt(self.column, error.to_string()));
        }
        // Most selections are far from the limit, and their entries need not be measured.
        let most = (indexes.len() as u64).saturating_mul(entries.longest as u64);
        let bytes = match most <= self.source.budget.limit() / 8 {
            true => most,
            false => entries.total_bytes(&indexes),
        };
        if let Err(error) = self.source.spend(self.column, bytes) {
            self.entries = Some(entries);
            return Err(error);
        }
        let array = entries.get(indexes, nulls);
        self.entries = Some(entries);
        array.ok_or_else(|| too_long(&self.source, self.column))
    }
}
