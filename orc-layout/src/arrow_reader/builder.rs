//! [`ArrowReaderBuilder`], the choice of columns, rows and batches before a file is read.

use super::filter::RowFilter;
use super::metadata::ArrowReaderMetadata;
use super::projection::ProjectionMask;
use super::scan_plan::{ScanPlan, ScanRequest};
use crate::error::Result;
use crate::schema::OrcSchema;
use crate::selection::RowSelection;
use crate::tail::FileTail;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// The choice of columns, rows and batches of a reader. `S` is the reader's source:
/// [`OrcReaderBuilder`](super::OrcReaderBuilder) reads from a [`ChunkReader`](crate::source::ChunkReader).
///
/// Rows are chosen in this order: stripes, row selection, row filter, offset, limit.
#[derive(Debug)]
pub struct ArrowReaderBuilder<S> {
    pub(crate) source: S,
    metadata: ArrowReaderMetadata,
    request: ScanRequest,
}

impl<S> ArrowReaderBuilder<S> {
    /// A builder for a source whose metadata has been loaded.
    pub(crate) fn new(source: S, metadata: ArrowReaderMetadata) -> Self {
        Self {
            source,
            metadata,
            request: ScanRequest::default(),
        }
    }

    /// The file's stripes, statistics and user metadata.
    pub fn metadata(&self) -> &Arc<FileTail> {
        self.metadata.metadata()
    }

    /// The file's ORC types.
    pub fn orc_schema(&self) -> &OrcSchema {
        &self.metadata.metadata().schema
    }

    /// The schema of all columns, before a projection.
    pub fn schema(&self) -> &SchemaRef {
        self.metadata.schema()
    }

    /// Sets the columns of the batches, in the file's order. Default: all.
    pub fn with_projection(mut self, mask: ProjectionMask) -> Self {
        self.request.projection = Some(mask);
        self
    }

    /// Sets the rows of a batch. Default: 1,024. The last batch has fewer, and so have batches of huge values.
    pub fn with_batch_size(mut self, batch_size: usize) -> Self {
        self.request.batch_size = Some(batch_size);
        self
    }

    /// Sets the bytes of text and elements that are decoded at once, about; at most 256 MiB, the default. Batches of
    /// huge values have fewer rows. A single value may not take more.
    pub fn with_batch_bytes(mut self, batch_bytes: u64) -> Self {
        self.request.batch_bytes = Some(batch_bytes);
        self
    }

    /// Sets the stripes that are read, in this order. Default: all.
    pub fn with_stripes(mut self, stripes: Vec<usize>) -> Self {
        self.request.stripes = Some(stripes);
        self
    }

    /// Sets the rows that are read, counted over the chosen stripes in their order. Default: all.
    pub fn with_row_selection(mut self, selection: RowSelection) -> Self {
        self.request.selection = Some(selection);
        self
    }

    /// Sets predicates that selected rows must pass.
    pub fn with_row_filter(mut self, filter: RowFilter) -> Self {
        self.request.filter = Some(filter);
        self
    }

    /// Sets the most rows that are returned.
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.request.limit = Some(limit);
        self
    }

    /// Drops the first rows that would be returned.
    pub fn with_offset(mut self, offset: usize) -> Self {
        self.request.offset = Some(offset);
        self
    }

    /// The source, and the plan of what is read from it.
    ///
    /// # Errors
    /// `InvalidRequest` for stripes, columns or rows that the file does not have, and for batches without rows.
    pub(crate) fn into_plan(self) -> Result<(S, ScanPlan)> {
        Ok((self.source, ScanPlan::new(self.metadata, self.request)?))
    }
}
