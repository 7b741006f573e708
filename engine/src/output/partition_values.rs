//! NULL in the partition columns of rows that are written. DataFusion names the folder of a NULL as that of 0 or of an
//! empty text.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_string_array;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use crate::table::hive_partitions::NULL_VALUE;

/// The rows with partition columns as text, in which NULL has Hive's name.
pub(super) fn named(rows: SendableRecordBatchStream, columns: &[(String, DataType)]) -> SendableRecordBatchStream {
    if columns.is_empty() {
        return rows;
    }
    let is_partition = |name: &String| columns.iter().any(|(column, _)| column == name);
    let given = rows.schema();
    let fields = given.fields().iter().map(|field| match is_partition(field.name()) {
        true => Arc::new(Field::new(field.name(), DataType::Utf8, false)),
        false => Arc::clone(field),
    });
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let (named, columns) = (Arc::clone(&schema), columns.to_vec());
    let rows = rows.map(move |batch| name_nulls(&batch?, &columns, &named));
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn name_nulls(batch: &RecordBatch, columns: &[(String, DataType)], schema: &SchemaRef) -> Result<RecordBatch> {
    let mut values = batch.columns().to_vec();
    for (name, _) in columns {
        let at = schema.index_of(name)?;
        let text = cast(&values[at], &DataType::Utf8)?;
        let text = as_string_array(&text)?;
        values[at] = Arc::new(StringArray::from_iter_values(
            text.iter().map(|value| value.unwrap_or(NULL_VALUE)),
        ));
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), values)?)
}

/// The rows, up to the first with NULL in a partition column, which is an error.
pub(crate) fn without_nulls(
    rows: SendableRecordBatchStream,
    columns: &[(String, DataType)],
) -> SendableRecordBatchStream {
    if columns.is_empty() {
        return rows;
    }
    let (schema, columns) = (rows.schema(), columns.to_vec());
    let rows = rows.map(move |batch| {
        let batch = batch?;
        for (name, _) in &columns {
            if batch
                .column_by_name(name)
                .is_some_and(|column| column.logical_null_count() > 0)
            {
                return exec_err!(
                    "the partition column {name} has NULL, which has no folder in this format: write ORC, or give \
                     NULL a value with coalesce"
                );
            }
        }
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}
