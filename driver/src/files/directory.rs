//! [`Directory`]: the entries of the files, and the bytes of one copy of the directory.

use std::collections::HashSet;
use std::ops::Range;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::checksum::{UNIT_BYTES, UNIT_CHECKSUM_BYTES, structure_checksum};
use super::file_error::FileError;
use super::layout::{GRAIN_BYTES, Layout};

/// Most bytes of a name.
pub const MAX_NAME_BYTES: usize = ENTRY_BYTES - NAME_AT;
/// First bytes of a copy of the directory.
const MAGIC: &[u8; 8] = b"GRAMPDIR";
/// Bytes of the head of a copy, and of an entry behind it.
const ENTRY_BYTES: usize = 512;
/// Offset of the name in an entry.
const NAME_AT: usize = 64;
/// Offset of a copy's checksum.
const CHECKSUM_AT: usize = 40;

/// A file on a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// The name: parts between slashes.
    pub name: String,
    /// Position of the first byte in the namespace, a multiple of 4,096.
    pub position: u64,
    /// Bytes of the file.
    pub length_bytes: u64,
    /// XXH3 (64 bits) of the content.
    pub checksum: u64,
    /// XXH3 (64 bits) of the unit checksums.
    pub(super) units_checksum: u64,
    /// Seconds since 1970 of the load.
    pub loaded_seconds: u64,
    /// Number of this load: a file of the same name that is loaded later has another.
    pub id: Uuid,
}

impl FileEntry {
    /// The time of the load.
    pub fn loaded(&self) -> SystemTime {
        // Years beyond the clock's are no reason to fail.
        let since = Duration::from_secs(self.loaded_seconds);
        SystemTime::UNIX_EPOCH
            .checked_add(since)
            .unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Position of the unit checksums, behind the content.
    pub(super) fn units_at(&self) -> u64 {
        self.position + self.length_bytes.next_multiple_of(GRAIN_BYTES)
    }

    /// The bytes of the namespace that the file has: content and unit checksums.
    pub(super) fn extent(&self) -> Range<u64> {
        self.position..self.position + extent_bytes(self.length_bytes)
    }
}

/// Bytes of the namespace that a file of this length takes.
pub(super) fn extent_bytes(length_bytes: u64) -> u64 {
    let units = length_bytes.div_ceil(UNIT_BYTES);
    units * GRAIN_BYTES + (units * UNIT_CHECKSUM_BYTES).next_multiple_of(GRAIN_BYTES)
}

/// Longest file: its extent has no more bytes than 63 bits count.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 62;

/// Checks a name that is to be stored.
pub(super) fn check_name(name: &str) -> Result<(), FileError> {
    let reason = if name.is_empty() {
        "is empty".to_owned()
    } else if name.len() > MAX_NAME_BYTES {
        format!("has {} bytes, and at most {MAX_NAME_BYTES} can be stored", name.len())
    } else if name.chars().any(char::is_control) {
        "has a control character".to_owned()
    } else if name.split('/').any(|part| ["", ".", ".."].contains(&part)) {
        "has an empty part, '.' or '..' between its slashes".to_owned()
    } else {
        return Ok(());
    };
    let name = name.escape_debug().to_string();
    Err(FileError::Name { name, reason })
}

/// All files of a namespace at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directory {
    /// Counts the changes.
    pub(super) generation: u64,
    /// By position.
    pub(super) entries: Vec<FileEntry>,
}

impl Directory {
    /// Most files of a directory of this layout.
    pub(super) fn capacity(layout: &Layout) -> usize {
        layout.directory_bytes as usize / ENTRY_BYTES - 1
    }

    /// Bytes of a copy that has so many entries, whole grains.
    fn stored_bytes(entries: usize) -> usize {
        (ENTRY_BYTES * (1 + entries)).next_multiple_of(GRAIN_BYTES as usize)
    }

