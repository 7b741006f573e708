//! [`Segment`]: consecutive bytes of an object, fetched; and lists of them, ascending and disjoint.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use grampus_orc_layout::Result;

use super::io_error;

/// Consecutive bytes of the file.
#[derive(Debug, Clone)]
pub(super) struct Segment {
    /// Position of the first byte.
    pub(super) start: u64,
    /// The bytes.
    pub(super) bytes: Bytes,
}

impl Segment {
    /// Position behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// The bytes of `range` from ascending, disjoint segments. Copies only if the range spans several segments.
pub(super) fn find(name: &Arc<str>, segments: &[Segment], range: &Range<u64>) -> Result<Bytes> {
    if range.start >= range.end {
        return Ok(Bytes::new());
    }
    let missing = || io_error(name, range, "these bytes were not fetched");
    let mut next = segments.partition_point(|segment| segment.end() <= range.start);
    let first = segments
        .get(next)
        .filter(|s| s.start <= range.start)
        .ok_or_else(missing)?;
    let from = (range.start - first.start) as usize;
    if range.end <= first.end() {
        return Ok(first.bytes.slice(from..from + (range.end - range.start) as usize));
    }
    let mut whole = BytesMut::with_capacity((range.end - range.start) as usize);
    whole.extend_from_slice(&first.bytes[from..]);
    let mut end = first.end();
    while end < range.end {
        next += 1;
        let segment = segments.get(next).filter(|s| s.start == end).ok_or_else(missing)?;
        let take = (range.end - end).min(segment.bytes.len() as u64);
        whole.extend_from_slice(&segment.bytes[..take as usize]);
        end += take;
    }
    Ok(whole.freeze())
}

/// The parts of `range` that no segment covers.
pub(super) fn uncovered(segments: &[Segment], range: &Range<u64>) -> Vec<Range<u64>> {
    let mut gaps = Vec::new();
    let mut start = range.start;
    let first = segments.partition_point(|segment| segment.end() <= range.start);
    for segment in segments[first..].iter().take_while(|s| s.start < range.end) {
        if start < segment.start {
            gaps.push(start..segment.start);
        }
        start = start.max(segment.end());
    }
    if start < range.end {
        gaps.push(start..range.end);
    }
    gaps
}

/// Adds the new parts of `segment`. A merged request may overlap fetched segments.
pub(super) fn insert(segments: &mut Vec<Segment>, segment: Segment) {
    for gap in uncovered(segments, &(segment.start..segment.end())) {
        let from = (gap.start - segment.start) as usize;
        let bytes = segment.bytes.slice(from..from + (gap.end - gap.start) as usize);
        let at = segments.partition_point(|held| held.start < gap.start);
        segments.insert(
            at,
            Segment {
                start: gap.start,
                bytes,
            },
        );
    }
}
