//! [`HeldStore`]: a store whose new objects appear together, when a statement has written all of them.
//!
//! Parts of uploads go to the store at once. The last step of each upload, and objects of one part, are held back.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result, UploadPart,
};

/// The result of a write that is held back.
const NOT_YET: PutResult = PutResult {
    e_tag: None,
    version: None,
};

/// A write that is held back.
#[derive(Debug)]
enum Held {
    Object(Path, PutPayload, PutOptions),
    Upload(Box<dyn MultipartUpload>),
}

/// A store and the writes that it holds back. Clones hold the same writes.
#[derive(Debug, Clone)]
pub(super) struct HeldStore {
    store: Arc<dyn ObjectStore>,
    held: Arc<Mutex<Vec<Held>>>,
}

impl HeldStore {
    pub(super) fn new(store: Arc<dyn ObjectStore>) -> Self {
        let held = Arc::default();
        Self { store, held }
    }

    /// Makes all objects visible, one after the other.
    ///
    /// # Errors
    /// The store's. The objects that are not visible then are discarded.
    pub(super) async fn publish(&self) -> Result<()> {
        let mut held = mem::take(&mut *lock(&self.held)).into_iter();
        while let Some(next) = held.next() {
            let published = match next {
                Held::Object(path, payload, options) => self.store.put_opts(&path, payload, options).await,
                Held::Upload(mut upload) => upload.complete().await,
            };
            if let Err(error) = published {
                discard(held).await;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Discards all objects.
    pub(super) async fn discard(&self) {
        let held = mem::take(&mut *lock(&self.held));
        discard(held.into_iter()).await;
    }
}

async fn discard(held: impl Iterator<Item = Held>) {
    for held in held {
        if let Held::Upload(mut upload) = held
            && let Err(error) = upload.abort().await
        {
            log::warn!("the store keeps the parts of an upload that was given up: {error}");
        }
    }
}

/// Locks a mutex. Writes are inserted whole.
fn lock(held: &Mutex<Vec<Held>>) -> MutexGuard<'_, Vec<Held>> {
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
        lock(&self.held).push(Held::Object(path.clone(), payload, options));
        Ok(NOT_YET)
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = Some(self.store.put_multipart_opts(path, options).await?);
        let held = Arc::clone(&self.held);
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

/// An upload whose last step is held back.
#[derive(Debug)]
struct HeldUpload {
    /// None after the last step.
    upload: Option<Box<dyn MultipartUpload>>,
    held: Arc<Mutex<Vec<Held>>>,
}

/// The error of a step after the last.
fn ended() -> object_store::Error {
    object_store::Error::Generic {
        store: "upload",
        source: "the upload has ended".into(),
    }
}

#[async_trait]
impl MultipartUpload for HeldUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        match &mut self.upload {
            Some(upload) => upload.put_part(payload),
            None => Box::pin(std::future::ready(Err(ended()))),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let upload = self.upload.take().ok_or_else(ended)?;
        lock(&self.held).push(Held::Upload(upload));
        Ok(NOT_YET)
    }

    async fn abort(&mut self) -> Result<()> {
        match &mut self.upload {
            Some(upload) => upload.abort().await,
            None => Ok(()),
        }
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
            let held = HeldStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>);
            held.put(&"small".into(), "one".into()).await.unwrap();
            let mut upload = held.put_multipart(&"large".into()).await.unwrap();
            upload.put_part("two".into()).await.unwrap();
            upload.complete().await.unwrap();
            assert_eq!(names(memory.as_ref()).await, Vec::<String>::new());
            if is_published {
                held.publish().await.unwrap();
            } else {
                held.discard().await;
                held.publish().await.unwrap();
                assert_eq!(names(memory.as_ref()).await, Vec::<String>::new());
            }
        }
        assert_eq!(names(memory.as_ref()).await, ["large", "small"]);
        let large = memory.get(&"large".into()).await.unwrap().bytes().await.unwrap();
        assert_eq!(large, "two");
    }
}
