//! [`OrcRecordBatchReader`], the rows of a file as an iterator of batches.

use std::fmt;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::builder::ArrowReaderBuilder;
use super::metadata::ArrowReaderMetadata;
use super::options::ArrowReaderOptions;
use super::scan::{Progress, Scan};
use crate::error::Result;
use crate::source::{ByteSource, ChunkReader};

/// A source that is read while the reader's caller waits.
#[derive(Debug)]
pub struct SyncReader<T>(T);

/// The builder of an [`OrcRecordBatchReader`].
pub type OrcReaderBuilder<T> = ArrowReaderBuilder<SyncReader<T>>;

impl<T: ChunkReader> ArrowReaderBuilder<SyncReader<T>> {
    /// Reads the tail of a file, with the default options.
    ///
    /// # Errors
    /// `NotOrc`, `Corrupt` or `Unsupported` for the tail, `Io` from the source.
    pub fn try_new(source: T) -> Result<Self> {
        Self::try_new_with_options(source, &ArrowReaderOptions::new())
    }

    /// Reads the tail of a file.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new), and `InvalidRequest` for options that do not fit the file.
    pub fn try_new_with_options(source: T, options: &ArrowReaderOptions) -> Result<Self> {
        let metadata = ArrowReaderMetadata::load(&source, options)?;
        Ok(Self::new_with_metadata(source, metadata))
    }

    /// A builder for a source whose metadata is known. Nothing is read.
    pub fn new_with_metadata(source: T, metadata: ArrowReaderMetadata) -> Self {
        Self::new(SyncReader(source), metadata)
    }

    /// The reader. It reads nothing before its first batch.
    ///
    /// # Errors
    /// `InvalidRequest` for stripes, columns or rows that the file does not have, and for batches without rows.
    pub fn build(self) -> Result<OrcRecordBatchReader> {
        let (SyncReader(source), plan) = self.into_plan()?;
        let source: Arc<dyn ByteSource> = Arc::new(source);
        Ok(OrcRecordBatchReader {
            scan: Scan::new(plan, source, false),
        })
    }
}

/// An iterator of batches. An error is its last item.
///
/// Every error is an [`ArrowError::ExternalError`] with a [`LayoutError`](crate::LayoutError) as its source.
pub struct OrcRecordBatchReader {
    scan: Scan,
}

impl OrcRecordBatchReader {
    /// The next batch; `None` at the end.
    ///
    /// # Errors
    /// Each of [`LayoutError`](crate::LayoutError)'s that reading can cause.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match self.scan.advance()? {
                Progress::Fetch(_) => {} // the source reads on demand
                Progress::Batch(batch) => return Ok(Some(batch)),
                Progress::Done => return Ok(None),
            }
        }
    }
}

impl Iterator for OrcRecordBatchReader {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(ArrowError::from).transpose()
    }
}

impl RecordBatchReader for OrcRecordBatchReader {
    fn schema(&self) -> SchemaRef {
        self.scan.schema().clone()
    }
}

impl fmt::Debug for OrcRecordBatchReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrcRecordBatchReader")
            .field("schema", self.scan.schema())
            .finish_non_exhaustive()
    }
}
