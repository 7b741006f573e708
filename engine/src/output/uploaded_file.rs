//! [`UploadedFile`]: a file that is written here and then uploaded to an object store.
//!
//! Publishing uploads the file in parts, and the store shows the object when the last part is confirmed. If an upload
//! fails, its parts are discarded.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use tempfile::TempPath;

use super::write_error::write_error;

/// Bytes of one part of an upload. Stores ask for at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// A temporary file, which is open while it is written or read, and the object that it becomes.
#[derive(Debug)]
pub(super) struct UploadedFile {
    path: object_store::path::Path,
    staged: TempPath,
}

impl UploadedFile {
    /// Starts the file of the object `path`.
    ///
    /// # Errors
    /// If there is no temporary file.
    pub(super) fn create(path: object_store::path::Path) -> Result<Self> {
        let staged = tempfile::Builder::new().prefix("grampus-upload-").tempfile();
        let staged = staged
            .map_err(|error| write_error(&std::env::temp_dir(), &error))?
            .into_temp_path();
        Ok(Self { path, staged })
    }

    /// The file to write to.
    pub(super) fn place(&self) -> &Path {
        &self.staged
    }

    /// Uploads the file in parts.
    ///
    /// # Errors
    /// The store's. An object that was there before stays.
    pub(super) async fn upload(&self, store: &dyn ObjectStore) -> Result<()> {
        let failed_read = |error| read_error(&self.staged, &error);
        let mut file = File::open(&self.staged).map_err(failed_read)?;
        let first = part(&mut file).map_err(failed_read)?;
        if first.len() < PART_BYTES {
            store.put(&self.path, PutPayload::from(first)).await?;
            return Ok(());
        }
        let mut parts = store.put_multipart(&self.path).await?;
        let mut next = first;
        let sent = async {
            while !next.is_empty() {
                parts.put_part(PutPayload::from(next)).await?;
                next = part(&mut file).map_err(failed_read)?;
            }
            parts.complete().await?;
            Ok(())
        }
        .await;
        if sent.is_err()
            && let Err(error) = parts.abort().await
        {
            log::warn!("{}: the store keeps the parts of a failed upload: {error}", self.path);
        }
        sent
    }
}

/// The next bytes of a file, at most one part.
fn part(file: &mut File) -> std::io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(PART_BYTES);
    file.take(PART_BYTES as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

fn read_error(path: &Path, error: &std::io::Error) -> DataFusionError {
    DataFusionError::Execution(format!("cannot read {}: {error}", path.display()))
}
