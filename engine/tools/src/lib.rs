//! Data to query: a generator of taxi trips, and a converter to ORC. No part of this package runs SQL.
//!
//! | module | contents |
//! | --- | --- |
//! | [`taxi`] | tables of trips like New York's, as ORC files |
//! | [`convert`] | Parquet, CSV and ORC files as ORC files laid out for on-demand reading |
//! | [`atomic_output`] | files and folders that appear complete or not at all; temporary folders |
//! | `file_source` | a local file as the source of ORC readers |
//! | `own_files`, `pending_file` | the files that outputs may replace; a file in a staged place, and its writer |
//! | `error` | [`ToolError`], the error of both |

pub mod convert;
mod error;
mod file_source;
mod own_files;
mod pending_file;
pub mod taxi;

pub use grampus_atomic_output as atomic_output;

pub use error::{Cause, ToolError};
