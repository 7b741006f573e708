//! `MapEntries`: DataFusion's `map_entries` for maps whatever their fields are called.
//!
//! The result's fields are `key` and `value`. DataFusion's function takes over those of the map and panics if their
//! names, their metadata or the nullability of values differ: a map of a file's writer, of pyarrow, or of Iceberg.

use std::sync::Arc;

use arrow::array::{Array, MapArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::ScalarValue;
use datafusion::common::cast::as_map_array;
use datafusion::error::Result;
use datafusion::functions_nested::map_entries::MapEntriesFunc;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct MapEntries {
    inner: Arc<ScalarUDF>,
}

impl MapEntries {
    /// Puts the function in place of DataFusion's in a list. Functions of other programs stay.
    pub(crate) fn replace_in(functions: &mut [Arc<ScalarUDF>]) {
        for function in functions {
            if function.inner().is::<MapEntriesFunc>() {
                let inner = Arc::clone(function);
                *function = Arc::new(ScalarUDF::new_from_impl(Self { inner }));
            }
        }
    }
}

impl ScalarUDFImpl for MapEntries {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.inner().return_type(types)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for value in &mut args.args {
            match value {
                ColumnarValue::Array(array) if matches!(array.data_type(), DataType::Map(..)) => {
                    *array = Arc::new(renamed(as_map_array(array)?)?);
                }
                ColumnarValue::Scalar(ScalarValue::Map(map)) => *map = Arc::new(renamed(map)?),
                _ => {}
            }
        }
        self.inner.inner().invoke_with_args(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// The map with the fields that the function's result has.
fn renamed(map: &MapArray) -> Result<MapArray> {
    let fields = Fields::from(vec![
        Field::new("key", map.key_type().clone(), false),
        Field::new("value", map.value_type().clone(), true),
    ]);
    let (_, columns, nulls) = map.entries().clone().into_parts();
    let entries = StructArray::try_new(fields, columns, nulls)?;
    let field = Arc::new(Field::new("entries", entries.data_type().clone(), false));
    let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
    Ok(MapArray::try_new(field, offsets, entries, nulls, false)?)
}
