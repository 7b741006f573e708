//! [`DictionaryDecoder`] of STRING, CHAR and VARCHAR: an index for each value and, once per stripe, the entries. If
//! there is no memory for all of them, each read decodes the entries of its rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringArray, new_null_array};
use arrow::buffer::{Buffer, NullBuffer};
use arrow::datatypes::DataType;

use super::char_text::without_padding;
use super::cursor::StreamSource;
use super::entries::Dictionary;
use super::int::IntReader;
use super::presence::Presence;
use super::steps::{Step, Steps, read_count, reserve};
use super::string::{Lengths, replaced, too_long};
use super::{Decoder, EntryPoint, MAX_READ_BYTES};
use crate::error::{LayoutError, Result};
use crate::proto::stream::Kind;
use crate::read_options::CharPadding;
use crate::schema::{ColumnId, TypeKind};
use crate::stripe::Encoding as ColumnEncoding;

/// The type of a column that keeps its dictionaries.
pub(super) fn dictionary_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// All entries of a column's dictionary.
pub(super) fn entries(source: &StreamSource, column: ColumnId) -> Result<StringArray> {
    let encoding = source.stripe.encodings.get(column as usize).copied();
    let Some(encoding) = encoding else {
        return Err(source.corrupt(column, "the stripe footer has no encoding for the column"));
    };
    let entries = DictionaryDecoder::open(source, column, encoding, false).load()?;
    Ok(entries.entries().as_ref().clone())
}

/// STRING, CHAR, VARCHAR in dictionary encoding.
pub(super) struct DictionaryDecoder {
    presence: Presence,
    data: IntReader,
    indexes: Vec<u32>,
    entries: Option<Arc<Dictionary>>,
    /// Whether there is no memory for the dictionary.
    is_partial: bool,
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
            is_partial: false,
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

    /// The dictionary, of which the readers of the stripe have one. `None`: there is no memory for it.
    fn shared(&self) -> Result<Option<Arc<Dictionary>>> {
        let Some(share) = &self.source.dictionaries else {
            return Ok(Some(Arc::new(self.load()?)));
        };
        self.check_size()?;
        let entries = u64::from(self.encoding.dictionary_size);
        let mut lengths = Lengths::open(&self.source, self.column, self.encoding.kind);
        let (all, mut spans) = (Step { skip: entries, read: 0 }, Steps::default());
        lengths.select(&[all], &mut spans)?;
        let text: u64 = spans.as_slice().iter().map(|span| span.skip).sum();
        if text > MAX_READ_BYTES {
            return Err(self.too_large());
        }
        share.get(self.column, Dictionary::size_of(entries, text), &mut || self.load())
    }

    /// All entries.
    fn load(&self) -> Result<Dictionary> {
        let mut all = Steps::default();
        all.read(u64::from(self.encoding.dictionary_size));
        self.decode(all.as_slice(), |bytes| {
            if bytes > MAX_READ_BYTES {
                Err(self.too_large())
            } else {
                Ok(())
            }
        })
    }

    /// The entries at `numbers`, which ascend. The read's limit bounds their text.
    fn load_some(&self, numbers: &[u32]) -> Result<Dictionary> {
        let (mut some, mut next) = (Steps::default(), 0);
        for &number in numbers {
            some.skip(u64::from(number) - next);
            some.read(1);
            next = u64::from(number) + 1;
        }
        self.decode(some.as_slice(), |bytes| self.source.spend(self.column, bytes))
    }

    /// Decodes some entries. `check` sees how many bytes their text has.
    fn decode(&self, entries: &[Step], check: impl FnOnce(u64) -> Result<()>) -> Result<Dictionary> {
        self.check_size()?;
        let mut lengths = Lengths::open(&self.source, self.column, self.encoding.kind);
        let mut data = self.source.open(self.column, Kind::DictionaryData);
        let mut spans = Steps::default();
        if lengths.select(entries, &mut spans)?.is_none() {
            return Err(too_long(&self.source, self.column));
        }
        check(read_count(spans.as_slice()))?;
        let mut bytes = Vec::new();
        data.read_spans(spans.as_slice(), &mut bytes)?;
        bytes.extend(Dictionary::padding());
        bytes.shrink_to_fit();
        let (offsets, bytes) = (lengths.finish(None), Buffer::from_vec(bytes));
        let text = match StringArray::try_new(offsets.clone(), bytes.clone(), None) {
            Ok(text) => text,
            Err(_) => replaced(&self.source, self.column, &offsets, &bytes, None)?,
        };
        let is_char = matches!(self.source.tail.schema.column(self.column).kind, TypeKind::Char { .. });
        Ok(Dictionary::new(
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
        if self.entries.is_none() && !self.is_partial {
            self.entries = self.shared()?;
            self.is_partial = self.entries.is_none();
        }
        let (indexes, entries) = match &self.entries {
            Some(entries) => (indexes, Arc::clone(entries)),
            None => {
                let mut numbers = indexes.clone();
                numbers.sort_unstable();
                numbers.dedup();
                let place = |index: &u32| numbers.binary_search(index).map_or(0, |place| place as u32);
                let places = indexes.iter().map(place).collect();
                (places, Arc::new(self.load_some(&numbers)?))
            }
        };
        if self.keeps {
            let array = entries.coded(indexes, nulls);
            return array.map_err(|error| self.source.corrupt(self.column, error.to_string()));
        }
        // Most selections are far from the limit, and their entries need not be measured.
        let most = (indexes.len() as u64).saturating_mul(entries.longest() as u64);
        let bytes = match most <= self.source.budget.limit() / 8 {
            true => most,
            false => entries.total_bytes(&indexes),
        };
        self.source.spend(self.column, bytes)?;
        entries
            .get(indexes, nulls)
            .ok_or_else(|| too_long(&self.source, self.column))
    }
}
