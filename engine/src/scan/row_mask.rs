//! `RowMask`: the rows of a tile that pass a conjunct, as a bit mask or as a list of positions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, DictionaryArray, RecordBatch, RecordBatchOptions, UInt32Array,
    new_null_array,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, concat, take};
use arrow::datatypes::UInt32Type;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use grampus_orc_layout::selection::RowSelection;

use super::coded_strings::expanded;
use super::conjunct::Conjunct;

/// Minimum rows per entry of a dictionary. With fewer, the values are compared, not the entries.
const MIN_ROWS_PER_ENTRY: usize = 4;

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
        if let [column] = columns.as_slice()
            && let Some(coded) = column.as_dictionary_opt::<UInt32Type>()
            && coded.values().len() <= rows / MIN_ROWS_PER_ENTRY
        {
            // An entry that no row has may fail: then the rows decide.
            match mask_by_entries(conjunct, coded) {
                Ok(mask) => return Ok(Self::Mask(mask)),
                Err(error) if !conjunct.is_fallible => return Err(error),
                Err(_) => {}
            }
        }
        let columns = columns.iter().map(expanded).collect::<Result<_>>()?;
        Ok(Self::Mask(evaluate(conjunct, columns, rows)?))
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

/// Evaluates `conjunct` over the values of its columns.
fn evaluate(conjunct: &Conjunct, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&conjunct.schema), columns, &options)?;
    mask(conjunct.evaluate(&batch)?, rows)
}

/// Evaluates `conjunct` once for each entry of its column's dictionary and for NULL, and looks the rows up.
fn mask_by_entries(conjunct: &Conjunct, coded: &DictionaryArray<UInt32Type>) -> Result<BooleanArray> {
    let entries = coded.values();
    let null = new_null_array(entries.data_type(), 1);
    let asked = concat(&[entries.as_ref(), null.as_ref()])?;
    let rows = asked.len();
    let passes: Vec<bool> = evaluate(conjunct, vec![asked], rows)?.values().iter().collect();
    let keys = coded.keys();
    let codes = keys.values();
    Ok(match keys.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => BooleanBuffer::collect_bool(codes.len(), |row| passes[codes[row] as usize]),
        Some(nulls) => BooleanBuffer::collect_bool(codes.len(), |row| match nulls.is_valid(row) {
            true => passes[codes[row] as usize],
            false => passes[entries.len()],
        }),
    }
    .into())
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

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{Expr, cast, col, lit};
    use datafusion::prelude::SessionContext;

    use super::*;

    fn conjunct(filter: Expr) -> Conjunct {
        let schema = Schema::new(vec![Field::new("s", DataType::Utf8, true)]);
        let df_schema = DFSchema::try_from(schema.clone()).unwrap();
        let expr = SessionContext::new().state().create_physical_expr(filter, &df_schema);
        Conjunct::new(expr.unwrap(), &schema).unwrap()
    }

    fn passing(conjunct: &Conjunct, column: ArrayRef) -> Vec<bool> {
        let rows = column.len();
        match RowMask::of(conjunct, vec![column], rows).unwrap() {
            RowMask::Mask(mask) => (0..rows).map(|row| mask.value(row)).collect(),
            RowMask::Positions(_) => panic!("strings have no kernel"),
        }
    }

    #[test]
    fn entry_that_no_row_has_does_not_fail() {
        let entries: ArrayRef = Arc::new(StringArray::from(vec!["1", "x", "2"]));
        let number = conjunct(cast(col("s"), DataType::Int32).eq(lit(1)));
        let coded = |last: u32| -> ArrayRef {
            let keys = UInt32Array::from_iter_values((0..40).map(|row| if row == 39 { last } else { row % 2 * 2 }));
            Arc::new(DictionaryArray::new(keys, Arc::clone(&entries)))
        };
        let passes: Vec<bool> = (0..40).map(|row| row % 2 == 0).collect();
        assert_eq!(passing(&number, coded(2)), passes);
        let error = RowMask::of(&number, vec![coded(1)], 40).err().unwrap();
        assert!(error.to_string().contains("'x'"), "{error}");
    }

    #[test]
    fn entries_of_a_dictionary_pass_as_their_values_do() {
        let entries: ArrayRef = Arc::new(StringArray::from(vec!["AIR", "RAIL", "", "AIR", "never"]));
        let all = UInt32Array::from_iter_values((0..40).map(|row| row % 4));
        let some: UInt32Array = (0..40).map(|row| (row % 3 != 0).then_some(row % 4)).collect();
        for filter in [
            col("s").eq(lit("AIR")),
            col("s").not_eq(lit("AIR")),
            col("s").in_list(vec![lit("RAIL"), lit("")], false),
            col("s").in_list(vec![lit("RAIL"), lit(ScalarValue::Utf8(None))], true),
            col("s").is_null(),
            col("s").is_not_null(),
            col("s").like(lit("%I%")),
            col("s").is_null().or(col("s").eq(lit("AIR"))),
        ] {
            let conjunct = conjunct(filter);
            for keys in [&all, &some] {
                let coded: ArrayRef = Arc::new(DictionaryArray::new(keys.clone(), Arc::clone(&entries)));
                let values = expanded(&coded).unwrap();
                assert_eq!(
                    passing(&conjunct, coded),
                    passing(&conjunct, values),
                    "{}",
                    conjunct.expr
                );
            }
        }
        // As many entries as rows: the values are compared.
        let few: ArrayRef = Arc::new(DictionaryArray::new(UInt32Array::from(vec![0, 2, 4]), entries));
        assert_eq!(passing(&conjunct(col("s").eq(lit(""))), few), [false, true, false]);
    }
}
