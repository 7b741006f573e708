//! [`export`]: a stream of batches out of Rust. [`StreamReader`] reads one of another library.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use grampus::caught_panic::caught;

use super::{array, schema};

/// POSIX's EIO, which the interface takes for any failure.
const FAILED: c_int = 5;

/// Source of an exported stream's batches.
pub(crate) trait BatchSource: Send {
    /// The schema of all batches.
    fn schema(&self) -> SchemaRef;

    /// The next batch, or the end. Errors are texts for people.
    fn next(&mut self) -> Result<Option<RecordBatch>, String>;
}

/// What an exported stream points at.
struct Exported {
    source: Box<dyn BatchSource>,
    error: CString,
}

/// A stream of the source's batches.
///
/// arrow's own export puts `Io error:` before a text, and ends the process at a panic.
pub(crate) fn export(source: Box<dyn BatchSource>) -> FFI_ArrowArrayStream {
    let exported = Box::new(Exported {
        source,
        error: CString::default(),
    });
    FFI_ArrowArrayStream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release),
        private_data: Box::into_raw(exported).cast(),
    }
}

/// # Safety
/// `stream` was made by [`export`], has not been released, and no other call uses it meanwhile.
unsafe fn exported<'a>(stream: *mut FFI_ArrowArrayStream) -> &'a mut Exported {
    // SAFETY: `private_data` is the box of [`export`].
    unsafe { &mut *(*stream).private_data.cast::<Exported>() }
}

impl Exported {
    /// The result of `work`, which the interface's caller waits for: a panic must not pass it.
    fn caught<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, c_int> {
        let done = caught("", || Ok(work(self)));
        let done = done.unwrap_or_else(|panic| Err(grampus::error::message(&panic)));
        done.map_err(|error| self.fail(&error))
    }

    fn fail(&mut self, error: &str) -> c_int {
        self.error = CString::new(error.replace('\0', " ")).unwrap_or_default();
        FAILED
    }
}

/// # Safety
/// As the C stream interface has it: `out` can be written to.
unsafe extern "C" fn get_schema(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowSchema) -> c_int {
    // SAFETY: as required of the caller.
    let exported = unsafe { exported(stream) };
    let schema = |this: &mut Exported| schema::export(&this.source.schema()).map_err(|error| error.to_string());
    match exported.caught(schema) {
        Ok(schema) => {
            // SAFETY: as required of the caller.
            unsafe { ptr::write(out, schema) };
            0
        }
        Err(status) => status,
    }
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn get_next(stream: *mut FFI_ArrowArrayStream, out: *mut FFI_ArrowArray) -> c_int {
    // SAFETY: as required of the caller.
    let exported = unsafe { exported(stream) };
    let array = |this: &mut Exported| match this.source.next()? {
        Some(batch) => Ok(FFI_ArrowArray::new(&StructArray::from(batch).into_data())),
        None => Ok(FFI_ArrowArray::empty()),
    };
    match exported.caught(array) {
        Ok(array) => {
            // SAFETY: as required of the caller.
            unsafe { ptr::write(out, array) };
            0
        }
        Err(status) => status,
    }
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn get_last_error(stream: *mut FFI_ArrowArrayStream) -> *const c_char {
    // SAFETY: as required of the caller.
    unsafe { exported(stream).error.as_ptr() }
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn release(stream: *mut FFI_ArrowArrayStream) {
    // SAFETY: `private_data` is the box of [`export`].
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Exported>()));
        (*stream).release = None;
        (*stream).private_data = ptr::null_mut();
    }
}

/// Reader of another library's stream.
pub(crate) struct StreamReader {
    stream: FFI_ArrowArrayStream,
    schema: SchemaRef,
}

impl StreamReader {
    /// Takes the stream out of `place` and reads its schema.
    ///
    /// # Errors
    /// If the stream was consumed before, has no columns, or fails.
    ///
    /// # Safety
    /// `place` points at a struct that follows the C stream interface.
    pub(crate) unsafe fn take(place: *mut FFI_ArrowArrayStream) -> Result<Self, ArrowError> {
        // SAFETY: as required of the caller; an empty struct is what the interface leaves behind a move.
        let mut stream = unsafe { ptr::replace(place, FFI_ArrowArrayStream::empty()) };
        let (Some(get_schema), Some(_)) = (stream.get_schema, stream.release) else {
            return Err(ArrowError::CDataInterface(
                "the Arrow stream was read before".to_owned(),
            ));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream has not been released.
        let status = unsafe { get_schema(&mut stream, &mut schema) };
        if status != 0 {
            return Err(last_error(&mut stream, status));
        }
        // SAFETY: the stream filled the struct.
        let schema = unsafe { schema::import(&schema)? };
        Ok(Self {
            stream,
            schema: Arc::new(schema),
        })
    }

    /// The schema of all batches.
    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// The next batch, or the end.
    ///
    /// # Errors
    /// The producer's, and those of batches that contradict the schema.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(get_next) = self.stream.get_next else {
            return Ok(None);
        };
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: the stream has not been released.
        let status = unsafe { get_next(&mut self.stream, &mut array) };
        if status != 0 {
            return Err(last_error(&mut self.stream, status));
        }
        if array.is_released() {
            return Ok(None);
        }
        let data_type = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the stream filled the struct with an array of its schema.
        let data = unsafe { array::import(array, &data_type)? };
        let rows = StructArray::from(data);
        if rows.null_count() > 0 {
            return Err(ArrowError::CDataInterface(
                "rows of a table cannot be NULL as a whole".to_owned(),
            ));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let (_, columns, _) = rows.into_parts();
        RecordBatch::try_new_with_options(self.schema(), columns, &options).map(Some)
    }
}

/// The producer's text of its last error.
fn last_error(stream: &mut FFI_ArrowArrayStream, status: c_int) -> ArrowError {
    let text = stream.get_last_error.and_then(|get_last_error| {
        // SAFETY: the stream has not been released; the text ends with zero and lives until the next call.
        let text = unsafe { get_last_error(stream) };
        // SAFETY: as above.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    });
    match text.filter(|text| !text.is_empty()) {
        Some(text) => ArrowError::CDataInterface(text),
        None => ArrowError::CDataInterface(format!("the Arrow stream failed with status {status}")),
    }
}
