//! [`Dictionary`], the distinct strings of a stripe, numbered in the order of their first appearance, and each value's
//! number.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::stream::capacity_bytes;

/// A growing dictionary.
#[derive(Debug, Default)]
pub(super) struct Dictionary {
    hasher: DefaultHashBuilder,
    /// Numbers by their string.
    table: HashTable<u32>,
    /// All entries, one after the other.
    bytes: Vec<u8>,
    /// End of each entry.
    ends: Vec<usize>,
    /// The number of each value.
    values: Vec<u32>,
}

impl Dictionary {
    /// Appends a value; returns its number.
    pub(super) fn push(&mut self, value: &[u8]) -> u32 {
        // Equal neighbours are common and cheaper to compare than to hash.
        let number = match self.values.last() {
            Some(&last) if self.entry(last) == value => last,
            _ => self.number(value),
        };
        self.values.push(number);
        number
    }

    /// Appends values by number.
    pub(super) fn push_numbers(&mut self, numbers: impl Iterator<Item = u32>) {
        self.values.extend(numbers);
    }

    /// The number of a string. A new string becomes an entry.
    pub(super) fn number(&mut self, value: &[u8]) -> u32 {
        let Self {
            hasher,
            table,
            bytes,
            ends,
            ..
        } = self;
        let hash = hasher.hash_one(value);
        if let Some(&number) = table.find(hash, |&number| entry(bytes, ends, number) == value) {
            return number;
        }
        let number = ends.len() as u32;
        bytes.extend_from_slice(value);
        ends.push(bytes.len());
        table.insert_unique(hash, number, |&number| hasher.hash_one(entry(bytes, ends, number)));
        number
    }

    /// The string of a number.
    pub(super) fn entry(&self, number: u32) -> &[u8] {
        entry(&self.bytes, &self.ends, number)
    }

    /// Number of distinct strings.
    pub(super) fn entries(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The number of each value.
    pub(super) fn values(&self) -> &[u32] {
        &self.values
    }

    /// The numbers in the order of their strings, and each number's rank in that order. The Java writer sorts the same
    /// way: neighbours share prefixes, which compresses better, and a range of strings is a range of numbers.
    pub(super) fn sorted(&self) -> (Vec<u32>, Vec<u32>) {
        let mut order: Vec<u32> = (0..self.ends.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| self.entry(a).cmp(self.entry(b)));
        let mut ranks = vec![0; order.len()];
        for (rank, &number) in order.iter().enumerate() {
            ranks[number as usize] = rank as u32;
        }
        (order, ranks)
    }

    /// Clears everything and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.bytes.clear();
        self.ends.clear();
        self.values.clear();
    }

    /// Bytes of the stripe, about.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * 16 + self.values.len() * size_of::<u32>()
    }

    /// Bytes held in memory, with those that wait to be used again.
    pub(super) fn memory_size(&self) -> usize {
        self.table.allocation_size() + self.bytes.capacity() + capacity_bytes(&self.ends) + capacity_bytes(&self.values)
    }
}

fn entry<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> &'a [u8] {
    let number = number as usize;
    let start = if number == 0 { 0 } else { ends[number - 1] };
    &bytes[start..ends[number]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_numbers_follow_first_appearance_and_ranks_the_order() {
        let mut dictionary = Dictionary::default();
        for value in ["b", "", "a", "b", "a", "a", ""] {
            dictionary.push(value.as_bytes());
        }
        assert_eq!(dictionary.values(), [0, 1, 2, 0, 2, 2, 1]);
        let (order, ranks) = dictionary.sorted();
        assert_eq!(order, [1, 2, 0]);
        assert_eq!(ranks, [2, 0, 1]);
        dictionary.clear();
        assert_eq!(dictionary.number(b"x"), 0);
    }
}
