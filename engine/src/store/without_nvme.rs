//! In place of `nvme_store.rs` if the feature `gpu` is off: each store is an error that names the feature.

use std::io;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use object_store::path::Path;
use url::Url;

use super::nvme_location::shown;
use crate::store_error::StoreError;

/// A file on a namespace, of which there is none.
#[derive(Debug, Clone)]
pub enum NamespaceFile {}

impl NamespaceFile {
    pub(crate) fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<()> {
        match *self {}
    }
}

/// No object is a file on a namespace.
pub(crate) fn namespace_file(_: &dyn ObjectStore, _: &Path, _: Option<&str>) -> Option<NamespaceFile> {
    None
}

/// The error of each store.
pub(super) fn open(url: &Url) -> Result<InMemory, StoreError> {
    let reason = "this program is built without the NVMe driver";
    Err(StoreError::new(
        shown(url.as_str()),
        reason,
        "build grampus with its feature `gpu`",
    ))
}
