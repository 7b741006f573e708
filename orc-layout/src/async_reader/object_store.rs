//! [`ObjectStoreSource`], a file in an object store.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

use super::source::AsyncByteSource;
use crate::error::{LayoutError, Result};

/// A file in an object store. The store joins ranges that are close to each other.
#[derive(Debug, Clone)]
pub struct ObjectStoreSource {
    store: Arc<dyn ObjectStore>,
    path: Path,
    length: Option<u64>,
}

impl ObjectStoreSource {
    /// The file at `path`. Its length takes a request.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        Self {
            store,
            path,
            length: None,
        }
    }

    /// The same with a length that the caller knows, as from a listing.
    pub fn with_length(self, length: u64) -> Self {
        Self {
            length: Some(length),
            ..self
        }
    }
}

impl AsyncByteSource for ObjectStoreSource {
    fn get_range(&self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        Box::pin(async move {
            let fetched = self.store.get_range(&self.path, range.clone()).await;
            fetched.map_err(|error| LayoutError::io(&self.name(), range, error))
        })
    }

    fn get_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        Box::pin(async move {
            let whole = ranges.first().map_or(0, |range| range.start)..ranges.last().map_or(0, |range| range.end);
            let fetched = self.store.get_ranges(&self.path, &ranges).await;
            fetched.map_err(|error| LayoutError::io(&self.name(), whole, error))
        })
    }

    fn length(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            match self.length {
                Some(length) => Ok(length),
                None => match self.store.head(&self.path).await {
                    Ok(found) => Ok(found.size),
                    Err(error) => Err(LayoutError::io(&self.name(), 0..0, error)),
                },
            }
        })
    }

    fn name(&self) -> Arc<str> {
        self.path.as_ref().into()
    }
}
