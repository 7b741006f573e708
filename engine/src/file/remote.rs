//! `RemoteFile`: an object of an object store, and requests of its ranges.
//!
//! A fetch makes concurrent requests: few and large ones over a network, and many small ones of a drive.
//!
//! Every request names the object's version, and every answer is checked against it. S3, GCS and Azure list an entity
//! tag and honour `If-Match`. An HTTP server may know the time of the last modification only, in whole seconds, which
//! `If-Unmodified-Since` compares. A weak tag (`W/"…"`) never satisfies `If-Match` (RFC 9110, 13.1.1), so the time is
//! sent and the tag of the answer is compared.

use std::ops::Range;
use std::sync::Arc;

use arrow::temporal_conversions::timestamp_ns_to_datetime;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use grampus_orc_layout::{LayoutError, Result};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};

use super::request_shape::RequestShape;
use super::segment::{Segment, find};
use super::{Identity, IoCounters, io_error};
use crate::store_error::{StoreError, reason};

/// An object, as listed.
#[derive(Debug)]
pub struct RemoteFile {
    name: Arc<str>,
    store: Arc<dyn ObjectStore>,
    path: Path,
    identity: Identity,
    shape: RequestShape,
}

impl RemoteFile {
    /// The object at `path` of `store`, for requests of a shape. Reads nothing.
    pub fn new(
        name: Arc<str>,
        store: Arc<dyn ObjectStore>,
        path: Path,
        identity: Identity,
        shape: RequestShape,
    ) -> Self {
        Self {
            name,
            store,
            path,
            identity,
            shape,
        }
    }

    /// The bytes of each range, in the given order. Ranges near each other are read in one request.
    ///
    /// # Errors
    /// `Io` if the bytes cannot be read, or the object has changed since the listing.
    pub async fn read(&self, ranges: &[Range<u64>], io: &IoCounters) -> Result<Vec<Bytes>> {
        let fetched = self.request(ranges, io).await?;
        ranges.iter().map(|range| find(&self.name, &fetched, range)).collect()
    }

    /// Path or URL as the user named it.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Length in bytes.
    pub(super) fn length(&self) -> u64 {
        self.identity.length
    }

    /// Bytes that [`request`](Self::request) reads.
    pub(super) fn request_bytes(&self, ranges: &[Range<u64>]) -> usize {
        let requests = self.shape.requests(ranges, self.identity.length);
        requests.iter().map(|range| (range.end - range.start) as usize).sum()
    }

    /// Reads bytes that cover `ranges`, by concurrent requests.
    pub(super) async fn request(&self, ranges: &[Range<u64>], io: &IoCounters) -> Result<Vec<Segment>> {
        let requests = self.shape.requests(ranges, self.identity.length);
        let mut segments: Vec<Segment> = if self.shape.is_grouped {
            let groups = self.shape.groups(&requests);
            let groups: Vec<_> = groups.into_iter().map(|group| self.request_group(group, io)).collect();
            let read = futures::stream::iter(groups).buffer_unordered(self.shape.concurrent);
            read.try_collect::<Vec<_>>().await?.into_iter().flatten().collect()
        } else {
            let requests: Vec<_> = requests.into_iter().map(|range| self.request_one(range, io)).collect();
            let read = futures::stream::iter(requests).buffer_unordered(self.shape.concurrent);
            read.try_collect().await?
        };
        segments.sort_by_key(|segment| segment.start);
        Ok(segments)
    }

    /// Reads several ranges by one call. Objects do not change while their drive is open; another opening may.
    async fn request_group(&self, ranges: Vec<Range<u64>>, io: &IoCounters) -> Result<Vec<Segment>> {
        let hull = ranges.first().map_or(0, |first| first.start)..ranges.last().map_or(0, |last| last.end);
        self.check_inside(&hull)?;
        let read = async {
            let now = self.store.head(&self.path).await?;
            let bytes = self.store.get_ranges(&self.path, &ranges).await?;
            Ok((now, bytes))
        };
        let (now, bytes) = match read.await {
            Ok(read) => read,
            Err(error) => return Err(self.explain(&hull, error).await),
        };
        if !is_same(&self.identity, &now) {
            return Err(self.changed("replaced"));
        }
        let segments = ranges
            .iter()
            .zip(bytes)
            .map(|(range, bytes)| self.segment(range, bytes, io));
        segments.collect()
    }

    fn check_inside(&self, range: &Range<u64>) -> Result<()> {
        if range.end > self.identity.length {
            let reason = format!("the file has {} bytes", self.identity.length);
            return Err(io_error(&self.name, range, reason));
        }
        Ok(())
    }

    /// Counts the bytes of a request, and checks that they are all.
    fn segment(&self, range: &Range<u64>, bytes: Bytes, io: &IoCounters) -> Result<Segment> {
        io.add(bytes.len() as u64, 1);
        if bytes.len() as u64 != range.end - range.start {
            let reason = format!("the store sent {} bytes", bytes.len());
            return Err(io_error(&self.name, range, reason));
        }
        Ok(Segment {
            start: range.start,
            bytes,
        })
    }

