//! [`parameters`]: values of placeholders, from Python.
//!
//! The Python half gives each value a kind, so that this half needs no look at Python's types.

use std::collections::HashMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::scalar::ScalarValue as Scalar;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::error::{error, query_error};

/// The values of `$1`, `$2`, … (a list) or of `$name` (a dict). Each value is a pair of its kind and itself.
pub(crate) fn parameters(given: &Bound<'_, PyAny>) -> PyResult<ParamValues> {
    if let Ok(named) = given.cast::<PyDict>() {
        let mut values = HashMap::with_capacity(named.len());
        for (name, pair) in named.iter() {
            values.insert(name.extract::<String>()?, scalar(&pair)?.into());
        }
        return Ok(ParamValues::Map(values));
    }
    let values = given.cast::<PyList>()?.iter();
    let values = values
        .map(|pair| Ok(scalar(&pair)?.into()))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(ParamValues::List(values))
}

fn scalar(pair: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    let (kind, value): (String, Bound<'_, PyAny>) = pair.extract()?;
    let cast = |data_type: DataType| {
        let text: String = value.extract()?;
        Scalar::Utf8(Some(text))
            .cast_to(&data_type)
            .map_err(|failure| query_error(&failure))
    };
    Ok(match kind.as_str() {
        "null" => Scalar::Null,
        "bool" => Scalar::Boolean(Some(value.extract()?)),
        "int" => Scalar::Int64(Some(value.extract().map_err(|_| {
            error(format!(
                "the parameter {value} does not fit 64 bits: pass a decimal.Decimal"
            ))
        })?)),
        "float" => Scalar::Float64(Some(value.extract()?)),
        "str" => Scalar::Utf8(Some(value.extract()?)),
        "bytes" => Scalar::Binary(Some(value.extract()?)),
        "date" => cast(DataType::Date32)?,
        "time" => cast(DataType::Time64(TimeUnit::Microsecond))?,
        "datetime" => cast(DataType::Timestamp(TimeUnit::Microsecond, None))?,
        "instant" => cast(DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())))?,
        "interval" => {
            let (days, nanoseconds): (i32, i64) = value.extract()?;
            Scalar::new_interval_mdn(0, days, nanoseconds)
        }
        "decimal" => {
            let (text, precision, scale): (String, u8, i8) = value.extract()?;
            Scalar::Utf8(Some(text))
                .cast_to(&DataType::Decimal128(precision, scale))
                .map_err(|failure| query_error(&failure))?
        }
        other => return Err(PyTypeError::new_err(format!("no parameter can be a {other}"))),
    })
}
