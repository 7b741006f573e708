//! Arrow's types and literals as the program's.

use arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use grampus_gpu_exec::program::{TimeUnit, Type, Value};

use super::Reason;
use crate::gpu::string_dictionary::Dictionary;

/// Most digits of a decimal that fits eight bytes.
const DECIMAL_DIGITS: u8 = 18;

/// The program's type for values of `data_type`; `None` if there is none.
pub(crate) fn type_of(data_type: &DataType) -> Option<Type> {
    Some(match data_type {
        DataType::Boolean => Type::Bool,
        DataType::Int8 => Type::Int8,
        DataType::Int16 => Type::Int16,
        DataType::Int32 => Type::Int32,
        DataType::Int64 => Type::Int64,
        DataType::Float32 => Type::Float32,
        DataType::Float64 => Type::Float64,
        DataType::Date32 => Type::Date32,
        // In UTC, local time is the stored time: fields, truncation and comparison are the same.
        DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(is_utc) => Type::Timestamp(unit_of(*unit)),
        DataType::Decimal128(precision, scale) if *precision <= DECIMAL_DIGITS => Type::Decimal {
            precision: *precision,
            scale: *scale,
        },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::Code,
        _ => return None,
    })
}

fn is_utc(zone: &str) -> bool {
    matches!(zone, "UTC" | "+00:00" | "Z")
}

fn unit_of(unit: ArrowUnit) -> TimeUnit {
    match unit {
        ArrowUnit::Second => TimeUnit::Second,
        ArrowUnit::Millisecond => TimeUnit::Millisecond,
        ArrowUnit::Microsecond => TimeUnit::Microsecond,
        ArrowUnit::Nanosecond => TimeUnit::Nanosecond,
    }
}

/// Why values of a type are not computed with.
pub(crate) fn refused(what: &str, data_type: &DataType) -> Reason {
    match data_type {
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            format!("{what} is a decimal of more than {DECIMAL_DIGITS} digits")
        }
        _ => format!("{what} is of type {data_type}, which the GPU does not compute with"),
    }
}

/// A literal's value; `None`: NULL.
pub(crate) fn value_of(literal: &ScalarValue, dictionary: &Dictionary) -> Result<Option<Value>, Reason> {
    use ScalarValue as S;
    if literal.is_null() {
        return Ok(None);
    }
    Ok(Some(match literal {
        S::Boolean(Some(value)) => Value::Bool(*value),
        S::Int8(Some(value)) => Value::Int(i64::from(*value)),
        S::Int16(Some(value)) => Value::Int(i64::from(*value)),
        S::Int32(Some(value)) | S::Date32(Some(value)) => Value::Int(i64::from(*value)),
        S::Int64(Some(value))
        | S::TimestampSecond(Some(value), _)
        | S::TimestampMillisecond(Some(value), _)
        | S::TimestampMicrosecond(Some(value), _)
        | S::TimestampNanosecond(Some(value), _) => Value::Int(*value),
        S::Float32(Some(value)) => Value::Float(f64::from(*value)),
        S::Float64(Some(value)) => Value::Float(*value),
        S::Decimal128(Some(value), ..) => {
            Value::Int(i64::try_from(*value).map_err(|_| refused(&literal.to_string(), &literal.data_type()))?)
        }
        S::Utf8(Some(text)) | S::LargeUtf8(Some(text)) | S::Utf8View(Some(text)) => {
            Value::Int(i64::from(dictionary.code(text).map_err(|full| full.to_string())?))
        }
        other => return Err(refused(&other.to_string(), &other.data_type())),
    }))
}
