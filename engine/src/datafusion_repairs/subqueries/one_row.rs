//! [`one_row`]: the function that refuses a scalar subquery's second row.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, BooleanArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// True if a row is the first of its subquery. The second one is an error.
pub(super) fn one_row(number: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(OneRow::default())));
    FUNCTION.call(vec![number])
}

/// The function of a row's number, from 1.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OneRow {
    signature: Signature,
}

impl Default for OneRow {
    fn default() -> Self {
        // Volatile: no rule moves it to other rows.
        let signature = Signature::exact(vec![DataType::UInt64], Volatility::Volatile);
        Self { signature }
    }
}

impl ScalarUDFImpl for OneRow {
    fn name(&self) -> &str {
        "one_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let numbers = args.args[0].to_array(args.number_rows)?;
        if numbers
            .as_primitive::<UInt64Type>()
            .iter()
            .flatten()
            .any(|number| number > 1)
        {
            return exec_err!(
                "a scalar subquery has more than one row: add LIMIT 1, or an aggregate function such as max"
            );
        }
        let kept = BooleanArray::from(vec![true; numbers.len()]);
        Ok(ColumnarValue::Array(Arc::new(kept)))
    }
}
