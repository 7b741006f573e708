//! Strings as places in a dictionary, as stripes store them, and expanded.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, DictionaryArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::error::{DataFusionError, Result};

/// The type of strings that are not expanded.
pub(super) fn coded_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8))
}

/// The array as a dictionary and places in it. An array of strings becomes a dictionary of its rows.
pub(super) fn coded(array: ArrayRef) -> Result<ArrayRef> {
    if array.as_dictionary_opt::<UInt32Type>().is_some() {
        return Ok(array);
    }
    let rows = u32::try_from(array.len()).map_err(|error| DataFusionError::External(Box::new(error)))?;
    let places = UInt32Array::new((0..rows).collect::<Vec<_>>().into(), array.logical_nulls());
    Ok(Arc::new(DictionaryArray::try_new(places, array)?))
}

/// The array with values in place of dictionary codes.
pub(crate) fn expanded(array: &ArrayRef) -> Result<ArrayRef> {
    match array.as_dictionary_opt::<UInt32Type>() {
        Some(coded) => Ok(take(coded.values(), coded.keys(), None)?),
        None => Ok(Arc::clone(array)),
    }
}
