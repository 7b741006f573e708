//! `FetchedSource`: reads of an object's bytes that were fetched before.
//!
//! A read of other bytes fails and notes them, so that the scan can fetch them and read again. One fetch may run ahead,
//! as a task of its own, while the scan works on the bytes that it has.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use grampus_orc_layout::Result;
use grampus_orc_layout::source::ByteSource;
use tokio::runtime::Handle;

use super::remote::RemoteFile;
use super::segment::{Segment, find, insert, uncovered};
use super::{IoCounters, io_error};

/// [`FetchedSource::trim`] keeps up to this many bytes: dictionaries, and ranges that short stripes read again.
const MAX_TRIMMED_BYTES: usize = 64 << 20;
/// Bytes that a fetch of missed bytes adds after them: a reader that overruns its plan goes on forwards.
const MISSED_AHEAD_BYTES: u64 = 64 << 10;

/// Reads of the bytes that [`fetch`](Self::fetch) has loaded.
#[derive(Debug)]
pub struct FetchedSource {
    file: Arc<RemoteFile>,
    io: IoCounters,
    /// Ascending and disjoint. Only the scan partition that owns the source fetches and reads them.
    segments: Mutex<Vec<Segment>>,
    /// The bytes that the last read missed.
    missed: Mutex<Option<Range<u64>>>,
    /// The fetch that runs ahead.
    ahead: Mutex<Option<FetchAhead>>,
}

/// Requests in flight. Dropping this value ends them.
#[derive(Debug)]
struct FetchAhead {
    /// What was asked for, ascending and disjoint.
    ranges: Vec<Range<u64>>,
    /// Bytes of the requests.
    bytes: usize,
    task: SpawnedTask<Result<Vec<Segment>>>,
}

impl FetchedSource {
    /// A source without fetched bytes.
    pub fn new(file: Arc<RemoteFile>, io: IoCounters) -> Self {
        Self {
            file,
            io,
            segments: Mutex::default(),
            missed: Mutex::default(),
            ahead: Mutex::default(),
        }
    }

    /// Whether all bytes of `ranges` are fetched.
    pub fn holds(&self, ranges: &[Range<u64>]) -> bool {
        let segments = lock(&self.segments);
        ranges.iter().all(|range| uncovered(&segments, range).is_empty())
    }

    /// Fetches the bytes that a read has missed since the last call. False: no read has missed bytes that the file has.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub async fn fetch_missed(&self) -> Result<bool> {
        let Some(missed) = lock(&self.missed).take() else {
            return Ok(false);
        };
        let end = missed.end.saturating_add(MISSED_AHEAD_BYTES).min(self.file.length());
        // Each call fetches at least one byte of the file, so that the caller's loop ends.
        if end < missed.end || self.holds(std::slice::from_ref(&missed)) {
            return Ok(false);
        }
        self.fetch(std::slice::from_ref(&(missed.start..end))).await?;
        Ok(true)
    }

    /// Fetches the missing parts of `ranges`. Waits for those that a fetch ahead has requested.
    ///
    /// # Errors
    /// `Io` if the bytes cannot be read, or the object has changed since the listing.
    pub async fn fetch(&self, ranges: &[Range<u64>]) -> Result<()> {
        let mut missing = self.missing(ranges);
        if self.is_ahead_of(&missing) {
            self.arrive().await?;
            missing = self.missing(ranges);
        }
        if missing.is_empty() {
            return Ok(());
        }
        let fetched = self.file.request(&missing, &self.io).await?;
        self.insert(fetched);
        Ok(())
    }

    /// Bytes that a fetch of `ranges` would request now.
    pub fn missing_bytes(&self, ranges: &[Range<u64>]) -> usize {
        self.file.request_bytes(&self.missing(ranges))
    }

    /// Begins to fetch the missing parts of `ranges`, which the scan is about to need. Reads find them once
    /// [`fetch`](Self::fetch) has asked for one of them. False: nothing is missing, or a fetch ahead is in flight, or
    /// there is no runtime for its task.
    pub fn fetch_ahead(&self, ranges: &[Range<u64>]) -> bool {
        let missing = self.missing(ranges);
        let mut ahead = lock(&self.ahead);
        if missing.is_empty() || ahead.is_some() || Handle::try_current().is_err() {
            return false;
        }
        let (file, io, asked) = (Arc::clone(&self.file), self.io.clone(), missing.clone());
        *ahead = Some(FetchAhead {
            bytes: self.file.request_bytes(&missing),
            ranges: missing,
            task: SpawnedTask::spawn(async move { file.request(&asked, &io).await }),
        });
        true
    }

    /// Whether a fetch ahead is in flight, or has arrived and was not asked for yet.
    pub fn is_ahead(&self) -> bool {
        lock(&self.ahead).is_some()
    }

    /// Ends the fetch ahead and forgets its bytes. False: there is none.
    pub fn give_up_ahead(&self) -> bool {
        lock(&self.ahead).take().is_some()
    }

    /// Whether the fetch ahead brings some of the bytes.
    fn is_ahead_of(&self, missing: &[Range<u64>]) -> bool {
        let ahead = lock(&self.ahead);
        let overlaps = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
        let mut asked = ahead.iter().flat_map(|ahead| &ahead.ranges);
        asked.any(|asked| missing.iter().any(|missing| overlaps(asked, missing)))
    }

    /// Waits for the fetch ahead.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    pub async fn arrive(&self) -> Result<()> {
        let taken = lock(&self.ahead).take();
        let Some(ahead) = taken else { return Ok(()) };
        let hull = ahead.ranges.first().map_or(0, |first| first.start)..ahead.ranges.last().map_or(0, |last| last.end);
        let fetched = ahead.task.join_unwind().await;
        // The runtime has ended the task, as it does when it shuts down.
        let fetched = fetched.map_err(|ended| io_error(self.file.name(), &hull, ended))?;
        self.insert(fetched?);
        Ok(())
    }

    /// The parts of `ranges` that are not fetched.
    fn missing(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let segments = lock(&self.segments);
        ranges.iter().flat_map(|range| uncovered(&segments, range)).collect()
    }

    fn insert(&self, fetched: Vec<Segment>) {
        let mut segments = lock(&self.segments);
        for segment in fetched {
            insert(&mut segments, segment);
        }
    }

    /// Drops all fetched bytes if they exceed `most` or a bound. Bytes that are in flight stay so.
    pub fn trim(&self, most: usize) {
        let mut segments = lock(&self.segments);
        if bytes_of(&segments) > most.min(MAX_TRIMMED_BYTES) {
            segments.clear();
        }
    }

    /// Fetched bytes in memory, and those of requests in flight.
    pub fn buffered_bytes(&self) -> usize {
        let ahead = lock(&self.ahead).as_ref().map_or(0, |ahead| ahead.bytes);
        bytes_of(&lock(&self.segments)) + ahead
    }
}

