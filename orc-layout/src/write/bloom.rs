//! [`BloomFilters`] of a column, one per row group (ORC v1, "Bloom Filter Index").

use crate::bloom::BloomFilter;
use crate::proto;

/// Collects the filters of a stripe.
#[derive(Debug)]
pub(super) struct BloomFilters {
    empty: BloomFilter,
    /// The filter of the current row group.
    current: BloomFilter,
    finished: Vec<proto::BloomFilter>,
}

impl BloomFilters {
    /// Filters for row groups of `rows` rows, with a false-positive probability of `fpp`.
    pub(super) fn new(rows: u32, fpp: f64) -> Self {
        let empty = BloomFilter::with_capacity(rows as usize, fpp);
        Self {
            current: empty.clone(),
            empty,
            finished: Vec::new(),
        }
    }

    /// The filter of the current row group.
    pub(super) fn current(&mut self) -> &mut BloomFilter {
        &mut self.current
    }

    /// Ends the row group.
    pub(super) fn end_group(&mut self) {
        let filter = std::mem::replace(&mut self.current, self.empty.clone());
        self.finished.push(proto::BloomFilter {
            num_hash_functions: Some(filter.hash_functions()),
            bitset: vec![],
            utf8bitset: Some(filter.words().iter().flat_map(|word| word.to_le_bytes()).collect()),
        });
    }

    /// Takes the stripe's filters.
    pub(super) fn take(&mut self) -> proto::BloomFilterIndex {
        proto::BloomFilterIndex {
            bloom_filter: std::mem::take(&mut self.finished),
        }
    }

    /// Bytes held in memory.
    pub(super) fn memory_size(&self) -> usize {
        // All filters are of one size.
        size_of_val(self.empty.words()) * (2 + self.finished.len())
    }
}
