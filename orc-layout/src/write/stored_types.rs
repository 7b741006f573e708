//! The ORC type that stands for each incoming Arrow type, and the cast of batches to these types.
//!
//! **Invariant:** values never change silently. A value that does not fit its stored type is an error.

use std::sync::Arc;

use crate::read_options::TimestampUnit;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::error::{LayoutError, Result};

/// The schema of the output files.
///
/// # Errors
/// Names the first column whose type cannot be written, or the first name that two columns have.
pub fn stored_schema(incoming: &Schema) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = Vec::with_capacity(incoming.fields().len());
    for field in incoming.fields() {
        if fields.iter().any(|f| f.name() == field.name()) {
            return Err(LayoutError::Write(format!("two columns are named '{}'", field.name())));
        }
        let stored = stored_type(field.data_type()).ok_or_else(|| {
            LayoutError::Write(format!(
                "column '{}' has type {}, which cannot be written",
                field.name(),
                field.data_type()
            ))
        })?;
        fields.push(Field::new(field.name(), with_one_unit(stored), true));
    }
    if fields.is_empty() {
        return Err(LayoutError::Write("there are no columns".to_owned()));
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The type with one unit of timestamps: nanoseconds if both units are below a nested type, so that no digit is lost.
/// Readers choose one unit for a column.
fn with_one_unit(stored: DataType) -> DataType {
    let is_mixed =
        TimestampUnit::of(&stored) == TimestampUnit::Microsecond && TimestampUnit::Microsecond.apply(&stored) != stored;
    match is_mixed {
        true => TimestampUnit::Nanosecond.apply(&stored),
        false => stored,
    }
}

/// The stored type of values of type `incoming`; `None` if ORC has no type for them.
fn stored_type(incoming: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match incoming {
        T::Boolean | T::Int8 | T::Int16 | T::Int32 | T::Int64 => incoming.clone(),
        T::Float32 | T::Float64 | T::Date32 | T::Utf8 | T::Binary => incoming.clone(),
        // No value at all: the type does not matter.
        T::Null => T::Utf8,
        // Unsigned numbers need one more bit.
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Date64 => T::Date32,
        // ORC stores seconds and nanoseconds, so nothing is lost. Arrow's nanoseconds end in 2262.
        T::Timestamp(unit, zone) => {
            let unit = match unit {
                TimeUnit::Nanosecond => TimeUnit::Nanosecond,
                TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond => TimeUnit::Microsecond,
            };
            T::Timestamp(unit, zone.as_ref().map(|_| "UTC".into()))
        }
        // A time of day without a date is text in ORC.
        T::Time32(_) | T::Time64(_) => T::Utf8,
        T::Duration(_) => T::Int64,
        T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s) => stored_decimal(*p, *s)?,
        T::Dictionary(_, value) => stored_type(value)?,
        T::RunEndEncoded(_, value) => stored_type(value.data_type())?,
        T::List(item) | T::LargeList(item) | T::FixedSizeList(item, _) | T::ListView(item) | T::LargeListView(item) => {
            T::List(stored_field(item)?)
        }
        T::Struct(fields) => T::Struct(fields.iter().map(stored_field).collect::<Option<_>>()?),
        T::Map(entries, sorted) => T::Map(stored_entries(entries)?, *sorted),
        // Arrow casts no unions, so their variants must be of stored types.
        T::Union(variants, _) => {
            let is_stored = |field: &FieldRef| stored_type(field.data_type()).as_ref() == Some(field.data_type());
            return variants
                .iter()
                .all(|(_, field)| is_stored(field))
                .then(|| incoming.clone());
        }
        T::Interval(_) => return None,
    })
}

fn stored_field(field: &FieldRef) -> Option<FieldRef> {
    Some(Arc::new(Field::new(
        field.name(),
        stored_type(field.data_type())?,
        true,
    )))
}

