//! [`HeldStore`]: a store whose new objects appear together, when a statement has written all of them.
//!
//! - *In an object store*, parts of uploads go to the store at once. The last step of each upload, and objects of one
//!   part, are held back.
//! - *Local* files are those of [`StagedFiles`], as for ORC.

use std::fmt;
use std::fs::File;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result as SinkResult};
use futures::stream::BoxStream;
use grampus_atomic_output::StagedFiles;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use super::held_upload::{FirstFailure, HeldUpload, LocalUpload, NOT_YET};
use super::new_files::local_path;
use super::write_error::{output_error, write_error};

/// An object of one part that is held back.
type HeldObject = (Path, PutPayload, PutOptions);

/// A store and the writes that it holds back. Clones hold the same writes.
#[derive(Debug, Clone)]
pub(super) struct HeldStore {
    store: Arc<dyn ObjectStore>,
    objects: Arc<Mutex<Vec<HeldObject>>>,
    uploads: Arc<Mutex<Vec<Box<dyn MultipartUpload>>>>,
    /// Files in the place of objects. None after the statement's end.
    files: Option<Arc<Mutex<Option<StagedFiles>>>>,
    failure: FirstFailure,
}

impl HeldStore {
    /// The store, whose objects are these files if it is the file system.
    pub(super) fn new(store: Arc<dyn ObjectStore>, files: Option<StagedFiles>) -> Self {
        Self {
            store,
            objects: Arc::default(),
            uploads: Arc::default(),
            files: files.map(|files| Arc::new(Mutex::new(Some(files)))),
            failure: FirstFailure::default(),
        }
    }

    /// Makes all objects visible, one after the other.
    ///
    /// # Errors
    /// The store's. The objects that are not visible then are discarded.
    pub(super) async fn publish(&self) -> SinkResult<()> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Some(files) = self.files.as_ref().and_then(|files| lock(files).take()) {
            return files.publish().map_err(|error| output_error(&error));
        }
        let published = self.publish_objects().await;
        published.map_err(|error| DataFusionError::ObjectStore(Box::new(error)))
    }

    async fn publish_objects(&self) -> Result<()> {
        let objects = mem::take(&mut *lock(&self.objects));
        let mut uploads = mem::take(&mut *lock(&self.uploads)).into_iter();
        for (path, payload, options) in objects {
            if let Err(error) = self.store.put_opts(&path, payload, options).await {
                discard(uploads).await;
                return Err(error);
            }
        }
        while let Some(mut upload) = uploads.next() {
            if let Err(error) = upload.complete().await {
                discard(uploads).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Discards all objects. Returns the error of a write to a local file, if one has failed.
    pub(super) async fn discard(&self) -> Option<DataFusionError> {
        if let Some(files) = &self.files {
            drop(lock(files).take());
        }
        lock(&self.objects).clear();
        let uploads = mem::take(&mut *lock(&self.uploads));
        discard(uploads.into_iter()).await;
        self.failure.take()
    }

    /// An upload to the local file at `path`.
    fn upload_to_file(&self, path: &Path, files: &Mutex<Option<StagedFiles>>) -> Result<LocalUpload> {
        let shown = local_path(path).map_err(|error| self.failure.keep(error))?;
        let staged = match lock(files).as_mut() {
            Some(files) => files
                .add(&shown)
                .map_err(|error| self.failure.keep(output_error(&error)))?,
            None => {
                return Err(self
                    .failure
                    .keep(DataFusionError::Internal("the statement has ended".to_owned())));
            }
        };
        let file = File::create_new(staged).map_err(|error| self.failure.keep(write_error(&shown, &error)))?;
        Ok(LocalUpload {
            shown: Arc::new(shown),
            file: Arc::new(file),
            bytes: 0,
            failure: self.failure.clone(),
        })
    }
}

async fn discard(uploads: impl Iterator<Item = Box<dyn MultipartUpload>>) {
    for mut upload in uploads {
        if let Err(error) = upload.abort().await {
            log::warn!("the store keeps the parts of an upload that was given up: {error}");
        }
    }
}

/// Locks a mutex. Writes are inserted whole.
fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for HeldStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for HeldStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match &self.files {
            Some(files) => self.upload_to_file(path, files)?.put_part(payload).await?,
            None => lock(&self.objects).push((path.clone(), payload, options)),
        }
        Ok(NOT_YET)
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        if let Some(files) = &self.files {
            return Ok(Box::new(self.upload_to_file(path, files)?));
        }
        let upload = Some(self.store.put_multipart_opts(path, options).await?);
        let held = Arc::clone(&self.uploads);
        Ok(Box::new(HeldUpload { upload, held }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(path, options).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    async fn names(store: &dyn ObjectStore) -> Vec<String> {
        let listed: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
        listed.iter().map(|object| object.location.to_string()).collect()
    }

    #[tokio::test]
    async fn objects_appear_together_or_not_at_all() {
        let memory = Arc::new(InMemory::new());
        for is_published in [false, true] {
            let held = HeldStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>, None);
            held.put(&"small".into(), "one".into()).await.unwrap();
            let mut upload = held.put_multipart(&"large".into()).await.unwrap();
            upload.put_part("two".into()).await.unwrap();
            upload.complete().await.unwrap();
            assert_eq!(names(memory.as_ref()).await, Vec::<String>::new());
            if is_published {
                held.publish().await.unwrap();
            } else {
                assert!(held.discard().await.is_none());
                held.publish().await.unwrap();
                assert_eq!(names(memory.as_ref()).await, Vec::<String>::new());
            }
        }
        assert_eq!(names(memory.as_ref()).await, ["large", "small"]);
        let large = memory.get(&"large".into()).await.unwrap().bytes().await.unwrap();
        assert_eq!(large, "two");
    }
}
