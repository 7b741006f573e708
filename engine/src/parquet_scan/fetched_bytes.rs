//! [`FetchedBytes`]: parts of a file in memory.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::buf::Reader;
use bytes::{Buf, Bytes};
use datafusion::parquet::errors::{ParquetError, Result};
use datafusion::parquet::file::reader::{ChunkReader, Length};

/// Parts of a file, by the offset of their first byte. Clones share the bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct FetchedBytes {
    parts: BTreeMap<u64, Bytes>,
}

impl FetchedBytes {
    /// Adds a part. It takes the place of those inside it.
    pub(super) fn insert(&mut self, range: Range<u64>, bytes: Bytes) {
        let inside = self.parts.range(range.clone());
        let inside: Vec<u64> = inside
            .filter(|(start, part)| **start + part.len() as u64 <= range.end)
            .map(|(start, _)| *start)
            .collect();
        for start in inside {
            self.parts.remove(&start);
        }
        self.parts.insert(range.start, bytes);
    }

    pub(super) fn contains(&self, range: &Range<u64>) -> bool {
        self.part_at(range.start)
            .is_some_and(|(start, part)| range.end <= start + part.len() as u64)
    }

    /// The part with the byte at `offset`, and the offset of its first byte.
    fn part_at(&self, offset: u64) -> Option<(u64, &Bytes)> {
        let (&start, part) = self.parts.range(..=offset).next_back()?;
        (offset <= start + part.len() as u64).then_some((start, part))
    }

    fn from(&self, offset: u64) -> Result<Bytes> {
        let (start, part) = self.part_at(offset).ok_or_else(|| missing(offset))?;
        Ok(part.slice((offset - start) as usize..))
    }
}

fn missing(offset: u64) -> ParquetError {
    ParquetError::General(format!(
        "the byte at {offset} was not fetched: the file's offsets contradict each other"
    ))
}

impl Length for FetchedBytes {
    fn len(&self) -> u64 {
        let last = self.parts.last_key_value();
        last.map_or(0, |(start, part)| start + part.len() as u64)
    }
}

impl ChunkReader for FetchedBytes {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        Ok(self.from(start)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let part = self.from(start)?;
        match length <= part.len() {
            true => Ok(part.slice(..length)),
            false => Err(missing(start + part.len() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn fetched_bytes_are_those_of_their_parts_alone() {
        let mut fetched = FetchedBytes::default();
        fetched.insert(10..14, Bytes::from_static(b"abcd"));
        fetched.insert(20..22, Bytes::from_static(b"xy"));
        assert_eq!(fetched.get_bytes(11, 3).unwrap().as_ref(), b"bcd");
        // A part takes the place of those inside it.
        fetched.insert(18..24, Bytes::from_static(b"uvxyzw"));
        assert_eq!(fetched.get_bytes(19, 5).unwrap().as_ref(), b"vxyzw");
        let mut rest = Vec::new();
        fetched.get_read(12).unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"cd");
        assert!(fetched.contains(&(20..23)) && !fetched.contains(&(13..15)) && !fetched.contains(&(0..2)));
        for (start, length) in [(12, 3), (5, 1), (15, 1), (21, 4)] {
            let error = fetched.get_bytes(start, length).unwrap_err().to_string();
            assert!(error.contains("was not fetched"), "{error}");
        }
    }
}
