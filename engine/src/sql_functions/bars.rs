//! `bar(x, min, max, width)`: a bar of eighths of blocks, as long as `x` is far from `min` to `max`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The width of a bar without one.
const WIDTH: f64 = 80.0;
const MAX_WIDTH: f64 = 1000.0;
/// None to seven eighths of a block.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Bar {
    signature: Signature,
}

impl Default for Bar {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Bar {
    fn name(&self) -> &'static str {
        "bar"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, _, _] | [_, _, _, _] => match types.iter().find(|given| !given.is_numeric() && !given.is_null()) {
                Some(other) => plan_err!("bar takes numbers, not {other}"),
                None => Ok(vec![DataType::Float64; types.len()]),
            },
            _ => plan_err!(
                "bar takes 3 or 4 numbers, as in bar(x, min, max, width), not {}",
                types.len()
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(bars, Vec::new())(&args.args)
    }
}

fn bars(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers: Vec<_> = arguments
        .iter()
        .map(|column| column.as_primitive::<Float64Type>())
        .collect();
    let rows = arguments.first().map_or(0, |column| column.len());
    let texts = (0..rows).map(|row| {
        if numbers.iter().any(|column| column.is_null(row)) {
            return Ok(None);
        }
        match numbers.as_slice() {
            [x, min, max] => bar(x.value(row), min.value(row), max.value(row), WIDTH).map(Some),
            [x, min, max, width] => bar(x.value(row), min.value(row), max.value(row), width.value(row)).map(Some),
            _ => exec_err!("bar takes 3 or 4 numbers"),
        }
    });
    Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
}

fn bar(x: f64, min: f64, max: f64, width: f64) -> Result<String> {
    if !(1.0..=MAX_WIDTH).contains(&width) {
        return exec_err!("bar: the width {width} is to lie between 1 and {MAX_WIDTH}");
    }
    let filled = if [x, min, max].iter().any(|number| number.is_nan()) || x <= min {
        0.0
    } else if x >= max {
        width
    } else {
        width * (x - min) / (max - min)
    };
    if !filled.is_finite() {
        return exec_err!("bar: {x} between {min} and {max} has no length");
    }
    let eighths = (filled * 8.0) as usize; // at most 8000
    let mut text = "█".repeat(eighths / 8);
    text.push_str(EIGHTHS[eighths % 8]);
    let blanks = (width as usize).saturating_sub(eighths.div_ceil(8));
    text.extend(std::iter::repeat_n(' ', blanks));
    Ok(text)
}
