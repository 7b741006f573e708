//! Uploads whose last step is held back: [`HeldUpload`] to an object store, [`LocalUpload`] to a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::write_error::write_error;

/// The result of a write that is held back.
pub(super) const NOT_YET: PutResult = PutResult {
    e_tag: None,
    version: None,
};

/// An upload to a store. Its last step is taken by the store that holds it back.
#[derive(Debug)]
pub(super) struct HeldUpload {
    /// None after the last step.
    pub(super) upload: Option<Box<dyn MultipartUpload>>,
    pub(super) held: Arc<Mutex<Vec<Box<dyn MultipartUpload>>>>,
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
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(upload);
        Ok(NOT_YET)
    }

    async fn abort(&mut self) -> Result<()> {
        match &mut self.upload {
            Some(upload) => upload.abort().await,
            None => Ok(()),
        }
    }
}

/// The first error of a statement's writes to local files. DataFusion's sinks drop its reason.
#[derive(Debug, Clone, Default)]
pub(super) struct FirstFailure(Arc<Mutex<Option<DataFusionError>>>);

impl FirstFailure {
    pub(super) fn take(&self) -> Option<DataFusionError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Keeps the error if it is the first, and makes one of it for the sink.
    pub(super) fn keep(&self, error: DataFusionError) -> object_store::Error {
        let source = error.strip_backtrace().into();
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
        object_store::Error::Generic { store: "file", source }
    }
}

/// An upload to a hidden file, which another one publishes.
#[derive(Debug)]
pub(super) struct LocalUpload {
    /// The path in messages.
    pub(super) shown: Arc<PathBuf>,
    pub(super) file: Arc<File>,
    /// Bytes of all parts before.
    pub(super) bytes: u64,
    pub(super) failure: FirstFailure,
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, payload: PutPayload) -> UploadPart {
        let mut offset = self.bytes;
        self.bytes += payload.content_length() as u64;
        let (file, shown, failure) = (Arc::clone(&self.file), Arc::clone(&self.shown), self.failure.clone());
        Box::pin(async move {
            let written = tokio::task::spawn_blocking(move || {
                for bytes in &payload {
                    file.write_all_at(bytes, offset)?;
                    offset += bytes.len() as u64;
                }
                Ok::<(), std::io::Error>(())
            });
            let written = written
                .await
                .unwrap_or_else(|stopped| Err(std::io::Error::other(stopped)));
            written.map_err(|error| failure.keep(write_error(&shown, &error)))
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        Ok(NOT_YET)
    }

    async fn abort(&mut self) -> Result<()> {
        Ok(())
    }
}
