//! [`StringValues`] and [`BinaryValues`]: bytes and lengths, or (strings) a sorted dictionary and the values' numbers
//! in it (ORC v1, "String, Char, and VarChar Columns").
//!
//! A stripe's strings are collected as a dictionary until too many differ, or until the stripe ends.

use arrow::array::{AnyDictionaryArray, Array, ArrayAccessor, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use super::arrow_input::unexpected;
use super::byte_sequences::ByteSequences;
use super::dictionary::Dictionary;
use super::rle_v2::IntEncoder;
use super::statistics::{Statistics, Typed};
use super::stream::{OutStream, Storage, capacity_bytes};
use super::text_limit::TextLimit;
use crate::bloom::BloomFilter;
use crate::error::Result;
use crate::proto::column_encoding::Kind as Encoding;
use crate::proto::stream::Kind;

/// Number of values after which a dictionary that is too large is abandoned before the stripe ends.
const DECIDE_AFTER_VALUES: usize = 100_000;

/// Limit of a dictionary's bytes.
const MAX_DICTIONARY_BYTES: usize = 32 << 20;

/// Encoders of a binary column.
#[derive(Debug)]
pub(super) struct BinaryValues {
    sequences: ByteSequences,
}

impl BinaryValues {
    pub(super) fn new(storage: Storage) -> Self {
        Self {
            sequences: ByteSequences::new(storage),
        }
    }

    pub(super) fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        statistics: &mut Statistics,
        mut bloom: Option<&mut BloomFilter>,
    ) -> Result<()> {
        let mut bytes = 0;
        let mut push = |value: &[u8]| {
            bytes += value.len() as u64;
            if let Some(bloom) = &mut bloom {
                bloom.insert_bytes(value);
            }
            self.sequences.push(value)
        };
        match array.data_type() {
            DataType::Binary => each(array.as_binary::<i32>(), nulls, &mut push)?,
            DataType::LargeBinary => each(array.as_binary::<i64>(), nulls, &mut push)?,
            DataType::BinaryView => each(array.as_binary_view(), nulls, &mut push)?,
            DataType::FixedSizeBinary(_) => each(array.as_fixed_size_binary(), nulls, &mut push)?,
            other => return Err(unexpected("binary", other)),
        }
        if let Typed::Binary { total } = &mut statistics.typed {
            *total += bytes;
        }
        self.sequences.settle()
    }

    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        self.sequences.position(positions)
    }

    pub(super) fn finish(&mut self) -> Result<()> {
        self.sequences.finish()
    }

    pub(super) fn streams<'a>(&'a self, push: &mut impl FnMut(Kind, &'a OutStream, bool)) {
        push(Kind::Data, &self.sequences.data, false);
        push(Kind::Length, &self.sequences.lengths.stream, false);
    }

    pub(super) fn clear(&mut self) {
        self.sequences.clear();
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.sequences.buffered_bytes()
    }

    pub(super) fn memory_size(&self) -> usize {
        self.sequences.memory_size()
    }
}

