//! `text[from:to]` and `text[at]`: characters by number, from 1, or from the end by negative numbers.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{DFSchema, ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, GetFieldAccess, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    TypeSignature, Volatility, lit,
};

/// Plans brackets behind a text; those behind lists stay.
#[derive(Debug)]
pub(super) struct Slices;

impl ExprPlanner for Slices {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let is_text = matches!(
            access.expr.get_type(schema),
            Ok(DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        );
        let (from, to) = match &access.field_access {
            GetFieldAccess::ListIndex { key } if is_text => (key.as_ref().clone(), key.as_ref().clone()),
            GetFieldAccess::ListRange { start, stop, stride } if is_text => {
                if stride.as_ref() != &lit(1_i64) {
                    return plan_err!("a slice of a text has no step: text[from:to]");
                }
                (start.as_ref().clone(), stop.as_ref().clone())
            }
            _ => return Ok(PlannerResult::Original(access)),
        };
        let function = Arc::new(ScalarUDF::new_from_impl(TextSlice::default()));
        let arguments = vec![access.expr, from, to];
        Ok(PlannerResult::Planned(Expr::ScalarFunction(
            datafusion::logical_expr::expr::ScalarFunction::new_udf(function, arguments),
        )))
    }
}

/// The function `text_slice(text, from, to)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TextSlice {
    signature: Signature,
}

impl Default for TextSlice {
    fn default() -> Self {
        let types = vec![DataType::Utf8, DataType::Int64, DataType::Int64];
        Self {
            signature: Signature::new(TypeSignature::Exact(types), Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TextSlice {
    fn name(&self) -> &'static str {
        "text_slice"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let values = ColumnarValue::values_to_arrays(&args.args)?;
        let [texts, from, to] = values.as_slice() else {
            return exec_err!("text_slice takes a text and two numbers");
        };
        let texts = cast(texts, &DataType::Utf8)?;
        let (from, to) = (cast(from, &DataType::Int64)?, cast(to, &DataType::Int64)?);
        let (from, to) = (from.as_primitive::<Int64Type>(), to.as_primitive::<Int64Type>());
        let sliced = (texts.as_string::<i32>().iter().zip(from.iter()).zip(to.iter()))
            .map(|((text, from), to)| Some(slice(text?, from?, to?)))
            .collect::<StringArray>();
        let sliced: ArrayRef = Arc::new(sliced);
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&sliced, 0)?)),
            false => Ok(ColumnarValue::Array(sliced)),
        }
    }
}

/// The characters `from` to `to`, both included.
fn slice(text: &str, from: i64, to: i64) -> &str {
    let length = text.chars().count() as i64;
    let number = |at: i64| if at < 0 { length + at + 1 } else { at };
    let (from, to) = (number(from).max(1), number(to).min(length));
    if from > to {
        return "";
    }
    let place = |number: i64| {
        text.char_indices()
            .nth(number as usize)
            .map_or(text.len(), |(at, _)| at)
    };
    &text[place(from - 1)..place(to)]
}

#[cfg(test)]
mod tests {
    use super::slice;

    #[test]
    fn slices_have_both_ends() {
        for (from, to, expected) in [
            (2, 3, "él"),
            (1, -1, "hélló"),
            (-3, -1, "lló"),
            (0, 1, "h"),
            (4, 2, ""),
            (9, 12, ""),
            (-9, 2, "hé"),
            (i64::MIN + 1, i64::MAX, "hélló"),
        ] {
            assert_eq!(slice("hélló", from, to), expected, "{from} {to}");
        }
        assert_eq!(slice("", 1, -1), "");
    }
}
