//! `RemoteFile` and `FetchedSource`: an object of an object store, and reads of its fetched ranges.
//!
//! A fetch makes few, large, concurrent requests. Reads are served from the fetched bytes.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt};
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};

use super::{Identity, IoCounters, io_error};

/// Ranges within this distance are one request: a round trip costs more than the bytes between them.
const MERGE_GAP_BYTES: u64 = 1 << 20;
/// Maximum length of a request. Longer ones are split, so that the parts run concurrently.
const MAX_REQUEST_BYTES: u64 = 16 << 20;
/// Requests in flight per fetch.
const CONCURRENT_REQUESTS: usize = 8;
/// [`FetchedSource::trim`] keeps up to this many bytes: dictionaries, and ranges that short stripes read again.
const MAX_TRIMMED_BYTES: usize = 64 << 20;

/// An object, as listed.
#[derive(Debug)]
pub struct RemoteFile {
    name: Arc<str>,
    store: Arc<dyn ObjectStore>,
    path: Path,
    identity: Identity,
}

impl RemoteFile {
    /// The object at `path` of `store`. Reads nothing.
    pub fn new(name: Arc<str>, store: Arc<dyn ObjectStore>, path: Path, identity: Identity) -> Self {
        Self {
            name,
            store,
            path,
            identity,
        }
    }

    /// The bytes of each range, in the given order. Ranges near each other are read in one request.
    ///
    /// # Errors
    /// `Io` if the bytes cannot be read, or the object has changed since the listing.
    pub async fn read(&self, ranges: &[Range<u64>], io: &IoCounters) -> Result<Vec<Bytes>> {
        let fetched = self.request(merge(ranges), io).await?;
        ranges.iter().map(|range| find(&self.name, &fetched, range)).collect()
    }

    /// Reads `ranges` concurrently. If the object has changed, the store refuses the entity tag.
    async fn request(&self, ranges: Vec<Range<u64>>, io: &IoCounters) -> Result<Vec<Segment>> {
        let requests: Vec<_> = ranges.into_iter().map(|range| self.request_one(range, io)).collect();
        let mut segments: Vec<Segment> = futures::stream::iter(requests)
            .buffer_unordered(CONCURRENT_REQUESTS)
            .try_collect()
            .await?;
        segments.sort_by_key(|segment| segment.start);
        Ok(segments)
    }

    async fn request_one(&self, range: Range<u64>, io: &IoCounters) -> Result<Segment> {
        if range.end > self.identity.length {
            let reason = format!("the file has {} bytes", self.identity.length);
            return Err(io_error(&self.name, &range, reason));
        }
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: self.identity.etag.clone(),
            ..GetOptions::default()
        };
        let failed = |error| io_error(&self.name, &range, error);
        let got = self.store.get_opts(&self.path, options).await.map_err(failed)?;
        let bytes = got.bytes().await.map_err(failed)?;
        io.add(bytes.len() as u64, 1);
        if bytes.len() as u64 != range.end - range.start {
            return Err(io_error(
                &self.name,
                &range,
                format!("the store sent {} bytes", bytes.len()),
            ));
        }
        Ok(Segment {
            start: range.start,
            bytes,
        })
    }
}

