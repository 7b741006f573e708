//! [`RepairedFunction`]: a scalar function of DataFusion with a repair of what it returns.
//!
//! - `round` and `trunc` compute with `10^digits`. With hundreds of digits, or a value that large, the product is
//!   infinite and the quotient NaN.
//! - `to_timestamp` takes NaN for 1970, and numbers that are out of range for the last timestamp.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, Int64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, exec_err};
use datafusion::error::Result;
use datafusion::functions::datetime::to_timestamp::ToTimestampFunc;
use datafusion::functions::math::round::RoundFunc;
use datafusion::functions::math::trunc::TruncFunc;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::preimage::PreimageResult;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

/// What is repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Repair {
    /// `round` and `trunc` of floats to a number of digits.
    Digits,
    /// `to_timestamp` of floats.
    Times,
}

/// The function. Everything is the inner function's, except for values.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RepairedFunction {
    inner: Arc<ScalarUDF>,
    repair: Repair,
}

impl RepairedFunction {
    /// Puts the repairs in place of DataFusion's functions in a list. Functions of other programs stay.
    pub(crate) fn replace_in(functions: &mut [Arc<ScalarUDF>]) {
        for function in functions {
            if let Some(repair) = repair_of(function) {
                let inner = Arc::clone(function);
                *function = Arc::new(ScalarUDF::new_from_impl(Self { inner, repair }));
            }
        }
    }
}

fn repair_of(function: &ScalarUDF) -> Option<Repair> {
    let function = function.inner();
    if function.is::<RoundFunc>() || function.is::<TruncFunc>() {
        return Some(Repair::Digits);
    }
    function.is::<ToTimestampFunc>().then_some(Repair::Times)
}

impl ScalarUDFImpl for RepairedFunction {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.inner().return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = Arc::new(self.inner.inner().with_updated_config(config)?);
        Some(ScalarUDF::new_from_impl(Self {
            inner,
            repair: self.repair,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = args
            .args
            .first()
            .filter(|values| values.data_type().is_floating())
            .cloned();
        let digits = args.args.get(1).cloned();
        let rows = args.number_rows;
        match (self.repair, values, digits) {
            (Repair::Digits, Some(values), Some(digits)) => {
                let found = self.inner.inner().invoke_with_args(args)?;
                with_finite_values(&values, &digits, &found, rows)
            }
            (Repair::Times, Some(values), _) => {
                check_times(&values)?;
                self.inner.inner().invoke_with_args(args)
            }
            _ => self.inner.inner().invoke_with_args(args),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.inner().simplify(args, info)
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> Result<PreimageResult> {
        self.inner.inner().preimage(args, literal, info)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.inner().evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }
}

/// `found`, the rounded `values`, with values in place of what overflowed.
fn with_finite_values(
    values: &ColumnarValue,
    digits: &ColumnarValue,
    found: &ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    let is_scalar = matches!(found, ColumnarValue::Scalar(_));
    let rows = if is_scalar { 1 } else { rows };
    let values = values.to_array(rows)?;
    let digits = cast(&digits.to_array(rows)?, &DataType::Int64)?;
    let found = found.to_array(rows)?;
    let digits: &Int64Array = digits.as_primitive::<Int64Type>();
    let repaired: ArrayRef = match values.data_type() {
        DataType::Float64 => {
            let (values, found) = (
                values.as_primitive::<Float64Type>(),
                found.as_primitive::<Float64Type>(),
            );
            let rows = values.iter().zip(digits).zip(found).map(|((value, digits), found)| {
                let (value, digits, found) = (value?, digits?, found?);
                Some(finite(value, digits, found))
            });
            Arc::new(rows.collect::<Float64Array>())
        }
        DataType::Float32 => {
            let (values, found) = (
                values.as_primitive::<Float32Type>(),
                found.as_primitive::<Float32Type>(),
            );
            let rows = values.iter().zip(digits).zip(found).map(|((value, digits), found)| {
                let (value, digits, found) = (value?, digits?, found?);
                Some(finite_single(value, digits, found))
            });
            Arc::new(rows.collect::<Float32Array>())
        }
        _ => found,
    };
    match is_scalar {
        true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&repaired, 0)?)),
        false => Ok(ColumnarValue::Array(repaired)),
    }
}

/// The value of `value` rounded to `digits`, which a computation found to be `found`.
fn finite(value: f64, digits: i64, found: f64) -> f64 {
    /// From here on, floats are whole numbers.
    const WHOLE: f64 = (1u64 << 52) as f64;
    let is_short = |digits: i32| (value * 10f64.powi(digits)).abs() < WHOLE;
    match i32::try_from(digits) {
        // A value whose last digit is before the asked one is its own rounded value.
        Ok(digits) if digits > 0 && value.is_finite() && !(is_short(digits) && found.is_finite()) => value,
        Err(_) if digits > 0 && value.is_finite() => value,
        // Half of the least power of ten that overflows is more than each float.
        _ if digits < 0 && value.is_finite() && !found.is_finite() => 0f64.copysign(value),
        _ => found,
    }
}

fn finite_single(value: f32, digits: i64, found: f32) -> f32 {
    const WHOLE: f64 = (1u32 << 23) as f64;
    let scaled = |digits: i32| (f64::from(value) * 10f64.powi(digits)).abs();
    match i32::try_from(digits) {
        Ok(digits) if digits > 0 && value.is_finite() && !(scaled(digits) < WHOLE && found.is_finite()) => value,
        Err(_) if digits > 0 && value.is_finite() => value,
        _ if digits < 0 && value.is_finite() && !found.is_finite() => 0f32.copysign(value),
        _ => found,
    }
}

/// Fails for seconds that are no point in time.
fn check_times(seconds: &ColumnarValue) -> Result<()> {
    /// Seconds whose nanoseconds pass 64 bits.
    const END: f64 = i64::MAX as f64 / 1e9;
    let seconds = cast(&seconds.to_array(1)?, &DataType::Float64)?;
    let seconds = seconds.as_primitive::<Float64Type>();
    let wrong = seconds
        .iter()
        .flatten()
        .find(|seconds| seconds.is_nan() || seconds.abs() >= END);
    match wrong {
        Some(seconds) => exec_err!(
            "to_timestamp: {seconds} seconds are no timestamp (1677-09-21 to 2262-04-11); \
             exclude such values by WHERE, or make them NULL by nullif or CASE"
        ),
        None => Ok(()),
    }
}
