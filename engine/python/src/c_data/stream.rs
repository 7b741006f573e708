//! [`CStream`]: a stream of batches in the C data interface, and [`StreamReader`], which reads one.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use grampus::caught_panic::caught;

use super::array::CArray;
use super::array_export::export;
use super::array_import::import;
use super::schema::CSchema;

/// POSIX's EIO, which the interface takes for any failure.
const FAILED: c_int = 5;

/// Source of an exported stream's batches.
pub(crate) trait BatchSource: Send {
    /// The schema of all batches.
    fn schema(&self) -> SchemaRef;

    /// The next batch, or the end. Errors are texts for people.
    fn next(&mut self) -> Result<Option<RecordBatch>, String>;
}

/// `struct ArrowArrayStream` of the C stream interface.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CStream {
    get_schema: Option<unsafe extern "C" fn(*mut CStream, *mut CSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut CStream, *mut CArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut CStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut CStream)>,
    private_data: *mut c_void,
}

// SAFETY: the struct owns its source, and the interface moves streams between threads.
unsafe impl Send for CStream {}

/// What an exported stream points at.
struct Exported {
    source: Box<dyn BatchSource>,
    error: CString,
}

impl CStream {
    /// A struct without content: a stream that was moved elsewhere.
    pub(crate) fn empty() -> Self {
        Self {
            get_schema: None,
            get_next: None,
            get_last_error: None,
            release: None,
            private_data: ptr::null_mut(),
        }
    }

    /// A stream of the source's batches.
    pub(crate) fn of(source: Box<dyn BatchSource>) -> Self {
        let exported = Box::new(Exported {
            source,
            error: CString::default(),
        });
        Self {
            get_schema: Some(get_schema),
            get_next: Some(get_next),
            get_last_error: Some(get_last_error),
            release: Some(release),
            private_data: Box::into_raw(exported).cast(),
        }
    }
}

impl Drop for CStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: a struct with `release` has not been released.
            unsafe { release(self) }
        }
    }
}

/// # Safety
/// `stream` was made by [`CStream::of`], has not been released, and no other call uses it meanwhile.
unsafe fn exported<'a>(stream: *mut CStream) -> &'a mut Exported {
    // SAFETY: `private_data` is the box of `of`.
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
unsafe extern "C" fn get_schema(stream: *mut CStream, out: *mut CSchema) -> c_int {
    // SAFETY: as required of the caller.
    let exported = unsafe { exported(stream) };
    let schema = |this: &mut Exported| CSchema::of_schema(&this.source.schema()).map_err(|error| error.to_string());
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
unsafe extern "C" fn get_next(stream: *mut CStream, out: *mut CArray) -> c_int {
    // SAFETY: as required of the caller.
    let exported = unsafe { exported(stream) };
    let array = |this: &mut Exported| match this.source.next()? {
        Some(batch) => Ok(export(&StructArray::from(batch).into_data())),
        None => Ok(CArray::empty()),
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
unsafe extern "C" fn get_last_error(stream: *mut CStream) -> *const c_char {
    // SAFETY: as required of the caller.
    unsafe { exported(stream).error.as_ptr() }
}

/// # Safety
/// As [`get_schema`].
unsafe extern "C" fn release(stream: *mut CStream) {
    // SAFETY: `private_data` is the box of `CStream::of`.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Exported>()));
        (*stream).release = None;
        (*stream).private_data = ptr::null_mut();
    }
}

/// Reader of another library's stream.
pub(crate) struct StreamReader {
    stream: CStream,
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
    pub(crate) unsafe fn take(place: *mut CStream) -> Result<Self, ArrowError> {
        // SAFETY: as required of the caller; an empty struct is what the interface leaves behind a move.
        let mut stream = unsafe { ptr::replace(place, CStream::empty()) };
        let (Some(get_schema), Some(_)) = (stream.get_schema, stream.release) else {
            return Err(ArrowError::CDataInterface(
                "the Arrow stream was read before".to_owned(),
            ));
        };
        let mut schema = CSchema::empty();
        // SAFETY: the stream has not been released.
        let status = unsafe { get_schema(&mut stream, &mut schema) };
        if status != 0 {
            return Err(stream.last_error(status));
        }
        // SAFETY: the stream filled the struct.
        let schema = unsafe { schema.to_schema()? };
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
        let mut array = CArray::empty();
        // SAFETY: the stream has not been released.
        let status = unsafe { get_next(&mut self.stream, &mut array) };
        if status != 0 {
            return Err(self.stream.last_error(status));
        }
        if array.is_released() {
            return Ok(None);
        }
        let data_type = DataType::Struct(self.schema.fields().clone());
        // SAFETY: the stream filled the struct with an array of its schema.
        let data = unsafe { import(array, &data_type)? };
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

impl CStream {
    /// The producer's text of its last error.
    fn last_error(&mut self, status: c_int) -> ArrowError {
        let text = self.get_last_error.and_then(|get_last_error| {
            // SAFETY: the stream has not been released; the text ends with zero and lives until the next call.
            let text = unsafe { get_last_error(self) };
            // SAFETY: as above.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        });
        match text.filter(|text| !text.is_empty()) {
            Some(text) => ArrowError::CDataInterface(text),
            None => ArrowError::CDataInterface(format!("the Arrow stream failed with status {status}")),
        }
    }
}
