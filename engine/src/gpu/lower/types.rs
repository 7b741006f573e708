//! Types of programs: their Arrow types, the values of literals, and the types that operations accept.

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::common::ScalarValue;
use grampus_gpu_exec::program::{TimeUnit, Type, Value};

use crate::gpu::refusal::Refusal;
use crate::gpu::string_dictionary::{DictionaryFull, StringDictionary};

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
        // In UTC, the local time is the stored time, so fields, truncation and comparison agree.
        DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(is_utc) => Type::Timestamp(unit_of(*unit)),
        DataType::Decimal128(precision, scale) if (0..=*precision as i8).contains(scale) => Type::Decimal {
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

/// The refusal of `value`, whose type programs do not have.
pub(super) fn unsupported(value: String, data_type: &DataType) -> Refusal {
    match data_type {
        DataType::Decimal128(..) | DataType::Decimal256(..) => Refusal::WideDecimal { value },
        _ => Refusal::UnsupportedType {
            value,
            data_type: data_type.clone(),
        },
    }
}

/// A value that a program is run with. A string's code is known when the program is run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Argument {
    /// A value.
    Value(Value),
    /// A string.
    Text(Arc<str>),
}

impl Argument {
    /// The value for planning, which looks at no argument: a string has no code yet.
    pub(crate) fn placeholder(&self) -> Value {
        match self {
            Self::Value(value) => *value,
            Self::Text(_) => Value::Int(0),
        }
    }

    /// The value in a run that uses `dictionary`.
    pub(crate) fn value(&self, dictionary: &StringDictionary) -> Result<Value, DictionaryFull> {
        Ok(match self {
            Self::Value(value) => *value,
            Self::Text(text) => Value::Int(i64::from(dictionary.code(text)?)),
        })
    }
}

/// A literal's value; `None`: NULL.
pub(crate) fn argument_of(literal: &ScalarValue) -> Result<Option<Argument>, Refusal> {
    use ScalarValue as S;
    if literal.is_null() {
        return Ok(None);
    }
    if let S::Utf8(Some(text)) | S::LargeUtf8(Some(text)) | S::Utf8View(Some(text)) = literal {
        return Ok(Some(Argument::Text(text.as_str().into())));
    }
    Ok(Some(Argument::Value(match literal {
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
            Value::Int(i64::try_from(*value).map_err(|_| unsupported(literal.to_string(), &literal.data_type()))?)
        }
        other => return Err(unsupported(other.to_string(), &other.data_type())),
    })))
}

/// True for the types that kernels do arithmetic on and that keep their type. Those of decimals' results differ
/// ([`Type::of_decimals`]).
pub(super) fn is_number(ty: Type) -> bool {
    is_integer(ty) || is_float(ty)
}

pub(super) fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64)
}

pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::Float32 | Type::Float64)
}

/// True if kernels convert values of one type to the other, with NULL for those that do not fit.
pub(super) fn can_try_cast(from: Type, to: Type) -> bool {
    let number = |ty: Type| is_number(ty) || ty == Type::Bool;
    Type::casts_decimal(from, to) || (number(from) && number(to))
}

/// True if kernels convert values of one type to the other.
pub(super) fn can_cast(from: Type, to: Type) -> bool {
    match (from, to) {
        (from, to) if Type::casts_decimal(from, to) => true,
        (Type::Bool, to) => is_number(to),
        (from, to) if is_number(from) => is_number(to),
        (Type::Date32, Type::Timestamp(_)) | (Type::Timestamp(_), Type::Timestamp(_) | Type::Date32) => true,
        _ => false,
    }
}