    /// The bytes of a copy, whole grains.
    pub(super) fn encode(&self, layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0; Self::stored_bytes(self.entries.len())];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(8, layout.uuid.as_bytes());
        put(24, &self.generation.to_le_bytes());
        put(32, &(self.entries.len() as u32).to_le_bytes());
        for (i, entry) in self.entries.iter().enumerate() {
            let at = ENTRY_BYTES * (1 + i);
            put(at, &entry.position.to_le_bytes());
            put(at + 8, &entry.length_bytes.to_le_bytes());
            put(at + 16, &entry.checksum.to_le_bytes());
            put(at + 24, &entry.units_checksum.to_le_bytes());
            put(at + 32, &entry.loaded_seconds.to_le_bytes());
            put(at + 40, entry.id.as_bytes());
            put(at + 56, &(entry.name.len() as u16).to_le_bytes());
            put(at + NAME_AT, entry.name.as_bytes());
        }
        let checksum = structure_checksum(&bytes, CHECKSUM_AT);
        bytes[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The directory in the bytes of a copy, which may have more bytes behind it. The error says what is wrong.
    pub(super) fn decode(bytes: &[u8], layout: &Layout) -> Result<Self, String> {
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes.len() < ENTRY_BYTES || !bytes.starts_with(MAGIC) {
            return Err("there is no directory".to_owned());
        }
        if bytes[8..24] != *layout.uuid.as_bytes() {
            return Err("it belongs to another header".to_owned());
        }
        let count = u32::from_le_bytes(bytes[32..36].try_into().unwrap_or_default()) as usize;
        if count > Self::capacity(layout) {
            return Err(format!("it counts {count} files"));
        }
        let used = bytes.get(..Self::stored_bytes(count)).unwrap_or(bytes);
        if long(CHECKSUM_AT) != structure_checksum(used, CHECKSUM_AT) {
            return Err("its checksum is wrong".to_owned());
        }
        let entries = used[ENTRY_BYTES..].chunks_exact(ENTRY_BYTES).take(count);
        let entries = entries
            .map(|entry| decode_entry(entry, layout))
            .collect::<Result<_, _>>()?;
        let directory = Self {
            generation: long(24),
            entries,
        };
        directory.check()?;
        Ok(directory)
    }

    /// Checks that no two files have a name or a byte in common.
    fn check(&self) -> Result<(), String> {
        let mut names = HashSet::new();
        let mut end = 0;
        for entry in &self.entries {
            if !names.insert(&entry.name) {
                return Err(format!("two files have the name {}", entry.name));
            }
            if entry.position < end {
                return Err(format!("{} lies inside another file", entry.name));
            }
            end = entry.extent().end;
        }
        Ok(())
    }

    /// The file of a name.
    pub(super) fn find(&self, name: &str) -> Option<&FileEntry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

fn decode_entry(bytes: &[u8], layout: &Layout) -> Result<FileEntry, String> {
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
    let name_bytes = usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let name = bytes.get(NAME_AT..NAME_AT + name_bytes).unwrap_or_default();
    let name = std::str::from_utf8(name).map_err(|_| "a name is not UTF-8".to_owned())?;
    check_name(name).map_err(|error| error.to_string())?;
    let entry = FileEntry {
        name: name.to_owned(),
        position: long(0),
        length_bytes: long(8),
        checksum: long(16),
        units_checksum: long(24),
        loaded_seconds: long(32),
        id: Uuid::from_bytes(bytes[40..56].try_into().unwrap_or_default()),
    };
    let data = layout.data();
    let room = data.end.saturating_sub(entry.position);
    let fits = (1..=MAX_FILE_BYTES).contains(&entry.length_bytes)
        && data.contains(&entry.position)
        && entry.position.is_multiple_of(GRAIN_BYTES)
        && extent_bytes(entry.length_bytes) <= room;
    match fits {
        true => Ok(entry),
        false => Err(format!("{name} does not lie inside the namespace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, position: u64, length_bytes: u64) -> FileEntry {
        FileEntry {
            name: name.to_owned(),
            position,
            length_bytes,
            checksum: 1,
            units_checksum: 2,
            loaded_seconds: 1_700_000_000,
            id: Uuid::from_u128(7),
        }
    }

    fn layout() -> Layout {
        Layout::new(512, 4 << 20, 0).unwrap()
    }

    fn directory(entries: Vec<FileEntry>) -> Directory {
        Directory { generation: 9, entries }
    }

    #[test]
    fn copy_is_read_as_written_and_any_changed_byte_is_noticed() {
        let layout = layout();
        let written = directory(vec![entry("a/b.orc", 20_480, 5000), entry("ü", 40_960, 1)]);
        let mut bytes = written.encode(&layout);
        assert_eq!(bytes.len(), 4096);
        bytes.extend([0x5a; 4096]); // left over from a longer directory
        assert_eq!(Directory::decode(&bytes, &layout), Ok(written));
        for at in 0..4096 {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Directory::decode(&changed, &layout).is_err(), "byte {at}");
        }
    }

    /// The checksum is right in each case, as if a faulty program had written the copy.
    #[test]
    fn entries_that_contradict_each_other_are_refused() {
        let layout = layout();
        let end = layout.data().end;
        for (entries, expected) in [
            (
                vec![entry("a", 20_480, 1), entry("a", 40_960, 1)],
                "two files have the name a",
            ),
            (
                vec![entry("a", 20_480, 1), entry("b", 24_576, 1)],
                "b lies inside another file",
            ),
            (
                vec![entry("a", 40_960, 1), entry("b", 20_480, 1)],
                "b lies inside another file",
            ),
            (vec![entry("a", 4096, 1)], "a does not lie inside"),
            (vec![entry("a", 20_481, 1)], "a does not lie inside"),
            (vec![entry("a", end - 4096, 1)], "a does not lie inside"),
            (vec![entry("a", u64::MAX - 4095, 1)], "a does not lie inside"),
            (vec![entry("a", 20_480, u64::MAX)], "a does not lie inside"),
            (vec![entry("a", 20_480, 0)], "a does not lie inside"),
            (vec![entry("../a", 20_480, 1)], "has an empty part"),
            (vec![entry("", 20_480, 1)], "is empty"),
        ] {
            let error = Directory::decode(&directory(entries).encode(&layout), &layout).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let other = Layout::new(512, 4 << 20, 0).unwrap();
        let error = Directory::decode(&directory(Vec::new()).encode(&other), &layout).unwrap_err();
        assert_eq!(error, "it belongs to another header");
    }

    #[test]
    fn extents_have_room_for_content_and_unit_checksums() {
        assert_eq!(extent_bytes(1), 8192);
        assert_eq!(extent_bytes(4096), 8192);
        assert_eq!(extent_bytes(4096 * 1024), 4096 * 1025);
        assert_eq!(extent_bytes(4096 * 1024 + 1), 4096 * (1025 + 2));
    }

    #[test]
    fn names_are_parts_between_slashes() {
        for name in ["a", "year=2019/part-0.orc", "ü b", &"x".repeat(MAX_NAME_BYTES)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for (name, expected) in [
            ("", "is empty"),
            ("/a", "empty part"),
            ("a//b", "empty part"),
            ("a/..", "empty part"),
            ("a\nb", "control character"),
            (&"x".repeat(MAX_NAME_BYTES + 1), "has 449 bytes, and at most 448"),
        ] {
            let error = check_name(name).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
