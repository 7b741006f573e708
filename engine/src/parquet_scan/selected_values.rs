//! [`SelectedValues`]: the values of columns for the rows of a tile that are left, batch by batch.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::ParquetRecordBatchReader;

use super::kept_rows::KeptRows;

/// A reader of columns. If the rows are scattered, it reads all rows of the tile in batches that fit the caches, and
/// gathers those that are left.
pub(super) struct SelectedValues {
    reader: ParquetRecordBatchReader,
    scattered: Option<Scattered>,
}

struct Scattered {
    mask: BooleanBuffer,
    read: usize,
    gathered: KeptRows,
    batch_size: usize,
    rows: usize,
}

impl SelectedValues {
    /// All rows that `reader` gives.
    pub(super) fn all(reader: ParquetRecordBatchReader) -> Self {
        Self {
            reader,
            scattered: None,
        }
    }

    /// Those of the rows that `reader` gives which `mask` has.
    pub(super) fn scattered(
        reader: ParquetRecordBatchReader,
        mask: BooleanBuffer,
        gathered: KeptRows,
        batch_size: usize,
    ) -> Self {
        let scattered = Scattered {
            mask,
            read: 0,
            gathered,
            batch_size,
            rows: 0,
        };
        Self {
            reader,
            scattered: Some(scattered),
        }
    }

    /// The next rows, and their number. `None`: there are no more.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Vec<ArrayRef>)>> {
        let Some(scattered) = &mut self.scattered else {
            let batch = self.reader.next().transpose()?;
            return Ok(batch.map(|batch| (batch.num_rows(), batch.columns().to_vec())));
        };
        while scattered.rows < scattered.batch_size {
            let Some(batch) = self.reader.next().transpose()? else {
                scattered.gathered.finish()?;
                break;
            };
            let rows = batch.num_rows().min(scattered.mask.len() - scattered.read);
            let mask = scattered.mask.slice(scattered.read, rows);
            scattered.read += rows;
            let count = mask.count_set_bits();
            if count > 0 {
                let mask = BooleanArray::new(mask, None);
                scattered.gathered.put(batch.slice(0, rows).columns().to_vec(), &mask)?;
                scattered.rows += count;
            }
        }
        let rows = scattered.rows.min(scattered.gathered.next_rows());
        if rows == 0 {
            return Ok(None);
        }
        scattered.rows -= rows;
        Ok(Some((rows, scattered.gathered.take(rows)?)))
    }
}
