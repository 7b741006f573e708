//! [`BatchQueue`], decoded rows that become batches of the wanted size.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

/// Rows in order, as small batches.
#[derive(Debug)]
pub(super) struct BatchQueue {
    schema: SchemaRef,
    batch_size: usize,
    /// Bytes from which rows are returned in a smaller batch.
    batch_bytes: usize,
    parts: VecDeque<RecordBatch>,
    rows: usize,
    /// Memory of the parts, about: shared buffers count for each part.
    bytes: usize,
}

impl BatchQueue {
    /// An empty queue for batches of `batch_size` rows, at least one, and of about `batch_bytes` at most.
    pub(super) fn new(schema: SchemaRef, batch_size: usize, batch_bytes: usize) -> Self {
        Self {
            schema,
            batch_size,
            batch_bytes,
            parts: VecDeque::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Appends rows.
    pub(super) fn push(&mut self, part: RecordBatch) {
        if part.num_rows() > 0 {
            self.rows += part.num_rows();
            self.bytes = self.bytes.saturating_add(part.get_array_memory_size());
            self.parts.push_back(part);
        }
    }

    /// Takes a batch: of the wanted size, or with fewer rows at the end or where rows are large.
    ///
    /// # Errors
    /// If Arrow cannot join the parts.
    pub(super) fn take(&mut self, at_end: bool) -> Result<Option<RecordBatch>, ArrowError> {
        let is_large = self.bytes >= self.batch_bytes;
        if self.rows == 0 || self.rows < self.batch_size && !at_end && !is_large {
            return Ok(None);
        }
        let mut taken = Vec::new();
        let (mut missing, mut bytes) = (self.batch_size, 0usize);
        while missing > 0
            && let Some(part) = self.parts.pop_front()
        {
            let size = part.get_array_memory_size();
            if !taken.is_empty() && bytes.saturating_add(size) > self.batch_bytes {
                self.parts.push_front(part);
                break;
            }
            bytes = bytes.saturating_add(size);
            self.bytes -= size.min(self.bytes);
            let rows = part.num_rows().min(missing);
            if rows < part.num_rows() {
                let rest = part.slice(rows, part.num_rows() - rows);
                self.bytes = self.bytes.saturating_add(rest.get_array_memory_size());
                self.parts.push_front(rest);
            }
            taken.push(part.slice(0, rows));
            missing -= rows;
            self.rows -= rows;
        }
        match &taken[..] {
            [one] => Ok(Some(one.clone())),
            parts => concat_batches(&self.schema, parts).map(Some),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int32Array};
    use arrow::datatypes::Int32Type;

    use super::*;

    fn part(values: std::ops::Range<i32>) -> RecordBatch {
        let array: ArrayRef = Arc::new(Int32Array::from_iter_values(values));
        RecordBatch::try_from_iter([("x", array)]).unwrap()
    }

    #[test]
    fn parts_become_batches_of_one_size_in_order() {
        let mut queue = BatchQueue::new(part(0..0).schema(), 10, 1 << 20);
        for values in [0..3, 3..3, 3..8, 8..35, 35..36] {
            queue.push(part(values));
        }
        let mut sizes = vec![];
        let mut values = vec![];
        for at_end in [false, true] {
            while let Some(batch) = queue.take(at_end).unwrap() {
                sizes.push(batch.num_rows());
                values.extend_from_slice(batch.column(0).as_primitive::<Int32Type>().values());
            }
        }
        assert_eq!(sizes, [10, 10, 10, 6]);
        assert_eq!(values, (0..36).collect::<Vec<_>>());
    }

    #[test]
    fn large_rows_come_in_smaller_batches() {
        let size = part(0..100).get_array_memory_size();
        let mut queue = BatchQueue::new(part(0..0).schema(), 1_000, 2 * size);
        queue.push(part(0..100));
        assert!(queue.take(false).unwrap().is_none());
        queue.push(part(100..200));
        queue.push(part(200..300));
        assert_eq!(queue.take(false).unwrap().unwrap().num_rows(), 200);
        assert!(queue.take(false).unwrap().is_none());
        assert_eq!(queue.take(true).unwrap().unwrap().num_rows(), 100);
    }
}
