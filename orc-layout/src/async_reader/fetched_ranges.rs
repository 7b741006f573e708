//! [`FetchedRanges`], the bytes of a stripe that have been fetched, as the source of a scan.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

use crate::error::{LayoutError, Result};
use crate::source::ByteSource;

/// Bytes by their offset in the file. No two parts overlap.
#[derive(Debug)]
pub(super) struct FetchedRanges {
    file: Arc<str>,
    parts: Mutex<BTreeMap<u64, Bytes>>,
}

impl FetchedRanges {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self {
            file,
            parts: Mutex::default(),
        }
    }

    /// The parts are valid whenever the lock is free.
    fn parts(&self) -> MutexGuard<'_, BTreeMap<u64, Bytes>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        self.parts().clear();
    }

    /// What is not there of `wanted`: ascending ranges that do not overlap.
    pub(super) fn missing(&self, mut wanted: Vec<Range<u64>>) -> Vec<Range<u64>> {
        wanted.sort_unstable_by_key(|range| range.start);
        let parts = self.parts();
        let mut missing: Vec<Range<u64>> = Vec::new();
        let mut done = 0;
        for range in wanted {
            let mut at = range.start.max(done);
            while at < range.end {
                let before = parts.range(..=at).next_back();
                let held = before.map_or(at, |(start, bytes)| start + bytes.len() as u64);
                if held > at {
                    at = held;
                    continue;
                }
                let next = parts.range(at..range.end).next().map_or(range.end, |(start, _)| *start);
                match missing.last_mut() {
                    Some(last) if last.end == at => last.end = next,
                    _ => missing.push(at..next),
                }
                at = next;
            }
            done = done.max(range.end);
        }
        missing
    }

    /// Adds the bytes of a range that was missing.
    ///
    /// # Errors
    /// `Io` if the source returned another number of bytes.
    pub(super) fn insert(&self, range: Range<u64>, bytes: Bytes) -> Result<()> {
        if bytes.len() as u64 != range.end - range.start {
            let reason = format!("the source returned {} bytes", bytes.len());
            return Err(LayoutError::io_without_source(&self.file, range, reason));
        }
        self.parts().insert(range.start, bytes);
        Ok(())
    }
}

impl ByteSource for FetchedRanges {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let parts = self.parts();
        let absent = || LayoutError::io_without_source(&self.file, range.clone(), "these bytes were not fetched");
        let mut joined = BytesMut::new();
        let mut at = range.start;
        while at < range.end {
            let (start, bytes) = parts.range(..=at).next_back().ok_or_else(absent)?;
            let from = (at - start) as usize;
            let to = bytes.len().min((range.end - start) as usize);
            if from >= to {
                return Err(absent());
            }
            if at == range.start && start + to as u64 == range.end {
                return Ok(bytes.slice(from..to));
            }
            joined.extend_from_slice(&bytes[from..to]);
            at = start + to as u64;
        }
        Ok(joined.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_fetched_once_and_joined() {
        let file: Vec<u8> = (0..100).collect();
        let fetched = FetchedRanges::new("f".into());
        let fetch = |wanted: &[(u64, u64)]| {
            let missing = fetched.missing(wanted.iter().map(|&(start, end)| start..end).collect());
            for range in &missing {
                let bytes = Bytes::copy_from_slice(&file[range.start as usize..range.end as usize]);
                fetched.insert(range.clone(), bytes).unwrap();
            }
            missing
        };
        assert_eq!(fetch(&[(20, 30), (10, 12), (25, 35)]), [10..12, 20..35]);
        assert_eq!(fetch(&[(5, 40)]), [5..10, 12..20, 35..40]);
        assert_eq!(fetch(&[(5, 40), (7, 8)]), []);
        assert_eq!(fetched.read(8..38).unwrap(), file[8..38]);
        assert_eq!(fetched.read(21..24).unwrap(), file[21..24]);
        assert_eq!(fetched.read(9..9).unwrap().len(), 0);
        assert!(fetched.read(38..41).is_err() && fetched.read(0..3).is_err() && fetched.read(60..61).is_err());
        assert!(fetched.insert(90..95, Bytes::from_static(b"abc")).is_err());
        fetched.clear();
        assert!(fetched.read(21..24).is_err());
    }
}
