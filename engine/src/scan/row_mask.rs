//! `RowMask`: the rows of a tile that pass a conjunct, as a bit mask or as a list of positions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{FilterBuilder, take};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use grampus_orc_layout::selection::RowSelection;

use super::conjunct::Conjunct;

/// The evaluated rows that pass a conjunct.
pub(super) enum RowMask {
    /// One bit per row.
    Mask(BooleanArray),
    /// Positions of the passing rows, if they are few.
    Positions(UInt32Array),
}

impl RowMask {
    /// Evaluates `conjunct` over its columns' values.
    pub(super) fn of(conjunct: &Conjunct, columns: Vec<ArrayRef>, rows: usize) -> Result<Self> {
        if let (Some(kernel), [column]) = (&conjunct.kernel, columns.as_slice())
            && let Some(positions) = kernel.positions(column)
        {
            return Ok(Self::Positions(positions.into()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), columns, &options)?;
        Ok(Self::Mask(mask(conjunct.compact.evaluate(&batch)?, rows)?))
    }

    /// The number of passing rows.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Mask(mask) => mask.true_count(),
            Self::Positions(positions) => positions.len(),
        }
    }

    /// Reduces each array to the values of the passing rows.
    pub(super) fn cut(&self, loaded: &mut [(usize, ArrayRef)]) -> Result<()> {
        match self {
            Self::Mask(mask) => {
                let filter = FilterBuilder::new(mask).build();
                for (_, array) in loaded {
                    *array = filter.filter(array)?;
                }
            }
            Self::Positions(positions) => {
                for (_, array) in loaded {
                    *array = take(array, positions, None)?;
                }
            }
        }
        Ok(())
    }

    /// The passing rows among `rows`, the evaluated rows.
    pub(super) fn refine(&self, rows: &RowSelection) -> RowSelection {
        match self {
            Self::Mask(mask) => rows.refine(mask),
            Self::Positions(positions) => rows.refine_positions(positions.values()),
        }
    }
}

/// The value of a filter as a mask of `rows` bits. NULL is false.
fn mask(value: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    match value {
        ColumnarValue::Array(array) => match array.as_boolean_opt() {
            Some(mask) if mask.null_count() == 0 => Ok(mask.clone()),
            Some(mask) => Ok(arrow::compute::prep_null_mask_filter(mask)),
            None => datafusion::common::plan_err!("a filter is of type {}, not Boolean", array.data_type()),
        },
        ColumnarValue::Scalar(ScalarValue::Boolean(value)) => {
            Ok(BooleanArray::from(vec![value.unwrap_or(false); rows]))
        }
        ColumnarValue::Scalar(ScalarValue::Null) => Ok(BooleanArray::from(vec![false; rows])),
        ColumnarValue::Scalar(other) => {
            datafusion::common::plan_err!("a filter is of type {}, not Boolean", other.data_type())
        }
    }
}
