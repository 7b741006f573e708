//! [`PythonFunction`]: a function of Python as a scalar function of SQL.
//!
//! Workers call it with the interpreter lock, one batch at a time. So a thread that has the lock must give it away
//! while it waits for workers: `threads` does, and the streams of `run` do if functions [`exist`].

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::prelude::SessionContext;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::c_data::stream::BatchSource;
use crate::capsules::{schema_of, stream_capsule, stream_of};
use crate::error::{PythonError, error};
use crate::interpreter::call_python;

static EXIST: AtomicBool = AtomicBool::new(false);

/// Whether the process has such functions.
pub(crate) fn exist() -> bool {
    EXIST.load(Ordering::Relaxed)
}

/// A function of Python.
pub(crate) struct PythonFunction {
    name: String,
    /// Takes the [`Arguments`] of a batch, and returns an object whose Arrow stream has one column.
    call: Py<PyAny>,
    parameters: SchemaRef,
    returns: DataType,
    signature: Signature,
}

impl PythonFunction {
    /// Makes a function of a session. `parameters` and `returns` have the types as Arrow schemas.
    ///
    /// # Errors
    /// If the session has a function of that name.
    pub(crate) fn register(
        context: &SessionContext,
        name: &str,
        call: Py<PyAny>,
        parameters: &Bound<'_, PyAny>,
        returns: &Bound<'_, PyAny>,
        is_volatile: bool,
    ) -> PyResult<()> {
        let parameters = schema_of(parameters)?;
        let returns = schema_of(returns)?;
        let volatility = match is_volatile {
            true => Volatility::Volatile,
            false => Volatility::Immutable,
        };
        let types = parameters.fields().iter().map(|field| field.data_type().clone());
        let function = Self {
            name: name.to_owned(),
            call,
            signature: Signature::exact(types.collect(), volatility),
            parameters: Arc::new(parameters),
            returns: returns.field(0).data_type().clone(),
        };
        let state = context.state();
        let is_taken = state.scalar_functions().contains_key(name)
            || state.aggregate_functions().contains_key(name)
            || state.window_functions().contains_key(name)
            || state.higher_order_functions().contains_key(name);
        if is_taken {
            return Err(error(format!(
                "there is a function {name}: choose another name, or remove one of Python by remove_function"
            )));
        }
        EXIST.store(true, Ordering::Relaxed);
        context.register_udf(ScalarUDF::new_from_impl(function));
        Ok(())
    }

    /// Removes a function of a session. False: there is none of Python of this name.
    pub(crate) fn remove(context: &SessionContext, name: &str) -> bool {
        let is_pythons = |function: &Arc<ScalarUDF>| function.inner().downcast_ref::<Self>().is_some();
        let is_there = context.state().scalar_functions().get(name).is_some_and(is_pythons);
        if is_there {
            context.deregister_udf(name);
        }
        is_there
    }

    /// Calls the function for the rows of a batch.
    fn called(&self, py: Python<'_>, batch: RecordBatch) -> PyResult<ArrayRef> {
        let arguments = Bound::new(py, Arguments { batch })?;
        let returned = self.call.bind(py).call1((arguments,))?;
        let mut reader = stream_of(&returned)?;
        let mut parts: Vec<ArrayRef> = Vec::new();
        while let Some(batch) = reader.next_batch().map_err(|failure| error(failure.to_string()))? {
            parts.push(Arc::clone(batch.column(0)));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        match parts.as_slice() {
            [] => Ok(new_empty_array(&self.returns)),
            parts => concat(parts).map_err(|failure| error(failure.to_string())),
        }
    }
}

impl ScalarUDFImpl for PythonFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        if rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(&self.returns)));
        }
        let columns = args.args.iter().map(|value| value.to_array(rows));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.parameters), columns, &options)?;
        let called = call_python(|py| self.called(py, batch));
        let array = match called {
            None => return exec_err!("{}: the interpreter ends", self.name),
            Some(Err(exception)) => {
                let named = PythonError::new(&self.name, exception);
                return Err(DataFusionError::External(Box::new(named)));
            }
            Some(Ok(array)) => array,
        };
        // The Python half has said so in its words. A wrong array would be a wrong answer, or worse.
        if array.len() != rows || array.data_type() != &self.returns {
            return exec_err!(
                "{} returned {} values of {}, not {rows} of {}",
                self.name,
                array.len(),
                array.data_type(),
                self.returns
            );
        }
        Ok(ColumnarValue::Array(array))
    }
}

impl fmt::Debug for PythonFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, parameters, .. } = self;
        f.debug_struct("PythonFunction")
            .field("name", name)
            .field("parameters", parameters)
            .finish_non_exhaustive()
    }
}

// Two registrations are two functions, whatever they are called.
impl PartialEq for PythonFunction {
    fn eq(&self, other: &Self) -> bool {
        self.call.is(&other.call)
    }
}

impl Eq for PythonFunction {}

impl Hash for PythonFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.call.as_ptr().hash(state);
    }
}

/// The arguments of a call: an Arrow stream of one batch, with a column for each parameter.
#[pyclass(frozen, module = "grampus._grampus")]
pub(crate) struct Arguments {
    batch: RecordBatch,
}

#[pymethods]
impl Arguments {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema; // a producer may ignore it
        stream_capsule(py, Box::new(OneBatch(self.batch.schema(), Some(self.batch.clone()))))
    }
}

struct OneBatch(SchemaRef, Option<RecordBatch>);

impl BatchSource for OneBatch {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.0)
    }

    fn next(&mut self) -> std::result::Result<Option<RecordBatch>, String> {
        Ok(self.1.take())
    }
}
