//! [`verify`]: whether all values of a batch have a text. A stored date's year may be beyond the calendar of texts.
//!
//! Arrow's writers put words like `ERROR: Cast error` in the place of such values, as if these words were data.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::compute::{max, min};
use arrow::datatypes::{
    ArrowTemporalType, DataType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampSecondType,
};
use arrow::error::ArrowError;
use arrow::temporal_conversions::{as_datetime, as_time};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Checks that each value has a text.
///
/// # Errors
/// If one has none. The error names the column and the way out.
pub fn verify(batch: &RecordBatch) -> Result<(), ArrowError> {
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if may_lack_text(column) {
            verify_rows(field.name(), column)?;
        }
    }
    Ok(())
}

/// Formats each value of a column.
fn verify_rows(name: &str, column: &ArrayRef) -> Result<(), ArrowError> {
    let options = FormatOptions::default().with_display_error(false);
    let formatter = ArrayFormatter::try_new(column.as_ref(), &options)?;
    let nulls = column.logical_nulls();
    let mut text = String::new();
    for row in 0..column.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            continue;
        }
        text.clear();
        // The formatter's own errors come as those of `fmt`, without a reason.
        if write!(text, "{}", formatter.value(row)).is_err() {
            return Err(without_text(name, column.data_type()));
        }
    }
    Ok(())
}

fn without_text(name: &str, data_type: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!(
        "column {name} of type {data_type} has a value beyond the calendar of texts (years -262143 to 262142): \
         CAST its dates to BIGINT, or leave these rows out"
    ))
}

/// Whether an array, or an array within, may have a value without a text.
fn may_lack_text(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Date32 => !is_within::<Date32Type>(array, 1, |day| as_datetime::<Date32Type>(day).is_some()),
        DataType::Date64 => {
            let is_date = |value| as_datetime::<Date64Type>(value).is_some();
            !is_within::<Date64Type>(array, 86_400_000, is_date)
        }
        // Nanoseconds end in the year 2262.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => false,
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let is_time = |value| as_datetime::<TimestampMicrosecondType>(value).is_some();
            !is_within::<TimestampMicrosecondType>(array, 86_400_000_000, is_time)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let is_time = |value| as_datetime::<TimestampMillisecondType>(value).is_some();
            !is_within::<TimestampMillisecondType>(array, 86_400_000, is_time)
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            let is_time = |value| as_datetime::<TimestampSecondType>(value).is_some();
            !is_within::<TimestampSecondType>(array, 86_400, is_time)
        }
        DataType::Time32(TimeUnit::Second) => {
            !is_within::<Time32SecondType>(array, 0, |value| as_time::<Time32SecondType>(value).is_some())
        }
        DataType::Time32(_) => {
            !is_within::<Time32MillisecondType>(array, 0, |value| as_time::<Time32MillisecondType>(value).is_some())
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            !is_within::<Time64MicrosecondType>(array, 0, |value| as_time::<Time64MicrosecondType>(value).is_some())
        }
        DataType::Time64(_) => {
            !is_within::<Time64NanosecondType>(array, 0, |value| as_time::<Time64NanosecondType>(value).is_some())
        }
        _ => {
            let data = array.to_data();
            data.child_data()
                .iter()
                .any(|child| may_lack_text(&make_array(child.clone())))
        }
    }
}

/// Whether the least and the greatest value have a text, also `margin` further out: zones move them by less than a day.
fn is_within<T>(array: &ArrayRef, margin: i64, has_text: impl Fn(i64) -> bool) -> bool
where
    T: ArrowTemporalType,
    T::Native: Into<i64>,
{
    let array = array.as_primitive::<T>();
    let (Some(least), Some(greatest)) = (min(array), max(array)) else {
        return true;
    };
    has_text(least.into().saturating_sub(margin)) && has_text(greatest.into().saturating_add(margin))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, DictionaryArray, Int32Array, StructArray, TimestampMicrosecondArray};
    use arrow::datatypes::{Field, Int32Type};

    use super::*;

    fn verify_column(column: ArrayRef) -> Result<(), String> {
        let batch = RecordBatch::try_from_iter([("when", column)]).unwrap();
        verify(&batch).map_err(|error| error.to_string())
    }

    #[test]
    fn values_beyond_the_calendar_are_refused_at_every_depth() {
        let dates = |last| Arc::new(Date32Array::from(vec![Some(0), None, Some(last)])) as ArrayRef;
        let far = [dates(i32::MAX), dates(i32::MIN)];
        let micros = |last| Arc::new(TimestampMicrosecondArray::from(vec![last]).with_timezone("UTC")) as ArrayRef;
        let in_struct = |dates: ArrayRef| -> ArrayRef {
            let field = Arc::new(Field::new("d", DataType::Date32, true));
            Arc::new(StructArray::from(vec![(field, dates)]))
        };
        let in_dictionary = |dates: ArrayRef| -> ArrayRef {
            Arc::new(DictionaryArray::<Int32Type>::new(Int32Array::from(vec![2, 0]), dates))
        };
        for near in [
            dates(90_000_000),
            micros(i64::from(u32::MAX) * 1_000_000),
            in_struct(dates(1)),
            in_dictionary(dates(1)),
        ] {
            verify_column(near).unwrap();
        }
        for far in [
            &far[0],
            &far[1],
            &micros(i64::MAX),
            &in_struct(dates(i32::MAX)),
            &in_dictionary(dates(i32::MAX)),
        ] {
            let error = verify_column(Arc::clone(far)).unwrap_err();
            assert!(
                error.contains("column when of type") && error.contains("BIGINT"),
                "{error}"
            );
        }
        // A value that no row has.
        verify_column(dates(i32::MAX).slice(0, 2)).unwrap();
        verify_column(in_dictionary(dates(i32::MAX)).slice(1, 1)).unwrap();
    }
}
