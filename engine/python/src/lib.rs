//! The native half of the Python package `grampus`, which `engine/python/grampus` wraps for people.
//!
//! | file | contents |
//! | --- | --- |
//! | `c_data` | arrow's C data interface |
//! | `interpreter` | calls of Python |
//! | `error` | [`Error`](error::Error), and DataFusion's errors as text |
//! | `capsules` | schemas and streams as Python capsules |
//! | `parameters` | values of placeholders |
//! | `python_function` | functions of Python in SQL |
//! | `threads` | the workers of a connection, and the wait for them |
//! | `run` | one execution of a query, as an Arrow stream |
//! | `query` | a bound query that is not executed yet |
//! | `foreign_table` | a query as a table of the package `datafusion` |
//! | `memory_table` | tables of other libraries |
//! | `given_tables` | tables of one statement: relations, variables of Python |
//! | `panicking_functions` | functions that panic, in the tests' build |
//! | `session` | a DataFusion session |
//! | `orc_files` | ORC files without a session: the writer, the layout |

mod c_data;
mod capsules;
mod error;
mod foreign_table;
mod given_tables;
mod interpreter;
mod memory_table;
mod orc_files;
#[cfg(feature = "as-tested")]
mod panicking_functions;
mod parameters;
mod python_function;
mod query;
mod run;
mod session;
mod threads;

use std::ffi::OsString;

use pyo3::prelude::*;

/// The native half of the package `grampus`.
#[pymodule]
mod _grampus {
    #[pymodule_export]
    use super::error::{
        DataError, DatabaseError, Error, InterfaceError, InternalError, NotSupportedError, OperationalError,
        ProgrammingError,
    };
    #[pymodule_export]
    use super::orc_files::{layout, write_orc};
    #[pymodule_export]
    use super::python_function::Arguments;
    #[pymodule_export]
    use super::query::Query;
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::session::Session;

    use super::*;

    /// Runs the program `grampus`. The first argument is its name.
    #[pyfunction]
    fn run_program(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
        py.detach(|| grampus_cli::run_program(arguments))
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("datafusion_version", datafusion::DATAFUSION_VERSION)
    }
}
