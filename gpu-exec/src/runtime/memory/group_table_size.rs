//! `GroupTableSize`: for how many groups the table of all warps has space.

/// Groups of a group table, at most.
const MAX_GROUPS: u64 = 1 << 24;
/// Share of the device's free memory that a group table takes, at most.
const GROUP_MEMORY_SHARE: u64 = 32;

/// The size of a group table: space for every group that a query can have, as far as there is memory for them. The
/// groups lie one behind the other in the order in which they were found, so that only those that exist are read back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct GroupTableSize {
    /// Groups.
    pub(crate) capacity: u32,
    /// log2 of the slots that lead to groups, of 8 bytes each. They are at least twice as many as the groups.
    pub(crate) slots_log2: u32,
}

impl GroupTableSize {
    /// Bytes of a table, at most, on a device with `free_bytes` of memory.
    pub(crate) fn max_bytes(free_bytes: u64) -> u64 {
        free_bytes / GROUP_MEMORY_SHARE
    }

    /// For so many rows, if a group has `group_words` words, on a device with `free_bytes` of memory.
    pub(crate) fn new(rows: u64, group_words: usize, free_bytes: u64) -> Self {
        let group_bytes = 8 * group_words as u64 + 4 * 8;
        let by_memory = Self::max_bytes(free_bytes) / group_bytes;
        let capacity = rows.min(MAX_GROUPS).min(by_memory).max(1);
        Self {
            capacity: capacity as u32,
            slots_log2: (2 * capacity).next_power_of_two().ilog2(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_tables_have_space_for_each_row_as_far_as_memory_allows() {
        let size = |rows, free| {
            let size = GroupTableSize::new(rows, 5, free);
            (size.capacity, size.slots_log2)
        };
        assert_eq!(size(0, 1 << 40), (1, 1));
        assert_eq!(size(3, 1 << 40), (3, 3));
        assert_eq!(size(1 << 33, 1 << 40), (1 << 24, 25));
        // A group of 5 words and up to 4 slots take 72 bytes.
        assert_eq!(size(1 << 33, 72 * 32 * 1000), (1000, 11));
    }
}
