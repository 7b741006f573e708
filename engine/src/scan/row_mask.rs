//! The answer of one conjunct for the rows of a tile: a mask, or the positions of the few that pass. Which conjunct is
//! asked and when is [`stripe`](super::stripe)'s business.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{FilterBuilder, take};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use grampus_orc_layout::selection::RowSelection;

use super::predicate_cascade::Conjunct;

/// Which of the rows at hand pass a conjunct.
pub(super) enum RowMask {
    /// One bit per row.
    Mask(BooleanArray),
    /// Their positions, where they are few.
    Positions(UInt32Array),
}

impl RowMask {
    /// Evaluates `conjunct` over its columns' values.
    pub(super) fn of(conjunct: &Conjunct, columns: Vec<ArrayRef>, rows: usize) -> Result<Self> {
        if let (Some(sparse), [column]) = (&conjunct.sparse, columns.as_slice())
            && let Some(positions) = sparse.positions(column)
        {
            return Ok(Self::Positions(positions.into()));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), columns, &options)?;
        Ok(Self::Mask(mask(conjunct.compact.evaluate(&batch)?, rows)?))
    }

    /// How many pass.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::Mask(mask) => mask.true_count(),
            Self::Positions(positions) => positions.len(),
        }
    }

    /// Keeps the values of the rows that pass.
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

    /// The rows that pass, of `rows`, the rows that were asked about.
    pub(super) fn refine(&self, rows: &RowSelection) -> RowSelection {
        match self {
            Self::Mask(mask) => rows.refine(mask),
            Self::Positions(positions) => rows.refine_positions(positions.values()),
        }
    }
}

/// The value of a filter as a mask of `rows` bits; NULL is false.
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