    async fn request_one(&self, range: Range<u64>, io: &IoCounters) -> Result<Segment> {
        self.check_inside(&range)?;
        let got = match self.store.get_opts(&self.path, self.conditions(&range)).await {
            Ok(got) => got,
            Err(error) => return Err(self.explain(&range, error).await),
        };
        if !is_same(&self.identity, &got.meta) {
            return Err(self.changed("replaced"));
        }
        let bytes = match got.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return Err(self.explain(&range, error).await),
        };
        self.segment(&range, bytes, io)
    }

    /// A request of `range` which the store refuses if the object has changed.
    fn conditions(&self, range: &Range<u64>) -> GetOptions {
        let strong = self.identity.etag.clone().filter(|etag| !is_weak(etag));
        // The listing has no time if it is out of range.
        let modified = i64::try_from(self.identity.modified_ns).ok().filter(|&time| time != 0);
        let modified = modified.and_then(timestamp_ns_to_datetime);
        GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_unmodified_since: modified.filter(|_| strong.is_none()).map(|time| time.and_utc()),
            if_match: strong,
            ..GetOptions::default()
        }
    }

    /// The error of an object that is not the listed one any more.
    fn changed(&self, what: &str) -> LayoutError {
        let reason =
            format!("the file changed while it was being queried (the object was {what}); run the query again");
        io_error(&self.name, &(0..self.identity.length), reason)
    }

    /// The error of a failed request. A store may refuse a range before it looks at the version, so the object is
    /// looked up again.
    async fn explain(&self, range: &Range<u64>, error: object_store::Error) -> LayoutError {
        match error {
            object_store::Error::Precondition { .. } | object_store::Error::NotModified { .. } => {
                self.changed("replaced")
            }
            object_store::Error::NotFound { .. } => self.changed("removed"),
            // A second request would wait as long.
            error if StoreError::find(&error).is_some_and(|found| found.is_unreachable) => {
                io_error(&self.name, range, reason(&error))
            }
            error => match self.store.head(&self.path).await {
                Ok(now) if !is_same(&self.identity, &now) => self.changed("replaced"),
                Err(object_store::Error::NotFound { .. }) => self.changed("removed"),
                _ => io_error(&self.name, range, reason(&error)),
            },
        }
    }
}

/// Whether an object has this identity: the same length, and the same entity tag or, without one, the same second of
/// modification.
fn is_same(identity: &Identity, object: &ObjectMeta) -> bool {
    let opaque = |tag: &str| tag.trim_start_matches("W/").to_owned();
    object.size == identity.length
        && match (&identity.etag, &object.e_tag) {
            (Some(known), Some(now)) => opaque(known) == opaque(now),
            _ if identity.modified_ns == 0 => true,
            _ => identity.modified_ns.div_euclid(1_000_000_000) == i128::from(object.last_modified.timestamp()),
        }
}

/// Whether an entity tag promises equal meaning only, not equal bytes.
fn is_weak(etag: &str) -> bool {
    etag.starts_with("W/")
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // lists of ranges that happen to have one
pub(super) mod tests {
    use object_store::memory::InMemory;

    use super::*;

    pub(in super::super) async fn remote(length: usize) -> (Vec<u8>, Arc<RemoteFile>) {
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
        let file = RemoteFile::new("memory:///a.orc".into(), store, path, identity, RequestShape::NETWORK);
        (bytes, Arc::new(file))
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
        let error = file.read(&[0..4], &IoCounters::default()).await.unwrap_err();
        assert!(error.to_string().contains("was replaced"), "{error}");
        file.store.delete(&file.path).await.unwrap();
        let error = file.read(&[0..4], &IoCounters::default()).await.unwrap_err();
        assert!(error.to_string().contains("was removed"), "{error}");
    }

    #[test]
    fn version_is_the_strong_tag_or_the_time() {
        let file = |etag: Option<&str>, modified_ns| {
            let identity = Identity {
                length: 100,
                modified_ns,
                inode: None,
                etag: etag.map(str::to_owned),
            };
            let store = Arc::new(InMemory::new());
            RemoteFile::new("m".into(), store, Path::from("a"), identity, RequestShape::NETWORK)
        };
        let conditions = |etag, modified_ns| {
            let sent = file(etag, modified_ns).conditions(&(0..4));
            let seconds = sent.if_unmodified_since.map(|time| time.timestamp());
            (sent.if_match, seconds)
        };
        let time = 1_700_000_000_500_000_000;
        assert_eq!(conditions(Some("\"a\""), time), (Some("\"a\"".to_owned()), None));
        assert_eq!(conditions(Some("W/\"a\""), time), (None, Some(1_700_000_000)));
        assert_eq!(conditions(None, time), (None, Some(1_700_000_000)));
        assert_eq!(conditions(None, 0), (None, None));

        let modified = timestamp_ns_to_datetime(1_700_000_000_000_000_000).unwrap().and_utc();
        let is_same = |etag, modified_ns, now: Option<&str>, size| {
            let object = ObjectMeta {
                location: Path::from("a"),
                last_modified: modified,
                size,
                e_tag: now.map(str::to_owned),
                version: None,
            };
            is_same(&file(etag, modified_ns).identity, &object)
        };
        assert!(is_same(Some("W/\"a\""), 0, Some("\"a\""), 100));
        assert!(!is_same(Some("\"a\""), time, Some("\"b\""), 100));
        assert!(!is_same(Some("\"a\""), time, Some("\"a\""), 101));
        assert!(is_same(None, time, Some("\"b\""), 100));
        assert!(!is_same(None, time + 1_000_000_000, None, 100));
        assert!(is_same(None, 0, None, 100));
    }
}
