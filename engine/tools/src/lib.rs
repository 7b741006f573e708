//! Data to query: a generator of taxi trips, and a converter to ORC. No part of this package runs SQL.
//!
//! | module | contents |
//! | --- | --- |
//! | [`taxi`] | tables of trips like New York's, as ORC files |
//! | [`convert`] | Parquet, CSV and ORC files as ORC files laid out for on-demand reading |
//! | `atomic_output` | files that appear under their name only when they are complete |
//! | `layout_defaults` | stripe and chunk sizes of files whose options name none |
//! | `error` | [`ToolError`], the error of both |

mod atomic_output;
pub mod convert;
mod error;
mod layout_defaults;
pub mod taxi;

pub use error::{Cause, ToolError};
