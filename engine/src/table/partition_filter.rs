//! Filters over partition columns alone: they choose files by folder names, before the files are opened.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_conjunction};
use datafusion::physical_plan::PhysicalExpr;

/// Conditions that must all hold.
pub(crate) type Filters = Vec<Arc<dyn PhysicalExpr>>;

/// Splits filters into conjuncts over partition columns alone, which are true or false for whole files, and the
/// others. The first `file_columns` columns of the table are those of files.
pub(crate) fn split(filters: &[Arc<dyn PhysicalExpr>], file_columns: usize) -> (Filters, Filters) {
    let conjuncts = filters.iter().flat_map(|filter| split_conjunction(filter)).cloned();
    conjuncts.partition(|expr| {
        collect_columns(expr)
            .iter()
            .all(|column| column.index() >= file_columns)
    })
}

/// For each file, given by its values of `partitions`, whether all `filters` are true.
///
/// # Errors
/// If a filter cannot be evaluated.
pub(crate) fn matching(
    filters: &[Arc<dyn PhysicalExpr>],
    partitions: &[Field],
    files: &[Vec<ScalarValue>],
) -> Result<Vec<bool>> {
    let mut keep = vec![true; files.len()];
    if filters.is_empty() || files.is_empty() {
        return Ok(keep);
    }
    let schema = Arc::new(Schema::new(partitions.to_vec()));
    let mut columns = Vec::with_capacity(partitions.len());
    for column in 0..partitions.len() {
        columns.push(ScalarValue::iter_to_array(
            files.iter().map(|values| values[column].clone()),
        )?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(files.len()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
    for filter in filters {
        let compact = reassign_expr_columns(Arc::clone(filter), &schema)?;
        let passes = compact.evaluate(&batch)?.into_array(files.len())?;
        let passes = passes.as_boolean_opt();
        for (file, keep) in keep.iter_mut().enumerate() {
            // A NULL is not true, and neither is a filter `NULL`, which has no type.
            *keep &= passes.is_some_and(|passes| passes.is_valid(file) && passes.value(file));
        }
    }
    Ok(keep)
}
