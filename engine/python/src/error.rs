//! [`Error`] and the exceptions below it, by PEP 249, and the texts of DataFusion's errors for people.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;
use grampus::caught_panic;
use pyo3::exceptions::PyException;
use pyo3::{PyErr, PyResult};

use crate::interpreter::attached;

pyo3::create_exception!(
    grampus,
    Error,
    PyException,
    "The query, the data or a setting is wrong. The text names the file, the column or the setting, and what to do."
);
pyo3::create_exception!(grampus, InterfaceError, Error, "The package was used wrongly.");
pyo3::create_exception!(grampus, DatabaseError, Error, "A statement failed.");
pyo3::create_exception!(
    grampus,
    DataError,
    DatabaseError,
    "A value cannot be computed or converted."
);
pyo3::create_exception!(
    grampus,
    OperationalError,
    DatabaseError,
    "Memory, a disk or a store failed."
);
pyo3::create_exception!(grampus, InternalError, DatabaseError, "A fault of the program.");
pyo3::create_exception!(grampus, ProgrammingError, DatabaseError, "The statement is wrong.");
pyo3::create_exception!(
    grampus,
    NotSupportedError,
    DatabaseError,
    "The statement is not supported."
);

/// The exception of a text.
pub(crate) fn error(text: impl Into<String>) -> PyErr {
    InterfaceError::new_err(text.into())
}

/// The exception of a text whose kind is that of DataFusion's error.
fn of_kind(error: &DataFusionError, text: String) -> PyErr {
    match error.find_root() {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::Configuration(_) => ProgrammingError::new_err(text),
        DataFusionError::NotImplemented(_) => NotSupportedError::new_err(text),
        DataFusionError::IoError(_) | DataFusionError::ObjectStore(_) | DataFusionError::ResourcesExhausted(_) => {
            OperationalError::new_err(text)
        }
        DataFusionError::Internal(_) => InternalError::new_err(text),
        DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
            ArrowError::DivideByZero
            | ArrowError::ArithmeticOverflow(_)
            | ArrowError::CastError(_)
            | ArrowError::ParseError(_)
            | ArrowError::ComputeError(_) => DataError::new_err(text),
            ArrowError::NotYetImplemented(_) => NotSupportedError::new_err(text),
            ArrowError::IoError(..) => OperationalError::new_err(text),
            _ => DatabaseError::new_err(text),
        },
        _ => DatabaseError::new_err(text),
    }
}

/// The exception of DataFusion's error. An exception of a Python function is its cause.
pub(crate) fn query_error(error: &DataFusionError) -> PyErr {
    let exception = of_kind(error, text(error));
    if let DataFusionError::External(inner) = error.find_root()
        && let Some(python) = inner.downcast_ref::<PythonError>()
    {
        attached(|py| exception.set_cause(py, Some(python.exception.clone_ref(py))));
    }
    exception
}

/// The exception that a Python function raised in a query.
#[derive(Debug)]
pub(crate) struct PythonError {
    words: String,
    exception: PyErr,
}

impl PythonError {
    pub(crate) fn new(function: &str, exception: PyErr) -> Self {
        let words = format!("the Python function {function}: {exception}");
        Self { words, exception }
    }
}

impl fmt::Display for PythonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for PythonError {}

/// The result of a call that works without the interpreter's objects. A panic in it is this package's exception, and
/// not pyo3's `PanicException`, which `except Exception` does not catch.
pub(crate) fn caught<T>(name: &str, work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    match caught_panic::caught(name, || Ok(work())) {
        Ok(done) => done,
        Err(panic) => Err(query_error(&panic)),
    }
}

/// The error for people: without prefixes, values in Rust's debug format and backtraces.
pub(crate) fn text(error: &DataFusionError) -> String {
    const PREFIXES: [&str; 12] = [
        "Arrow error: ",
        "Cast error: ",
        "C Data interface error: ",
        "Error during planning: ",
        "Execution error: ",
        "External error: ",
        "Internal error: ",
        "Invalid argument error: ",
        "Invalid or Unsupported Configuration: ",
        "Optimizer rule 'simplify_expressions' failed",
        "Parser error: ",
        "Schema error: ",
    ];
    let whole = match error.find_root() {
        DataFusionError::External(inner) if inner.is::<PythonError>() => return inner.to_string(),
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::TokenizerError(words) | ParserError::ParserError(words) => format!("SQL syntax: {words}"),
            ParserError::RecursionLimitExceeded => "the statement is nested too deeply: the setting \
                 datafusion.sql_parser.recursion_limit allows more"
                .to_owned(),
        },
        _ => grampus::error::message(error),
    };
    let mut text = whole.split("\n\nbacktrace:").next().unwrap_or(&whole);
    text = text.split("\nThis issue was likely caused by").next().unwrap_or(text);
    text = without_debug_text(text.trim());
    while let Some(rest) = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        text = rest.trim_start();
    }
    text.replace("datafusion.public.", "")
}

/// The text up to the first value in Rust's debug format, `Name { field: …`.
fn without_debug_text(text: &str) -> &str {
    let Some(brace) = text.find(" { ") else {
        return text;
    };
    let start = text[..brace].rfind([' ', '(']).map_or(0, |space| space + 1);
    let is_name = text[start..].starts_with(|first: char| first.is_ascii_uppercase());
    let field = text[brace + 3..].split(':').next().unwrap_or("");
    let is_field = !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match is_name && is_field {
        true => text[..start].trim_end_matches([' ', ':', '=', '(']),
        false => text,
    }
}
