//! [`OrcRecordBatchStream`], the rows of a file as a stream of batches.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::stream::{self, BoxStream, Stream, StreamExt};

use super::fetched_ranges::FetchedRanges;
use super::source::AsyncByteSource;
use crate::arrow_reader::scan::{Progress, Scan};
use crate::arrow_reader::{ArrowReaderBuilder, ArrowReaderMetadata, ArrowReaderOptions};
use crate::error::{LayoutError, Result};
use crate::tail::{FileTail, TailParse};

/// A source whose bytes are fetched ahead of the rows.
#[derive(Debug)]
pub struct AsyncReader<T>(T);

/// The builder of an [`OrcRecordBatchStream`].
pub type OrcStreamBuilder<T> = ArrowReaderBuilder<AsyncReader<T>>;

impl<T: AsyncByteSource> ArrowReaderBuilder<AsyncReader<T>> {
    /// Reads the tail of a file, with the default options: the length, and one or two ranges.
    ///
    /// # Errors
    /// `NotOrc`, `Corrupt` or `Unsupported` for the tail, `Io` from the source.
    pub async fn try_new(source: T) -> Result<Self> {
        Self::try_new_with_options(source, &ArrowReaderOptions::new()).await
    }

    /// Reads the tail of a file.
    ///
    /// # Errors
    /// As [`try_new`](Self::try_new), and `InvalidRequest` for options that do not fit the file.
    pub async fn try_new_with_options(source: T, options: &ArrowReaderOptions) -> Result<Self> {
        let tail = read_tail(&source).await?;
        let metadata = ArrowReaderMetadata::try_new(Arc::new(tail), options)?;
        Ok(Self::new_with_metadata(source, metadata))
    }

    /// A builder for a source whose metadata is known. Nothing is read.
    pub fn new_with_metadata(source: T, metadata: ArrowReaderMetadata) -> Self {
        Self::new(AsyncReader(source), metadata)
    }

    /// The stream. It fetches nothing before its first batch is polled.
    ///
    /// # Errors
    /// `InvalidRequest` for stripes, columns or rows that the file does not have, and for batches without rows.
    pub fn build(self) -> Result<OrcRecordBatchStream> {
        let (AsyncReader(source), plan) = self.into_plan()?;
        let fetched = Arc::new(FetchedRanges::new(source.name()));
        let reader = StreamReader {
            scan: Scan::new(plan, fetched.clone(), true),
            fetched,
            source,
        };
        let schema = reader.scan.schema().clone();
        let batches = stream::unfold(Some(reader), |reader| async {
            let mut reader = reader?;
            match reader.next_batch().await {
                Ok(Some(batch)) => Some((Ok(batch), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(OrcRecordBatchStream {
            schema,
            batches: batches.boxed(),
        })
    }
}

async fn read_tail(source: &impl AsyncByteSource) -> Result<FileTail> {
    let (file, length) = (source.name(), source.length().await?);
    let mut wanted = FileTail::FIRST_READ_BYTES;
    // The first read holds the postscript, which states the tail's length: the second answer is complete.
    for _ in 0..2 {
        let last = source.get_range(length.saturating_sub(wanted)..length).await?;
        match FileTail::parse(&file, length, &last)? {
            TailParse::Complete(tail) => return Ok(*tail),
            TailParse::NeedBytes(bytes) => wanted = bytes,
        }
    }
    let range = length.saturating_sub(wanted)..length;
    let reason = "the file changed while it was read";
    Err(LayoutError::io_without_source(&file, range, reason))
}

/// A scan, and what it has been given to read.
struct StreamReader<T> {
    scan: Scan,
    fetched: Arc<FetchedRanges>,
    source: T,
}

impl<T: AsyncByteSource> StreamReader<T> {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let wanted = match self.scan.advance()? {
                Progress::Fetch(wanted) => wanted,
                Progress::Batch(batch) => return Ok(Some(batch)),
                Progress::Done => return Ok(None),
            };
            if self.scan.is_between_stripes() {
                self.fetched.clear();
            }
            let missing = self.fetched.missing(wanted);
            if missing.is_empty() {
                continue;
            }
            let bytes = self.source.get_ranges(missing.clone()).await?;
            if bytes.len() != missing.len() {
                let (file, whole) = (self.source.name(), missing[0].start..missing[missing.len() - 1].end);
                let reason = format!("the source returned {} of {} ranges", bytes.len(), missing.len());
                return Err(LayoutError::io_without_source(&file, whole, reason));
            }
            for (range, bytes) in missing.into_iter().zip(bytes) {
                self.fetched.insert(range, bytes)?;
            }
        }
    }
}

/// A stream of batches. An error is its last item.
///
/// The bytes of a stripe's selected rows are held until the stripe has been read. Decoding takes place while the stream
/// is polled.
pub struct OrcRecordBatchStream {
    schema: SchemaRef,
    batches: BoxStream<'static, Result<RecordBatch>>,
}

impl OrcRecordBatchStream {
    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

impl Stream for OrcRecordBatchStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next_unpin(context)
    }
}

impl fmt::Debug for OrcRecordBatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OrcRecordBatchStream")
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}
