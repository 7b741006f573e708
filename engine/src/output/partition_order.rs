//! [`gathered`]: rows for a partitioned table, of many partitions in the order of their partitions.
//!
//! Each partition has a file, and each open file holds a stripe. If there is no memory for a stripe of some size in
//! each, stripes would have a few rows. So rows pass as they come while their partitions are few. From the first batch
//! that has too many, the rest is sorted by the partition columns, which spills, and the files are written one after
//! the other. Rows of one partition keep their order.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, TryStreamExt, stream};

use crate::one_shot_input::OneShotInput;

/// The share of the memory limit that open files have, as a divisor. The operators below need the rest.
const FILES_DIVISOR: usize = 4;
/// What an open file holds with a stripe that is worth reading: buffers of a file, and of each column.
const FILE_BYTES: usize = 16 << 10;
const COLUMN_BYTES: usize = 4 << 10;

/// Name of the column with the number of a row, while rows are sorted.
const ROW_NUMBER: &str = "grampus row number";

/// The rows: as they come, or gathered by partition from where the memory is too small for all of their files.
///
/// # Errors
/// If the partition columns cannot be compared.
pub(super) fn gathered(
    rows: SendableRecordBatchStream,
    partition_columns: &[(String, DataType)],
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let MemoryLimit::Finite(limit) = context.memory_pool().memory_limit() else {
        return Ok(rows);
    };
    if partition_columns.is_empty() {
        return Ok(rows);
    }
    let schema = rows.schema();
    let file_bytes = FILE_BYTES + COLUMN_BYTES * schema.fields().len();
    let Some(keys) = Keys::new(&schema, partition_columns)? else {
        return Ok(rows);
    };
    let state = State::Counting {
        rows,
        keys,
        most: (limit / FILES_DIVISOR / file_bytes).max(1),
    };
    let context = Arc::clone(context);
    let batches = stream::try_unfold(state, move |state| {
        let context = Arc::clone(&context);
        async move { state.next(&context).await }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

enum State {
    Counting {
        rows: SendableRecordBatchStream,
        keys: Keys,
        /// The number of partitions whose rows need not be gathered.
        most: usize,
    },
    Gathered(SendableRecordBatchStream),
}

impl State {
    async fn next(self, context: &Arc<TaskContext>) -> Result<Option<(RecordBatch, Self)>> {
        let mut gathered = match self {
            Self::Gathered(gathered) => gathered,
            Self::Counting {
                mut rows,
                mut keys,
                most,
            } => {
                let Some(batch) = rows.next().await.transpose()? else {
                    return Ok(None);
                };
                if keys.count_with(&batch)? <= most {
                    return Ok(Some((batch, Self::Counting { rows, keys, most })));
                }
                log::info!("more than {most} partitions: the rest of the rows is sorted by partition");
                let schema = rows.schema();
                let rest = stream::once(async { Ok(batch) }).chain(rows);
                let rest = RecordBatchStreamAdapter::new(schema, rest);
                by_partition(Box::pin(rest), &keys.places, context)?
            }
        };
        let batch = gathered.next().await.transpose()?;
        Ok(batch.map(|batch| (batch, Self::Gathered(gathered))))
    }
}

/// The partitions seen so far.
struct Keys {
    places: Vec<usize>,
    converter: RowConverter,
    seen: HashSet<Box<[u8]>>,
}

impl Keys {
    /// No partitions yet; `None`: there is no such column, or its type has no order. DataFusion refuses these rows.
    fn new(schema: &SchemaRef, columns: &[(String, DataType)]) -> Result<Option<Self>> {
        let places = columns.iter().map(|(name, _)| schema.index_of(name).ok());
        let Some(places) = places.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let types = places.iter().map(|&place| schema.field(place).data_type().clone());
        let fields: Vec<_> = types.map(SortField::new).collect();
        if !RowConverter::supports_fields(&fields) {
            return Ok(None);
        }
        Ok(Some(Self {
            converter: RowConverter::new(fields)?,
            places,
            seen: HashSet::new(),
        }))
    }

    /// The number of partitions so far, with those of the batch.
    fn count_with(&mut self, batch: &RecordBatch) -> Result<usize> {
        let columns: Vec<_> = self.places.iter().map(|&at| Arc::clone(batch.column(at))).collect();
        for row in &self.converter.convert_columns(&columns)? {
            if !self.seen.contains(row.as_ref()) {
                self.seen.insert(row.as_ref().into());
            }
        }
        Ok(self.seen.len())
    }
}

/// The rows in the order of the columns at `places`, and of equal ones in the order in which they came.
fn by_partition(
    rows: SendableRecordBatchStream,
    places: &[usize],
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = rows.schema();
    let mut fields = schema.fields().to_vec();
    fields.push(Arc::new(Field::new(ROW_NUMBER, DataType::UInt64, false)));
    let numbered_schema = Arc::new(Schema::new(fields));
    let made = Arc::clone(&numbered_schema);
    let mut next = 0;
    let numbered = rows.map(move |batch| {
        let batch = batch?;
        let end = next + batch.num_rows() as u64;
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_iter_values(next..end)));
        next = end;
        Ok(RecordBatch::try_new(Arc::clone(&made), columns)?)
    });
    let numbered = RecordBatchStreamAdapter::new(Arc::clone(&numbered_schema), numbered);
    let last = schema.fields().len();
    let order = places.iter().chain([&last]).map(|&place| {
        let column = Column::new(numbered_schema.field(place).name(), place);
        PhysicalSortExpr::new_default(Arc::new(column))
    });
    let input = OneShotInput::new(Box::pin(numbered)).plan()?;
    let sorted = match LexOrdering::new(order) {
        Some(order) => SortExec::new(order, input).execute(0, Arc::clone(context))?,
        None => input.execute(0, Arc::clone(context))?,
    };
    let columns: Vec<usize> = (0..last).collect();
    let sorted = sorted.and_then(move |batch| std::future::ready(batch.project(&columns).map_err(Into::into)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, sorted)))
}
