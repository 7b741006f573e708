//! [`found_object`]: an object that a program has listed, as a [`FoundFile`].

use std::sync::Arc;

use datafusion::common::{plan_datafusion_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use object_store::local::LocalFileSystem;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use super::listing::FoundFile;
use crate::file::{Identity, Place};

/// How the store of all local files is shown.
const LOCAL_FILES: &str = "LocalFileSystem(file:///)";

/// The object as a file, with the version that a store's listing has told. A local file's is looked up.
///
/// # Errors
/// If the local file cannot be looked up.
pub(crate) fn found_object(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<FoundFile> {
    let shown = store.to_string();
    let (name, place, identity) = if shown == LOCAL_FILES {
        let path = LocalFileSystem::new().path_to_filesystem(&object.location)?;
        let metadata = std::fs::metadata(&path);
        let metadata = metadata.map_err(|error| DataFusionError::Plan(format!("{}: {error}", path.display())))?;
        let name = path.display().to_string();
        (name, Place::Local(path), Identity::of_local(&metadata))
    } else {
        // Two stores may look alike. The registry keeps its stores, and with them their addresses.
        let place = Place::Remote {
            store: Arc::clone(store),
            url: format!("{shown} {:p}", Arc::as_ptr(store)).into(),
            path: object.location.clone(),
        };
        let name = format!("{shown}/{}", object.location);
        (name, place, Identity::of_object(object))
    };
    Ok(FoundFile {
        name: name.into(),
        place,
        identity,
        folders: Vec::new(),
        is_named: false,
    })
}

/// As [`found_object`], of an object that a catalog names. The length that the catalog names must be the file's. Its
/// time counts for nothing: table formats have times of their own. So the store is asked for the version, unless the
/// catalog has an entity tag.
///
/// # Errors
/// If the object cannot be looked up, or has another length.
pub(crate) async fn named_object(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<FoundFile> {
    let mut found = found_object(store, object)?;
    if matches!(found.place, Place::Remote { .. }) && found.identity.etag.is_none() {
        let now = store.head(&object.location).await;
        let now = now.map_err(|error| plan_datafusion_err!("{}: {error}", found.name))?;
        found.identity = Identity::of_object(&now);
    }
    match found.identity.length == object.size {
        true => Ok(found),
        false => plan_err!(
            "{}: it has {} bytes, but {} by the plan: the file has changed; plan the query again",
            found.name,
            found.identity.length,
            object.size
        ),
    }
}
