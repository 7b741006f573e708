//! The native half of the Python package `grampus`, which `engine/python/grampus` wraps for people.
//!
//! | file | contents |
//! | --- | --- |
//! | `c_data` | arrow's C data interface |
//! | `error` | [`Error`](error::Error), and DataFusion's errors as text |
//! | `capsules` | schemas and streams as Python capsules |
//! | `parameters` | values of placeholders |
//! | `threads` | the workers of a connection, and the wait for them |
//! | `run` | one execution of a query, as an Arrow stream |
//! | `query` | a bound query that is not executed yet |
//! | `foreign_table` | a query as a table of the package `datafusion` |
//! | `panicking_functions` | functions that panic, in the tests' build |
//! | `session` | a DataFusion session |
//! | `orc_files` | ORC files without a session: the writer, the layout |

mod c_data;
mod capsules;
mod error;
mod foreign_table;
mod orc_files;
#[cfg(feature = "as-tested")]
mod panicking_functions;
mod parameters;
mod query;
mod run;
mod session;
mod threads;

use pyo3::prelude::*;

/// The native half of the package `grampus`.
#[pymodule]
mod _grampus {
    #[pymodule_export]
    use super::error::Error;
    #[pymodule_export]
    use super::orc_files::{layout, write_orc};
    #[pymodule_export]
    use super::query::Query;
    #[pymodule_export]
    use super::run::Run;
    #[pymodule_export]
    use super::session::Session;

    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("datafusion_version", datafusion::DATAFUSION_VERSION)
    }
}
