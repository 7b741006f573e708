//! In place of `cloud_stores.rs` if the feature `clouds` is off: each store is an error that names the feature.

use std::fmt;
use std::sync::Arc;

use object_store::ObjectStore;
use url::Url;

use super::{StoreKind, StoreOptions};
use crate::store_error::StoreError;

/// An error of a connection, of which there is none.
#[derive(Debug)]
pub(crate) enum HttpError {}

/// The kinds of such errors that have words of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HttpErrorKind {
    Connect,
    Timeout,
}

impl HttpError {
    pub(crate) fn kind(&self) -> HttpErrorKind {
        match *self {}
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl std::error::Error for HttpError {}

/// Each option may be one: the store's error names the feature.
pub(super) fn has_option(_: StoreKind, _: &str) -> bool {
    true
}

/// The error of each store.
pub(super) fn build(_: StoreKind, _: &Url, shown: &str, _: &StoreOptions) -> Result<Arc<dyn ObjectStore>, StoreError> {
    let advice = "build grampus with its feature `clouds`, or register a store for this URL in the session";
    Err(StoreError::new(
        shown,
        "this program is built without stores of clouds and HTTP servers",
        advice,
    ))
}
