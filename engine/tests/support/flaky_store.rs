//! `FlakyStore`: an object store in memory whose requests can be slow, fail, or find another object.
#![allow(dead_code)] // each test binary uses a part of it

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use tokio::sync::watch;

/// What happens to the requests of a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Faults {
    /// Maximum delay of a read, in microseconds. One read in 16 is delayed, the others let other tasks run.
    pub(crate) max_delay_us: u64,
    /// The read, counted from 0, that fails.
    pub(crate) failing_read: Option<usize>,
    /// The read, counted from 0, before which the object has this content, or none.
    pub(crate) replacement: Option<(usize, Option<Bytes>)>,
    /// Objects have no entity tag.
    pub(crate) without_etags: bool,
    /// Conditions of requests have no effect.
    pub(crate) ignores_conditions: bool,
}

/// What has happened to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// The store was asked for an object's metadata.
    Head,
    /// The store was asked for the bytes of a range.
    Asked(Range<u64>),
    /// The store has answered with these bytes.
    Answered(Range<u64>),
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    reads: usize,
    events: Vec<Event>,
}

/// A store in memory with faults.
#[derive(Debug, Default)]
pub(crate) struct FlakyStore {
    inner: InMemory,
    state: Mutex<State>,
    /// Whether answers are held back.
    is_held: watch::Sender<bool>,
    observer: Mutex<Observer>,
}

/// What each range is told to that is asked for.
type TellRange = dyn Fn(&Range<u64>) + Send + Sync;

/// What is told of each range that is asked for.
#[derive(Clone, Default)]
struct Observer(Option<Arc<TellRange>>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl FlakyStore {
    /// A store with one object.
    pub(crate) async fn with_object(path: &str, content: Bytes) -> Arc<Self> {
        let store = Self::default();
        store.inner.put(&path.into(), content.into()).await.unwrap();
        Arc::new(store)
    }

    /// Sets the faults and counts reads from 0 again. Returns the number of reads since the last call.
    pub(crate) fn set(&self, faults: Faults) -> usize {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *state);
        state.faults = faults;
        before.reads
    }

    /// What has happened since the last call of [`set`](Self::set).
    pub(crate) fn events(&self) -> Vec<Event> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).events.clone()
    }

    /// Ranges that were asked for since the last call of [`set`](Self::set).
    pub(crate) fn asked(&self) -> Vec<Range<u64>> {
        let asked = self.events().into_iter().filter_map(|event| match event {
            Event::Asked(range) => Some(range),
            Event::Head | Event::Answered(_) => None,
        });
        asked.collect()
    }

    /// Calls `observer` when a range is asked for.
    pub(crate) fn observe(&self, observer: impl Fn(&Range<u64>) + Send + Sync + 'static) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = Observer(Some(Arc::new(observer)));
    }

    /// Holds answers back, or lets them go.
    pub(crate) fn hold(&self, is_held: bool) {
        self.is_held.send_replace(is_held);
    }

    fn log(&self, event: Event) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .events
            .push(event);
    }

    /// Replaces an object.
    pub(crate) async fn replace(&self, path: &str, content: Bytes) {
        self.inner.put(&path.into(), content.into()).await.unwrap();
    }

    fn next_read(&self) -> (usize, Faults) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.reads += 1;
        (state.reads - 1, state.faults.clone())
    }

    fn faults(&self) -> Faults {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.faults.clone()
    }
}

fn listed(mut object: ObjectMeta, faults: &Faults) -> ObjectMeta {
    if faults.without_etags {
        object.e_tag = None;
    }
    object
}

impl fmt::Display for FlakyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FlakyStore")
    }
}

#[async_trait]
impl ObjectStore for FlakyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.inner.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, mut options: GetOptions) -> Result<GetResult> {
        if options.head {
            self.log(Event::Head);
            let mut got = self.inner.get_opts(location, options).await?;
            got.meta = listed(got.meta, &self.faults());
            return Ok(got);
        }
        let range = match options.range {
            Some(GetRange::Bounded(ref range)) => range.clone(),
            _ => 0..u64::MAX,
        };
        self.log(Event::Asked(range.clone()));
        let Observer(observer) = self.observer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(observer) = observer {
            observer(&range);
        }
        let (read, faults) = self.next_read();
        let mut held = self.is_held.subscribe();
        let _ = held.wait_for(|is_held| !is_held).await;
        if faults.max_delay_us > 0 && read.is_multiple_of(16) {
            // Later answers overtake this one.
            let delay = (read as u64 * 7919) % faults.max_delay_us;
            tokio::time::sleep(Duration::from_micros(delay)).await;
        } else {
            tokio::task::yield_now().await;
        }
        if faults.failing_read == Some(read) {
            return Err(object_store::Error::Generic {
                store: "FlakyStore",
                source: "the request was not answered".into(),
            });
        }
        match faults.replacement {
            Some((at, ref content)) if at == read => match content {
                Some(content) => drop(self.inner.put(location, content.clone().into()).await?),
                None => self.inner.delete(location).await?,
            },
            _ => {}
        }
        if faults.ignores_conditions {
            options.if_match = None;
            options.if_unmodified_since = None;
        }
        let mut got = self.inner.get_opts(location, options).await?;
        got.meta = listed(got.meta, &faults);
        self.log(Event::Answered(range));
        Ok(got)
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let faults = self.faults();
        let objects = self.inner.list(prefix);
        objects
            .map(move |object| object.map(|object| listed(object, &faults)))
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut result = self.inner.list_with_delimiter(prefix).await?;
        let faults = self.faults();
        result.objects = result
            .objects
            .into_iter()
            .map(|object| listed(object, &faults))
            .collect();
        Ok(result)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
