//! [`FreeSpace`]: the runs of bytes that no file has.

use std::ops::Range;

use super::directory::FileEntry;
use super::layout::Layout;

/// The free runs of a namespace, by position.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FreeSpace(Vec<Range<u64>>);

impl FreeSpace {
    /// What the files leave free. `entries` are in the order of their positions.
    pub(super) fn of(layout: &Layout, entries: &[FileEntry]) -> Self {
        let data = layout.data();
        let mut start = data.start;
        let mut runs = Vec::new();
        for extent in entries.iter().map(FileEntry::extent) {
            runs.push(start..extent.start);
            start = extent.end;
        }
        runs.push(start..data.end);
        runs.retain(|run| !run.is_empty());
        Self(runs)
    }

    /// The start of the smallest run that has room: longer runs stay whole for longer files.
    pub(super) fn best_fit(&self, bytes: u64) -> Option<u64> {
        let fitting = self.0.iter().filter(|run| run.end - run.start >= bytes);
        fitting.min_by_key(|run| run.end - run.start).map(|run| run.start)
    }

    /// Free bytes, and the bytes of the longest run.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let lengths = || self.0.iter().map(|run| run.end - run.start);
        (lengths().sum(), lengths().max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn smallest_run_with_room_is_chosen() {
        let layout = Layout::new(4096, 4 << 20, 0).unwrap();
        let data = layout.data();
        let entry = |position: u64, length_bytes: u64| FileEntry {
            name: position.to_string(),
            position,
            length_bytes,
            checksum: 0,
            units_checksum: 0,
            loaded_seconds: 0,
            id: Uuid::nil(),
        };
        // Each file of a byte takes 8 KiB. Runs of 8 KiB and of 16 KiB, and the rest.
        let entries = [
            entry(data.start, 1),
            entry(data.start + 16_384, 1),
            entry(data.start + 40_960, 1),
        ];
        let free = FreeSpace::of(&layout, &entries);
        let rest = data.end - data.start - 49_152;
        assert_eq!(free.bytes(), (rest + 24_576, rest));
        assert_eq!(free.best_fit(8192), Some(data.start + 8192));
        assert_eq!(free.best_fit(8193), Some(data.start + 24_576));
        assert_eq!(free.best_fit(16_385), Some(data.start + 49_152));
        assert_eq!(free.best_fit(rest + 1), None);
        assert_eq!(
            FreeSpace::of(&layout, &[]).best_fit(data.end - data.start),
            Some(data.start)
        );
    }
}
