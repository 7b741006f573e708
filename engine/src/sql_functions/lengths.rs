//! `len`: characters of a text, bytes of a binary value, elements of a list or map.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Length {
    signature: Signature,
}

impl Default for Length {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Length {
    fn name(&self) -> &'static str {
        "len"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        use DataType::{
            Binary, BinaryView, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList, LargeUtf8, List,
            Map, Null, Utf8, Utf8View,
        };
        match types {
            [Dictionary(_, values)] => self.coerce_types(&[values.as_ref().clone()]),
            [Utf8View | LargeUtf8 | Null] => Ok(vec![Utf8]),
            [BinaryView | LargeBinary | FixedSizeBinary(_)] => Ok(vec![Binary]),
            [Utf8 | Binary | List(_) | LargeList(_) | FixedSizeList(..) | Map(..)] => Ok(types.to_vec()),
            [other] => plan_err!("len takes a text, a binary value, a list or a map, not {other}"),
            _ => plan_err!("len takes one argument, not {}", types.len()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = args.args.as_slice() else {
            return exec_err!("len takes one argument");
        };
        match values {
            ColumnarValue::Array(values) => Ok(ColumnarValue::Array(lengths(values)?)),
            ColumnarValue::Scalar(value) => {
                let found = lengths(&value.to_array()?)?;
                let found = found.as_primitive_opt::<arrow::datatypes::Int64Type>();
                let length = found.filter(|found| found.is_valid(0)).map(|found| found.value(0));
                Ok(ColumnarValue::Scalar(length.into()))
            }
        }
    }
}

fn lengths(values: &ArrayRef) -> Result<ArrayRef> {
    if let Some(texts) = values.as_string_opt::<i32>() {
        let characters = |text: Option<&str>| text.map(|text| text.chars().count() as i64);
        return Ok(Arc::new(texts.iter().map(characters).collect::<Int64Array>()));
    }
    if let Some(maps) = values.as_map_opt() {
        let entries = maps.iter().map(|entries| entries.map(|entries| entries.len() as i64));
        return Ok(Arc::new(entries.collect::<Int64Array>()));
    }
    Ok(cast(&length(values)?, &DataType::Int64)?)
}