/// Consecutive bytes of the file.
#[derive(Debug, Clone)]
struct Segment {
    start: u64,
    bytes: Bytes,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// Requests that cover `ranges`: sorted, merged if near each other, split if long.
fn merge(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().filter(|range| range.start < range.end).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match merged.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(MERGE_GAP_BYTES) => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    let split = |range: Range<u64>| {
        let starts = (range.start..range.end).step_by(MAX_REQUEST_BYTES as usize);
        starts.map(move |start| start..(start + MAX_REQUEST_BYTES).min(range.end))
    };
    merged.into_iter().flat_map(split).collect()
}

/// The bytes of `range` from ascending, disjoint segments. Copies only if the range spans several segments.
fn find(name: &Arc<str>, segments: &[Segment], range: &Range<u64>) -> Result<Bytes> {
    if range.start >= range.end {
        return Ok(Bytes::new());
    }
    let missing = || io_error(name, range, "these bytes were not fetched ahead (a defect of the scan)");
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

/// Reads of the bytes that [`fetch`](Self::fetch) has loaded.
#[derive(Debug)]
pub struct FetchedSource {
    file: Arc<RemoteFile>,
    io: IoCounters,
    /// Ascending and disjoint. Only the scan partition that owns the source fetches and reads them.
    segments: Mutex<Vec<Segment>>,
}

impl FetchedSource {
    /// A source without fetched bytes.
    pub fn new(file: Arc<RemoteFile>, io: IoCounters) -> Self {
        Self {
            file,
            io,
            segments: Mutex::new(Vec::new()),
        }
    }

    /// Fetches the missing parts of `ranges`.
    ///
    /// # Errors
    /// `Io` if the bytes cannot be read, or the object has changed since the listing.
    pub async fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        let missing: Vec<_> = {
            let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
            ranges.iter().flat_map(|range| uncovered(&segments, range)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let fetched = self.file.request(merge(&missing), &self.io).await?;
        let mut segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        for segment in fetched {
            insert(&mut segments, segment);
        }
        Ok(())
    }

    /// Drops all fetched bytes if they exceed a bound.
    pub fn trim(&self) {
        if self.buffered_bytes() > MAX_TRIMMED_BYTES {
            self.segments.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
    }

    /// Fetched bytes in memory.
    pub fn buffered_bytes(&self) -> usize {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        segments.iter().map(|segment| segment.bytes.len()).sum()
    }
}

/// The parts of `range` that no segment covers.
fn uncovered(segments: &[Segment], range: &Range<u64>) -> Vec<Range<u64>> {
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
fn insert(segments: &mut Vec<Segment>, segment: Segment) {
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

impl ByteSource for FetchedSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let segments = self.segments.lock().unwrap_or_else(PoisonError::into_inner);
        find(&self.file.name, &segments, &range)
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    async fn remote(length: usize) -> (Vec<u8>, Arc<RemoteFile>) {
        let bytes: Vec<u8> = (0..length).map(|i| (i / 7) as u8).collect();
        let store = Arc::new(InMemory::new());
        let path = Path::from("a.orc");
        let put = store.put(&path, bytes.clone().into()).await.unwrap();
        let identity = Identity {
            length: length as u64,
            modified_ns: 0,
            inode: None,
            etag: put.e_tag,
        };
        let file = RemoteFile::new("memory:///a.orc".into(), store, path, identity);
        (bytes, Arc::new(file))
    }

    #[tokio::test]
    async fn fetch_merges_near_ranges_and_requests_no_byte_twice() {
        let (bytes, file) = remote(5 << 20).await;
        let source = FetchedSource::new(file, IoCounters::default());
        source
            .fetch(&[10..20, 1000..2000, 4 << 20..(4 << 20) + 8])
            .await
            .unwrap();
        assert_eq!(source.io.read_requests.value(), 2);
        assert_eq!(source.io.moved_bytes.value(), 1990 + 8);
        assert_eq!(source.read(15..1500).unwrap(), bytes[15..1500]);
        source.fetch(&[500..600]).await.unwrap();
        assert_eq!(source.io.read_requests.value(), 2);
        source.fetch(&[1900..2100]).await.unwrap();
        assert_eq!(source.io.moved_bytes.value(), 1990 + 8 + 100);
        assert_eq!(source.read(1990..2010).unwrap(), bytes[1990..2010]);
        assert!(source.read(2099..2101).is_err());
        assert_eq!(source.buffered_bytes(), 1990 + 8 + 100);
    }

    #[tokio::test]
    async fn read_splits_long_ranges_and_returns_them_whole() {
        let (bytes, file) = remote(20 << 20).await;
        let io = IoCounters::default();
        let read = file.read(&[5..19 << 20, 0..4], &io).await.unwrap();
        assert_eq!(read[0], bytes[5..19 << 20]);
        assert_eq!(read[1], bytes[0..4]);
        assert_eq!(io.read_requests.value(), 2);
        assert!(file.read(&[0..21 << 20], &io).await.is_err());
    }

    #[tokio::test]
    async fn read_refuses_a_changed_object() {
        let (_, file) = remote(100).await;
        file.store.put(&file.path, vec![1; 100].into()).await.unwrap();
        assert!(file.read(&[0..4], &IoCounters::default()).await.is_err());
    }
}
