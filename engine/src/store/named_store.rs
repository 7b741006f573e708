//! [`NamedStore`]: a store whose errors name the user's URL, the reason and what to do.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result, UploadPart,
};

use super::request_error::explain;
use super::store_kind::StoreKind;

/// The name of a store in messages.
#[derive(Debug, Clone)]
struct Name {
    kind: StoreKind,
    /// Scheme and host, without a password and without a slash at the end.
    url: Arc<str>,
}

impl Name {
    /// The error with the URL of `path`. Its variant stays, as callers tell apart what is missing and what is refused.
    fn explain(&self, path: Option<&Path>, error: Error) -> Error {
        let url = match path {
            Some(path) if !path.as_ref().is_empty() => format!("{}/{path}", self.url),
            _ => self.url.to_string(),
        };
        let store = match &error {
            Error::Generic { store, .. } => store,
            _ => "object",
        };
        let path = url.clone();
        let variant: fn(String, &'static str, Box<dyn std::error::Error + Send + Sync>) -> Error = match &error {
            Error::NotFound { .. } => |path, _, source| Error::NotFound { path, source },
            Error::AlreadyExists { .. } => |path, _, source| Error::AlreadyExists { path, source },
            Error::Precondition { .. } => |path, _, source| Error::Precondition { path, source },
            Error::NotModified { .. } => |path, _, source| Error::NotModified { path, source },
            Error::PermissionDenied { .. } => |path, _, source| Error::PermissionDenied { path, source },
            Error::Unauthenticated { .. } => |path, _, source| Error::Unauthenticated { path, source },
            _ => |_, store, source| Error::Generic { store, source },
        };
        variant(path, store, Box::new(explain(self.kind, url, error)))
    }

    fn explain_all<T: Send + 'static>(
        &self,
        path: Option<&Path>,
        items: BoxStream<'static, Result<T>>,
    ) -> BoxStream<'static, Result<T>> {
        let (name, path) = (self.clone(), path.cloned());
        items.map_err(move |error| name.explain(path.as_ref(), error)).boxed()
    }
}

/// A store and its name in messages.
#[derive(Debug)]
pub(super) struct NamedStore {
    name: Name,
    store: Arc<dyn ObjectStore>,
}

impl NamedStore {
    pub(super) fn new(kind: StoreKind, url: &str, store: Arc<dyn ObjectStore>) -> Self {
        let url = url.trim_end_matches('/').into();
        Self {
            name: Name { kind, url },
            store,
        }
    }

    fn failed(&self, path: &Path) -> impl FnOnce(Error) -> Error {
        move |error| self.name.explain(Some(path), error)
    }
}

impl fmt::Display for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name.url)
    }
}

#[async_trait]
impl ObjectStore for NamedStore {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let put = self.store.put_opts(path, payload, options).await;
        put.map_err(self.failed(path))
    }

    async fn put_multipart_opts(&self, path: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.store.put_multipart_opts(path, options).await;
        Ok(Box::new(NamedUpload {
            upload: upload.map_err(self.failed(path))?,
            name: self.name.clone(),
            path: path.clone(),
        }))
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        let got = self.store.get_opts(path, options).await;
        let mut got = got.map_err(self.failed(path))?;
        if let GetResultPayload::Stream(bytes) = got.payload {
            got.payload = GetResultPayload::Stream(self.name.explain_all(Some(path), bytes));
        }
        Ok(got)
    }

    async fn get_ranges(&self, path: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let got = self.store.get_ranges(path, ranges).await;
        got.map_err(self.failed(path))
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.name.explain_all(None, self.store.delete_stream(paths))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.name.explain_all(prefix, self.store.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.name
            .explain_all(prefix, self.store.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let listed = self.store.list_with_delimiter(prefix).await;
        listed.map_err(|error| self.name.explain(prefix, error))
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let copied = self.store.copy_opts(from, to, options).await;
        copied.map_err(self.failed(to))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let renamed = self.store.rename_opts(from, to, options).await;
        renamed.map_err(self.failed(to))
    }
}

/// An upload in parts to a named store.
#[derive(Debug)]
struct NamedUpload {
    upload: Box<dyn MultipartUpload>,
    name: Name,
    path: Path,
}

#[async_trait]
impl MultipartUpload for NamedUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let (name, path) = (self.name.clone(), self.path.clone());
        let sent = self.upload.put_part(payload);
        sent.map(move |sent| sent.map_err(|error| name.explain(Some(&path), error)))
            .boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let completed = self.upload.complete().await;
        completed.map_err(|error| self.name.explain(Some(&self.path), error))
    }

    async fn abort(&mut self) -> Result<()> {
        let aborted = self.upload.abort().await;
        aborted.map_err(|error| self.name.explain(Some(&self.path), error))
    }
}
