//! [`KeptRows`]: values of columns that were read already, for the rows that passed so far.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{BatchCoalescer, concat_batches};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::error::Result;

/// Rows of some columns of a file, taken in the order in which they were put in.
#[derive(Debug)]
pub(super) struct KeptRows {
    /// The columns, ascending, as places in the file's schema.
    pub(super) columns: Vec<usize>,
    schema: SchemaRef,
    batches: VecDeque<RecordBatch>,
    /// Rows of the first batch that were taken already.
    taken: usize,
    gathered: BatchCoalescer,
}

impl KeptRows {
    pub(super) fn new(columns: Vec<usize>, file_schema: &Schema, batch_size: usize) -> Result<Self> {
        let schema = Arc::new(file_schema.project(&columns)?);
        Ok(Self {
            columns,
            gathered: BatchCoalescer::new(Arc::clone(&schema), batch_size),
            schema,
            batches: VecDeque::new(),
            taken: 0,
        })
    }

    /// Puts in the rows that `mask` lets through. `arrays` are in the order of the columns.
    pub(super) fn put(&mut self, arrays: Vec<ArrayRef>, mask: &BooleanArray) -> Result<()> {
        if self.columns.is_empty() {
            return Ok(());
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays)?;
        match mask.true_count() == mask.len() && self.gathered.is_empty() {
            true => self.batches.push_back(batch),
            false => self.gathered.push_batch_with_filter(batch, mask)?,
        }
        while let Some(batch) = self.gathered.next_completed_batch() {
            self.batches.push_back(batch);
        }
        Ok(())
    }

    /// Ends the putting in.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.gathered.finish_buffered_batch()?;
        while let Some(batch) = self.gathered.next_completed_batch() {
            self.batches.push_back(batch);
        }
        Ok(())
    }

    /// Rows of the next batch, as many as lie together.
    pub(super) fn next_rows(&self) -> usize {
        self.batches.front().map_or(0, |batch| batch.num_rows() - self.taken)
    }

    /// The next `rows` rows, column by column.
    pub(super) fn take(&mut self, rows: usize) -> Result<Vec<ArrayRef>> {
        if self.columns.is_empty() {
            return Ok(Vec::new());
        }
        let mut parts = Vec::new();
        let mut left = rows;
        while left > 0 {
            let Some(front) = self.batches.front() else {
                return datafusion::common::internal_err!("{left} of {rows} kept rows are missing");
            };
            let count = left.min(front.num_rows() - self.taken);
            parts.push(front.slice(self.taken, count));
            left -= count;
            self.taken += count;
            if self.taken == front.num_rows() {
                self.batches.pop_front();
                self.taken = 0;
            }
        }
        match parts.len() {
            1 => Ok(parts.remove(0).columns().to_vec()),
            _ => Ok(concat_batches(&self.schema, &parts)?.columns().to_vec()),
        }
    }
}