fn bytes_of(segments: &[Segment]) -> usize {
    segments.iter().map(|segment| segment.bytes.len()).sum()
}

/// Locks a mutex. Segments are inserted whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ByteSource for FetchedSource {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let found = find(self.file.name(), &lock(&self.segments), &range);
        if found.is_err() {
            *lock(&self.missed) = Some(range);
        }
        found
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
mod tests {
    use super::super::ScanSource;
    use super::super::remote::tests::remote;
    use super::*;

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
    async fn missed_bytes_are_fetched_until_the_read_has_all() {
        let (bytes, file) = remote(1 << 20).await;
        let source = ScanSource::Fetched(FetchedSource::new(file, IoCounters::default()));
        let wanted = [0..8, 500_000..500_100, (1 << 20) - 8..1 << 20];
        let mut reads = 0;
        let read = source.read_with_fetches(|| {
            reads += 1;
            wanted
                .iter()
                .map(|range| source.read(range.clone()))
                .collect::<Result<Vec<_>>>()
        });
        let read = read.await.unwrap();
        assert_eq!(reads, 4);
        for (range, read) in wanted.iter().zip(read) {
            assert_eq!(read, bytes[range.start as usize..range.end as usize]);
        }
        // No fetch helps beyond the end of the file.
        let beyond = source.read_with_fetches(|| source.read(900_000..(1 << 20) + 1)).await;
        assert!(beyond.unwrap_err().to_string().contains("not fetched"));
    }

    #[tokio::test]
    async fn fetch_ahead_is_waited_for_by_the_fetch_that_needs_it() {
        let (bytes, file) = remote(8 << 20).await;
        let source = FetchedSource::new(file, IoCounters::default());
        source.fetch(&[0..1000]).await.unwrap();
        assert!(!source.fetch_ahead(&[100..900]), "nothing is missing");
        assert!(source.fetch_ahead(&[900..2000, 3 << 20..(3 << 20) + 8]));
        assert_eq!(source.buffered_bytes(), 1000 + 1000 + 8);
        assert!(!source.fetch_ahead(&[5 << 20..6 << 20]), "one is in flight");
        // Another fetch does not wait for it.
        source.fetch(&[7 << 20..(7 << 20) + 8]).await.unwrap();
        assert!(source.is_ahead() && !source.holds(&[900..2000]));
        // One that needs a part of it requests the rest only.
        source.fetch(&[1500..2100]).await.unwrap();
        assert!(!source.is_ahead());
        assert_eq!(source.read(950..2100).unwrap(), bytes[950..2100]);
        assert_eq!(
            source.read(3 << 20..(3 << 20) + 8).unwrap(),
            bytes[3 << 20..(3 << 20) + 8]
        );
        assert_eq!(source.io.moved_bytes.value(), 1000 + 1000 + 8 + 8 + 100);
        assert_eq!(source.buffered_bytes(), source.io.moved_bytes.value());
    }

    #[tokio::test]
    async fn fetch_ahead_that_is_given_up_is_fetched_again() {
        let (bytes, file) = remote(8 << 20).await;
        let source = FetchedSource::new(file, IoCounters::default());
        assert!(!source.give_up_ahead());
        assert!(source.fetch_ahead(&[0..1 << 20]));
        assert!(source.give_up_ahead());
        assert_eq!(source.buffered_bytes(), 0);
        source.fetch(&[5..15]).await.unwrap();
        assert_eq!(source.read(5..15).unwrap(), bytes[5..15]);
        // A failed one fails the fetch that needs it, and no other.
        assert!(source.fetch_ahead(&[7 << 20..9 << 20]));
        source.fetch(&[1 << 20..(1 << 20) + 8]).await.unwrap();
        let error = source.fetch(&[7 << 20..8 << 20]).await.unwrap_err();
        assert!(error.to_string().contains("8388608 bytes"), "{error}");
    }
}
