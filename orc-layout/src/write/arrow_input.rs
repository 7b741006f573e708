//! Arrow values in the form that the encoders take: without nulls, integers and dates as 64 bits.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Date64Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
};

use crate::error::{LayoutError, Result};

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Appends the converted values, without nulls.
pub(super) fn gather<T: Copy, U>(values: &[T], nulls: Option<&NullBuffer>, out: &mut Vec<U>, convert: impl Fn(T) -> U) {
    match nulls {
        None => out.extend(values.iter().map(|&value| convert(value))),
        Some(nulls) => {
            for (start, end) in nulls.valid_slices() {
                out.extend(values[start..end].iter().map(|&value| convert(value)));
            }
        }
    }
}

/// Appends the integers or dates of `array` that are not null.
pub(super) fn gather_integers(
    name: &str,
    array: &ArrayRef,
    nulls: Option<&NullBuffer>,
    out: &mut Vec<i64>,
) -> Result<()> {
    fn of<T: ArrowPrimitiveType>(array: &ArrayRef, nulls: Option<&NullBuffer>, out: &mut Vec<i64>)
    where
        i64: From<T::Native>,
    {
        gather(array.as_primitive::<T>().values(), nulls, out, i64::from);
    }
    match array.data_type() {
        DataType::Int16 => of::<Int16Type>(array, nulls, out),
        DataType::Int32 => of::<Int32Type>(array, nulls, out),
        DataType::Int64 => of::<Int64Type>(array, nulls, out),
        DataType::UInt8 => of::<UInt8Type>(array, nulls, out),
        DataType::UInt16 => of::<UInt16Type>(array, nulls, out),
        DataType::UInt32 => of::<UInt32Type>(array, nulls, out),
        DataType::Date32 => of::<Date32Type>(array, nulls, out),
        DataType::Date64 => {
            let values = array.as_primitive::<Date64Type>().values();
            gather(values, nulls, out, |millis| millis.div_euclid(MILLIS_PER_DAY));
            if let Some(days) = out.iter().find(|days| i32::try_from(**days).is_err()) {
                return Err(LayoutError::Write(format!(
                    "column {name}: a date {days} days from 1970 does not fit 32 bits"
                )));
            }
        }
        other => return Err(unexpected(name, other)),
    }
    Ok(())
}

/// The error for a type that the schema check accepts and the encoders do not know: a contradiction between the two.
pub(super) fn unexpected(name: &str, data_type: &DataType) -> LayoutError {
    LayoutError::Write(format!("column {name}: {data_type} was not expected here"))
}
