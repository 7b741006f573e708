//! [`memory_table`]: a table of the batches of an object's Arrow stream.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use pyo3::prelude::*;

use crate::capsules::stream_of;
use crate::error::{self, error, query_error};
use crate::threads::TICK;

/// The table and its number of rows. The buffers are the producer's.
///
/// # Errors
/// If the object has no stream, or its stream fails.
pub(crate) fn memory_table(
    py: Python<'_>,
    context: &SessionContext,
    object: &Bound<'_, PyAny>,
) -> PyResult<(Arc<dyn TableProvider>, usize)> {
    let mut reader = stream_of(object)?;
    let schema = reader.schema();
    let rows_per_batch = context.copied_config().batch_size().max(1);
    let read = move || -> PyResult<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        let mut looked = Instant::now();
        while let Some(batch) = reader.next_batch().map_err(|failure| error(failure.to_string()))? {
            // Slices share the producer's memory, and let partitions divide the work.
            let starts = (0..batch.num_rows()).step_by(rows_per_batch);
            batches.extend(starts.map(|at| batch.slice(at, rows_per_batch.min(batch.num_rows() - at))));
            if looked.elapsed() >= TICK {
                looked = Instant::now();
                Python::attach(|py| py.check_signals())?;
            }
        }
        Ok(batches)
    };
    let batches = py.detach(|| error::caught("register", read))?;
    let rows = batches.iter().map(RecordBatch::num_rows).sum();
    let table = MemTable::try_new(schema, vec![batches]).map_err(|failure| query_error(&failure))?;
    Ok((Arc::new(table), rows))
}
