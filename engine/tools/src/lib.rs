//! Data to query: a generator of taxi trips, and a converter to ORC. No part of this package runs SQL.
//!
//! | module | contents |
//! | --- | --- |
//! | [`taxi`] | tables of trips like New York's, as ORC files |
//! | [`convert`] | Parquet, CSV and ORC files as ORC files laid out for on-demand reading |
//! | [`atomic_output`] | files and folders that appear complete or not at all; temporary folders |
//! | `file_source` | positioned reads from a local file |
//! | `layout_defaults` | stripe and chunk sizes of files whose options name none |
//! | `error` | [`ToolError`], the error of both |

pub mod atomic_output;
pub mod convert;
mod error;
mod file_source;
mod layout_defaults;
pub mod taxi;

pub use error::{Cause, ToolError};
