//! [`Dictionary`]: the entries of a column's dictionary in a stripe, and [`DictionaryShare`], through which the readers
//! of a stripe have them once.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, DictionaryArray, StringArray, UInt32Array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::error::ArrowError;

use super::bits::{spread, spread_offsets};
use crate::error::Result;
use crate::schema::ColumnId;

/// Entries of up to this length are copied as a block of this size: a fixed size is cheaper than the exact length.
const COPY_BYTES: usize = 16;

/// Holds the dictionaries of one stripe for all readers of its columns.
pub trait DictionaryShare: Send + Sync {
    /// The dictionary of `column`, which takes `bytes` in memory and which `load` reads if no reader has it.
    ///
    /// `None`: there is no memory for it. Then each read decodes the entries of its rows alone.
    ///
    /// # Errors
    /// Those of `load`.
    fn get(
        &self,
        column: ColumnId,
        bytes: u64,
        load: &mut dyn FnMut() -> Result<Dictionary>,
    ) -> Result<Option<Arc<Dictionary>>>;
}

/// The entries of a dictionary.
pub struct Dictionary {
    /// All arrays of the stripe share it.
    text: Arc<StringArray>,
    /// Whether all bytes are ASCII, and [`COPY_BYTES`] more follow the last entry: gathered text is then UTF-8
    /// without a scan.
    is_ascii: bool,
    /// Bytes of the longest.
    longest: usize,
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.text.len();
        f.debug_struct("Dictionary")
            .field("entries", &entries)
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    pub(super) fn new(text: StringArray) -> Self {
        let text = padded(text);
        let bytes = text.values().as_slice();
        let is_ascii = has_padding(&text) && bytes.is_ascii();
        let lengths = text.value_offsets().windows(2).map(|at| (at[1] - at[0]) as usize);
        let longest = lengths.max().unwrap_or(0);
        let text = Arc::new(text);
        Self {
            text,
            is_ascii,
            longest,
        }
    }

    /// Bytes that follow the last entry, so that [`get`](Self::get) may copy blocks.
    pub(super) fn padding() -> [u8; COPY_BYTES] {
        [0; COPY_BYTES]
    }

    /// Bytes that a dictionary of `entries` entries takes whose text has `text` bytes.
    pub(super) fn size_of(entries: u64, text: u64) -> u64 {
        let offsets = entries.saturating_add(1).saturating_mul(size_of::<i32>() as u64);
        text.saturating_add(offsets).saturating_add(COPY_BYTES as u64)
    }

    /// The entries, in the order of their indexes.
    pub fn entries(&self) -> &Arc<StringArray> {
        &self.text
    }

    /// Bytes of the longest entry.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of the entries of `indexes`, all in range.
    pub(super) fn total_bytes(&self, indexes: &[u32]) -> u64 {
        let starts = self.text.value_offsets();
        let length = |&index: &u32| (starts[index as usize + 1] - starts[index as usize]) as u64;
        indexes.iter().map(length).sum()
    }

    /// All entries, and the dense `indexes` with nulls between them.
    pub(super) fn coded(
        &self,
        indexes: Vec<u32>,
        nulls: Option<NullBuffer>,
    ) -> std::result::Result<ArrayRef, ArrowError> {
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
    pub(super) fn get(&self, indexes: Vec<u32>, nulls: Option<NullBuffer>) -> Option<ArrayRef> {
        let most = indexes.len().checked_mul(self.longest)?;
        let is_copied = self.is_ascii && i32::try_from(most).is_ok();
        if !is_copied {
            let indexes = match &nulls {
                Some(nulls) => spread(indexes, nulls.inner()),
                None => indexes,
            };
            return take(self.text.as_ref(), &UInt32Array::new(indexes.into(), nulls), None).ok();
        }
        let bytes = self.text.values().as_slice();
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

/// Whether bytes follow the last entry that [`Dictionary::get`] may copy with it.
fn has_padding(text: &StringArray) -> bool {
    let end = text.value_offsets().last().map_or(0, |end| *end as usize);
    text.values().len() >= end + COPY_BYTES
}

/// The entries, with bytes behind the last one if all are ASCII.
fn padded(text: StringArray) -> StringArray {
    if has_padding(&text) || !text.values().is_ascii() {
        return text;
    }
    let bytes = [text.values().as_slice(), &Dictionary::padding()].concat();
    let offsets = text.offsets().clone();
    StringArray::try_new(offsets, Buffer::from_vec(bytes), None).unwrap_or(text)
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
