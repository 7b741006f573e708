//! [`register`]: SQL functions that panic, in the build that the tests use alone (the feature `as-tested`).

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::prelude::SessionContext;

/// The largest number without a panic.
const LARGEST: i64 = 20_000;

/// Registers functions that return their argument, and panic for large numbers: `panics` in execution, `panics_early`
/// in planning if the argument is constant.
pub(crate) fn register(context: &SessionContext) {
    let functions = [
        ("panics", Volatility::Volatile),
        ("panics_early", Volatility::Immutable),
    ];
    for (name, volatility) in functions {
        let work = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
            let numbers = ColumnarValue::values_to_arrays(arguments)?;
            let numbers: &Int64Array = numbers[0].as_primitive();
            let most = numbers.iter().flatten().max().unwrap_or_default();
            assert!(most <= LARGEST, "no number {most}");
            Ok(arguments[0].clone())
        };
        let function = create_udf(name, vec![DataType::Int64], DataType::Int64, volatility, Arc::new(work));
        context.register_udf(function);
    }
}
