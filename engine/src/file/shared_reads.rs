//! [`SharedReads`]: reads of objects' metadata, each requested once for all tasks that want it at the same time.
//!
//! A query's partitions begin together, and want the same footers and row indexes. A read is a task of its own: if the
//! stream that began it is dropped, or is not polled for a while, the others still get the bytes.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use datafusion::common::runtime::SpawnedTask;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};
use grampus_orc_layout::Result;
use tokio::runtime::Handle;

use super::{FileHandle, IoCounters, io_error};

/// Bytes by their ranges, once they are there.
type Read = Shared<BoxFuture<'static, Result<Arc<HashMap<Range<u64>, Bytes>>>>>;
type WeakRead = WeakShared<BoxFuture<'static, Result<Arc<HashMap<Range<u64>, Bytes>>>>>;

/// The reads that are in flight.
#[derive(Default)]
pub(super) struct SharedReads {
    /// By the number of the file, and range.
    in_flight: Mutex<HashMap<(u64, Range<u64>), WeakRead>>,
}

impl fmt::Debug for SharedReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedReads").finish_non_exhaustive()
    }
}

/// Keeps reads in flight for those that ask later. It is dropped when what was read is cached.
pub(super) struct Flights {
    _reads: Vec<Read>,
}

impl SharedReads {
    /// As [`FileHandle::read`], of the file with a number: the ranges that `look_up` lacks, next to what it has found.
    /// Ranges that another task is reading are waited for. The reads stay for others until the last value is dropped,
    /// which is when `look_up` would find what was read.
    ///
    /// # Errors
    /// As [`FileHandle::read`].
    pub(super) async fn read<T>(
        &self,
        file: u64,
        handle: &Arc<FileHandle>,
        io: &IoCounters,
        look_up: impl FnOnce() -> (T, Vec<Range<u64>>),
    ) -> Result<(T, Vec<Bytes>, Flights)> {
        if handle.reads_at_once() || Handle::try_current().is_err() {
            let (found, lacking) = look_up();
            let bytes = handle.read(&lacking, io).await?;
            return Ok((found, bytes, Flights { _reads: Vec::new() }));
        }
        let (found, lacking, reads) = self.begin(file, handle, io, look_up);
        let mut bytes = Vec::with_capacity(lacking.len());
        for (range, read) in lacking.iter().zip(&reads) {
            let of_range = read.clone().await?.get(range).cloned();
            bytes.push(of_range.ok_or_else(|| io_error(handle.name(), range, "another read lacks these bytes"))?);
        }
        Ok((found, bytes, Flights { _reads: reads }))
    }

    /// What was found, what is lacking, and the reads that bring each of that. Those that are in flight are joined, the
    /// others are one new read.
    fn begin<T>(
        &self,
        file: u64,
        handle: &Arc<FileHandle>,
        io: &IoCounters,
        look_up: impl FnOnce() -> (T, Vec<Range<u64>>),
    ) -> (T, Vec<Range<u64>>, Vec<Read>) {
        // Each entry is inserted in one step. Under the lock, what was read is either in flight or found.
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let (found, lacking) = look_up();
        let key = |range: &Range<u64>| (file, range.clone());
        let known = lacking
            .iter()
            .map(|range| in_flight.get(&key(range)).and_then(WeakShared::upgrade));
        let known: Vec<Option<Read>> = known.collect();
        let new = lacking.iter().zip(&known).filter(|(_, known)| known.is_none());
        let new: Vec<Range<u64>> = new.map(|(range, _)| range.clone()).collect();
        let begun = (!new.is_empty()).then(|| read_of(handle, new.clone(), io.clone()));
        if let Some(weak) = begun.as_ref().and_then(Shared::downgrade) {
            in_flight.retain(|_, read| read.upgrade().is_some());
            in_flight.extend(new.iter().map(|range| (key(range), weak.clone())));
        }
        let reads = known.into_iter().filter_map(|known| known.or_else(|| begun.clone()));
        let reads = reads.collect();
        (found, lacking, reads)
    }
}

/// A read of `ranges` as a task. It ends when nothing waits for it any more.
fn read_of(handle: &Arc<FileHandle>, ranges: Vec<Range<u64>>, io: IoCounters) -> Read {
    let (handle, name) = (Arc::clone(handle), Arc::clone(handle.name()));
    let hull = ranges.first().map_or(0, |first| first.start)..ranges.last().map_or(0, |last| last.end);
    let task = SpawnedTask::spawn(async move {
        let bytes = handle.read(&ranges, &io).await?;
        Ok(Arc::new(ranges.into_iter().zip(bytes).collect()))
    });
    let read = async move {
        // The runtime ends tasks when it shuts down.
        let read = task.join_unwind().await;
        read.unwrap_or_else(|ended| Err(io_error(&name, &hull, ended)))
    };
    read.boxed().shared()
}
