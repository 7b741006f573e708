//! Capsules of the Arrow PyCapsule interface, `arrow_schema` and `arrow_array_stream`, and the one of a `datafusion`
//! session that reads expressions.

use std::ffi::CStr;

use arrow::datatypes::Schema;
use arrow::ffi::FFI_ArrowSchema;
use arrow::ffi_stream::FFI_ArrowArrayStream;
use datafusion_ffi::proto::logical_extension_codec::FFI_LogicalExtensionCodec;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::c_data::schema;
use crate::c_data::stream::{self, BatchSource, StreamReader};
use crate::error::error;

const CODEC: &CStr = c"datafusion_logical_extension_codec";
const SCHEMA: &CStr = c"arrow_schema";
const STREAM: &CStr = c"arrow_array_stream";

/// A capsule of a schema.
pub(crate) fn schema_capsule<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = schema::export(schema).map_err(|failure| error(failure.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// A capsule of a stream.
pub(crate) fn stream_capsule<'py>(py: Python<'py>, source: Box<dyn BatchSource>) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, stream::export(source), STREAM)
}

/// A reader of an object's stream.
///
/// # Errors
/// If the object has no `__arrow_c_stream__`, or its stream fails.
pub(crate) fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<StreamReader> {
    if !object.hasattr("__arrow_c_stream__")? {
        return Err(PyTypeError::new_err(format!(
            "{} has no __arrow_c_stream__: pass a table of pyarrow, pandas, polars or another Arrow library",
            object.get_type().name()?
        )));
    }
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let place = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a struct of the C stream interface.
    let reader = unsafe { StreamReader::take(place.cast::<FFI_ArrowArrayStream>().as_ptr()) };
    reader.map_err(|failure| error(failure.to_string()))
}

/// The schema of an object.
///
/// # Errors
/// If the object has no `__arrow_c_schema__`, or its schema is none of columns.
pub(crate) fn schema_of(object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let place = capsule.pointer_checked(Some(SCHEMA))?;
    // SAFETY: a capsule of this name holds a struct of the C data interface, which the capsule goes on to own.
    let imported = unsafe { schema::import(place.cast::<FFI_ArrowSchema>().as_ref()) };
    imported.map_err(|failure| error(failure.to_string()))
}

/// The codec of a session of the package `datafusion`, whose major version is [`datafusion_ffi::version`].
///
/// # Errors
/// If the object is no such session.
pub(crate) fn codec_of(session: &Bound<'_, PyAny>) -> PyResult<FFI_LogicalExtensionCodec> {
    let capsule = session.call_method0("__datafusion_logical_extension_codec__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let place = capsule.pointer_checked(Some(CODEC))?;
    // SAFETY: a capsule of this name holds a codec of that version, and lives until it is copied.
    Ok(unsafe { place.cast::<FFI_LogicalExtensionCodec>().as_ref() }.clone())
}