/// A map's entries and keys are never NULL.
fn stored_entries(entries: &FieldRef) -> Option<FieldRef> {
    let DataType::Struct(key_value) = entries.data_type() else {
        return None;
    };
    let [key, value] = &key_value[..] else {
        return None;
    };
    let key = Field::new(key.name(), stored_type(key.data_type())?, false);
    let value = stored_field(value)?;
    let fields = DataType::Struct(vec![Arc::new(key), value].into());
    Some(Arc::new(Field::new(entries.name(), fields, false)))
}

/// ORC's decimals have up to 38 digits and no negative scale.
fn stored_decimal(precision: u8, scale: i8) -> Option<DataType> {
    let precision = if scale < 0 {
        precision.checked_add(scale.unsigned_abs())?
    } else {
        precision
    };
    (precision <= 38).then_some(DataType::Decimal128(precision, scale.max(0)))
}

/// Casts a batch to `stored`, the [`stored_schema`] of its schema.
///
/// # Errors
/// Names the column with a value that its stored type cannot hold, such as a timestamp in seconds that does not fit
/// microseconds.
pub fn to_stored(batch: &RecordBatch, stored: &SchemaRef) -> Result<RecordBatch> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let convert = |(array, field): (&ArrayRef, &FieldRef)| -> Result<ArrayRef> {
        if array.data_type() == field.data_type() {
            return Ok(Arc::clone(array));
        }
        cast_with_options(array, field.data_type(), &strict).map_err(|e| {
            let (name, data_type) = (field.name(), field.data_type());
            LayoutError::Write(format!("column '{name}' cannot be stored as {data_type}: {e}"))
        })
    };
    let arrays = batch.columns().iter().zip(stored.fields()).map(convert);
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(stored), arrays, &options)
        .map_err(|error| LayoutError::Write(error.to_string()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, Decimal128Array, DictionaryArray, Int16Array, StringArray, TimestampMicrosecondArray,
        TimestampSecondArray, UInt8Array, UInt64Array,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    fn stored(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        to_stored(&batch, &stored_schema(&batch.schema())?)
    }

    #[test]
    fn unsigned_numbers_dictionaries_and_microseconds_keep_their_values() {
        let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("a")].into_iter().collect();
        let batch = stored(vec![
            ("u8", Arc::new(UInt8Array::from(vec![0, 255, 7]))),
            ("u64", Arc::new(UInt64Array::from(vec![0, u64::MAX, 7]))),
            ("d", Arc::new(dictionary)),
            ("t", Arc::new(TimestampMicrosecondArray::from(vec![-1, 0, 1_000_001]))),
        ])
        .unwrap();
        let wanted: [ArrayRef; 4] = [
            Arc::new(Int16Array::from(vec![0, 255, 7])),
            Arc::new(
                Decimal128Array::from(vec![0, i128::from(u64::MAX), 7])
                    .with_precision_and_scale(20, 0)
                    .unwrap(),
            ),
            Arc::new(StringArray::from(vec![Some("a"), None, Some("a")])),
            Arc::new(TimestampMicrosecondArray::from(vec![-1, 0, 1_000_001])),
        ];
        for (got, wanted) in batch.columns().iter().zip(&wanted) {
            assert_eq!(got, wanted);
        }
        assert!(batch.column(1).is_valid(1));
    }

    #[test]
    fn values_and_types_that_do_not_fit_are_errors_that_name_the_column() {
        let late = TimestampSecondArray::from(vec![i64::MAX / 10]);
        let error = stored(vec![("when", Arc::new(late))]).unwrap_err().to_string();
        assert!(error.contains("'when'"), "{error}");
        let schema = Schema::new(vec![Field::new(
            "i",
            DataType::Interval(arrow::datatypes::IntervalUnit::DayTime),
            true,
        )]);
        let error = stored_schema(&schema).unwrap_err().to_string();
        assert!(error.contains("'i'") && error.contains("cannot be written"), "{error}");
        let twice = Schema::new(vec![
            Field::new("a", DataType::Int8, true),
            Field::new("a", DataType::Int8, true),
        ]);
        let error = stored_schema(&twice).unwrap_err().to_string();
        assert!(error.contains("two columns are named 'a'"), "{error}");
    }
}
