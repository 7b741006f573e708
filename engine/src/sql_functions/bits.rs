//! `bit_not`: the operator `~`, which changes each bit of a whole number and keeps its type.

use std::sync::Arc;

use arrow::array::{ArrayRef, downcast_integer_array};
use arrow::compute::kernels::bitwise::bitwise_not;
use arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct BitNot {
    signature: Signature,
}

impl Default for BitNot {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for BitNot {
    fn name(&self) -> &'static str {
        "bit_not"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Null] => Ok(vec![DataType::Int64]),
            [whole] if whole.is_integer() => Ok(types.to_vec()),
            [other] => plan_err!("~ takes a whole number, not {other}"),
            _ => plan_err!("~ takes one number, not {}", types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [whole] => Ok(whole.clone()),
            _ => plan_err!("~ takes one number"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(not, Vec::new())(&args.args)
    }
}

fn not(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [values] = arguments else {
        return exec_err!("~ takes one number");
    };
    downcast_integer_array!(
        values => Ok(Arc::new(bitwise_not(values)?)),
        other => exec_err!("~ takes a whole number, not {other}")
    )
}