/// Calls `push` with each non-null value.
fn each<A>(array: A, nulls: Option<&NullBuffer>, push: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()>
where
    A: ArrayAccessor,
    A::Item: AsRef<[u8]>,
{
    match nulls {
        None => (0..array.len()).try_for_each(|row| push(array.value(row).as_ref())),
        Some(nulls) => nulls
            .valid_indices()
            .try_for_each(|row| push(array.value(row).as_ref())),
    }
}

/// Encoders of a string column.
#[derive(Debug)]
pub(super) struct StringValues {
    threshold: f64,
    /// The limit of CHAR and VARCHAR.
    limit: Option<TextLimit>,
    /// DATA and LENGTH of a direct column; with a dictionary, the dictionary's bytes and lengths.
    sequences: ByteSequences,
    /// DATA of a dictionary column.
    numbers: IntEncoder,
    dictionary: Dictionary,
    /// The dictionary is abandoned for this stripe.
    direct: bool,
    /// Entries of the finished stripe's dictionary.
    entries: Option<u32>,
    /// Starts of row groups among the dictionary's values.
    starts: Vec<usize>,
    /// Positions of the row groups that began before the dictionary was abandoned.
    replayed: Vec<Vec<u64>>,
    /// Bounds of the slice being written.
    group: GroupBounds,
    mapped: Option<DictionaryMapping>,
}

/// Smallest and largest string of a slice of a row group.
#[derive(Debug, Default)]
struct GroupBounds {
    min: Vec<u8>,
    max: Vec<u8>,
    bytes: u64,
    any: bool,
    /// Dictionary entries that the bounds already include.
    seen: Vec<bool>,
}

impl GroupBounds {
    /// True at the first call for a dictionary entry.
    fn first_sight(&mut self, number: u32) -> bool {
        let number = number as usize;
        if number >= self.seen.len() {
            self.seen.resize(number + 1, false);
        }
        !std::mem::replace(&mut self.seen[number], true)
    }

    fn add(&mut self, value: &[u8]) {
        if !self.any {
            self.any = true;
            self.min.extend_from_slice(value);
            self.max.extend_from_slice(value);
        } else if value < self.min.as_slice() {
            self.min.clear();
            self.min.extend_from_slice(value);
        } else if value > self.max.as_slice() {
            self.max.clear();
            self.max.extend_from_slice(value);
        }
    }

    /// Adds the bounds to the row group's statistics.
    fn settle(&mut self, statistics: &mut Statistics) {
        // The values are UTF-8, because Arrow's string arrays are.
        if self.any
            && let (Ok(min), Ok(max)) = (str::from_utf8(&self.min), str::from_utf8(&self.max))
        {
            statistics.strings(min, max, self.bytes);
        }
        self.min.clear();
        self.max.clear();
        self.seen.clear();
        (self.bytes, self.any) = (0, false);
    }
}

/// Our numbers of an Arrow dictionary's entries, reused from batch to batch while the dictionary is the same.
#[derive(Debug)]
struct DictionaryMapping {
    entries: ArrayRef,
    numbers: Vec<u32>,
}

/// Marks an entry that has no number yet.
const UNMAPPED: u32 = u32::MAX;

impl StringValues {
    pub(super) fn new(storage: Storage, threshold: f64, limit: Option<TextLimit>) -> Self {
        Self {
            threshold,
            limit,
            sequences: ByteSequences::new(storage),
            numbers: IntEncoder::new(OutStream::new(storage), false),
            dictionary: Dictionary::default(),
            direct: threshold <= 0.0,
            entries: None,
            starts: Vec::new(),
            replayed: Vec::new(),
            group: GroupBounds::default(),
            mapped: None,
        }
    }

    pub(super) fn write(
        &mut self,
        array: &ArrayRef,
        nulls: Option<&NullBuffer>,
        statistics: &mut Statistics,
        mut bloom: Option<&mut BloomFilter>,
    ) -> Result<()> {
        let limited = self.limit.as_ref().map(|limit| limit.stored(array)).transpose()?;
        let array = limited.as_ref().unwrap_or(array);
        if let Some(dictionary) = array.as_any_dictionary_opt()
            && !self.direct
        {
            self.write_dictionary(dictionary, nulls, bloom);
        } else {
            let Self {
                sequences,
                dictionary,
                group,
                direct,
                ..
            } = self;
            let mut push = |value: &[u8]| {
                group.bytes += value.len() as u64;
                if *direct || group.first_sight(dictionary.push(value)) {
                    group.add(value);
                    if let Some(bloom) = &mut bloom {
                        bloom.insert_bytes(value);
                    }
                }
                if *direct { sequences.push(value) } else { Ok(()) }
            };
            each_string(array, nulls, &mut push)?;
        }
        self.group.settle(statistics);
        self.sequences.settle()?;
        let count = self.dictionary.values().len();
        if !self.direct
            && (count >= DECIDE_AFTER_VALUES && self.too_many(count) || self.dictionary.bytes() > MAX_DICTIONARY_BYTES)
        {
            self.write_direct_instead()?;
        }
        Ok(())
    }

    /// Writes values of an Arrow dictionary. Each entry is examined once, independent of the number of its rows.
    fn write_dictionary(
        &mut self,
        array: &dyn AnyDictionaryArray,
        nulls: Option<&NullBuffer>,
        mut bloom: Option<&mut BloomFilter>,
    ) {
        let entries = array.values();
        let same = |mapped: &DictionaryMapping| mapped.entries.to_data().ptr_eq(&entries.to_data());
        let mut mapped = self.mapped.take().filter(same).unwrap_or_else(|| DictionaryMapping {
            entries: entries.clone(),
            numbers: vec![UNMAPPED; entries.len()],
        });
        let mut keys = entry_numbers(array);
        if let Some(nulls) = nulls {
            keys = nulls.valid_indices().map(|row| keys[row]).collect();
        }
        let mut counts = vec![0u64; entries.len()];
        keys.iter().for_each(|&key| counts[key] += 1);
        for (key, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let value = string_at(entries, key);
            self.group.add(value);
            self.group.bytes += value.len() as u64 * count;
            if let Some(bloom) = &mut bloom {
                bloom.insert_bytes(value);
            }
            if mapped.numbers[key] == UNMAPPED {
                mapped.numbers[key] = self.dictionary.number(value);
            }
        }
        self.dictionary
            .push_numbers(keys.iter().map(|&key| mapped.numbers[key]));
        self.mapped = Some(mapped);
    }

    /// Whether bloom filters are made. CHAR has none: writers do not agree on the blanks in them.
    pub(super) fn has_bloom_filters(&self) -> bool {
        !self.limit.as_ref().is_some_and(TextLimit::is_filled)
    }

    fn too_many(&self, count: usize) -> bool {
        self.dictionary.entries() as f64 > self.threshold * count as f64
    }

    /// Writes the values collected so far as direct ones, with the positions that their row groups would have had.
    fn write_direct_instead(&mut self) -> Result<()> {
        let values = std::mem::take(&mut self.dictionary);
        let mut starts = std::mem::take(&mut self.starts).into_iter().peekable();
        self.replayed.clear();
        for (at, &number) in values.values().iter().enumerate() {
            while starts.next_if_eq(&at).is_some() {
                self.replay_position()?;
            }
            self.sequences.push(values.entry(number))?;
        }
        for _ in starts {
            self.replay_position()?;
        }
        self.direct = true;
        self.mapped = None;
        self.sequences.settle()
    }

    fn replay_position(&mut self) -> Result<()> {
        self.sequences.settle()?;
        let mut position = Vec::new();
        self.sequences.position(&mut position)?;
        self.replayed.push(position);
        Ok(())
    }

    pub(super) fn position(&mut self, positions: &mut Vec<u64>) -> Result<()> {
        if self.direct {
            return self.sequences.position(positions);
        }
        self.starts.push(self.dictionary.values().len());
        Ok(())
    }

    /// Makes the final decision, ends the streams and completes the positions.
    pub(super) fn finish(&mut self, mut positions: Vec<Vec<u64>>) -> Result<Vec<Vec<u64>>> {
        let count = self.dictionary.values().len();
        if !self.direct && (count == 0 || self.too_many(count)) {
            self.write_direct_instead()?;
        }
        if self.direct {
            for (position, replayed) in positions.iter_mut().zip(self.replayed.drain(..)) {
                *position = replayed;
            }
            self.sequences.finish()?;
            return Ok(positions);
        }
        let (order, ranks) = self.dictionary.sorted();
        for &number in &order {
            self.sequences.push(self.dictionary.entry(number))?;
        }
        self.entries = Some(order.len() as u32);
        self.sequences.settle()?;
        self.sequences.finish()?;
        self.write_numbers(&ranks, &mut positions)?;
        Ok(positions)
    }

    fn write_numbers(&mut self, ranks: &[u32], positions: &mut [Vec<u64>]) -> Result<()> {
        let values = self.dictionary.values();
        let mut scratch = Vec::new();
        let ends = self.starts.iter().skip(1).copied().chain([values.len()]);
        for ((position, &start), end) in positions.iter_mut().zip(&self.starts).zip(ends) {
            self.numbers.position(position)?;
            scratch.clear();
            scratch.extend(
                values[start..end]
                    .iter()
                    .map(|&number| i64::from(ranks[number as usize])),
            );
            self.numbers.write(&scratch)?;
        }
        self.numbers.flush()?;
        self.numbers.stream.flush()
    }

    pub(super) fn streams<'a>(&'a self, push: &mut impl FnMut(Kind, &'a OutStream, bool)) {
        if self.entries.is_some() {
            push(Kind::Data, &self.numbers.stream, false);
            push(Kind::DictionaryData, &self.sequences.data, false);
        } else {
            push(Kind::Data, &self.sequences.data, false);
        }
        push(Kind::Length, &self.sequences.lengths.stream, false);
    }

    pub(super) fn encoding(&self) -> (Encoding, Option<u32>) {
        match self.entries {
            Some(entries) => (Encoding::DictionaryV2, Some(entries)),
            None => (Encoding::DirectV2, None),
        }
    }

    pub(super) fn clear(&mut self) {
        self.sequences.clear();
        self.numbers.stream.clear();
        self.dictionary.clear();
        self.direct = self.threshold <= 0.0;
        self.entries = None;
        self.starts.clear();
        self.replayed.clear();
        self.mapped = None;
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.sequences.buffered_bytes() + self.dictionary.buffered_bytes()
    }

    /// An Arrow dictionary that rows came with is its caller's.
    pub(super) fn memory_size(&self) -> usize {
        let mapped = self.mapped.as_ref().map_or(0, |mapped| capacity_bytes(&mapped.numbers));
        self.sequences.memory_size()
            + self.numbers.memory_size()
            + self.dictionary.memory_size()
            + capacity_bytes(&self.starts)
            + self.group.seen.capacity()
            + mapped
    }
}

/// The number of each row's entry, and any number for a NULL. A dictionary without entries has NULLs alone,
/// and Arrow numbers none of them.
fn entry_numbers(array: &dyn AnyDictionaryArray) -> Vec<usize> {
    match array.values().is_empty() {
        true => vec![0; array.len()],
        false => array.normalized_keys(),
    }
}

fn each_string(array: &ArrayRef, nulls: Option<&NullBuffer>, push: &mut impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let keys = entry_numbers(dictionary);
        let mut push_key = |key: usize| push(string_at(dictionary.values(), key));
        return match nulls {
            None => keys.into_iter().try_for_each(&mut push_key),
            Some(nulls) => nulls.valid_indices().try_for_each(|row| push_key(keys[row])),
        };
    }
    match array.data_type() {
        DataType::Utf8 => each(array.as_string::<i32>(), nulls, push),
        DataType::LargeUtf8 => each(array.as_string::<i64>(), nulls, push),
        DataType::Utf8View => each(array.as_string_view(), nulls, push),
        other => Err(unexpected("string", other)),
    }
}

/// The string of an array of one of the string types.
fn string_at(array: &ArrayRef, row: usize) -> &[u8] {
    match array.data_type() {
        DataType::LargeUtf8 => array.as_string::<i64>().value(row).as_bytes(),
        DataType::Utf8View => array.as_string_view().value(row).as_bytes(),
        _ => array.as_string::<i32>().value(row).as_bytes(),
    }
}
