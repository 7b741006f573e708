//! Files to query: a generator of taxi trips, and a converter to ORC.
//!
//! ```text
//! taxi            generates trips like New York's
//! convert         turns Parquet, CSV or ORC into ORC laid out for on-demand reading
//! atomic_output   files that appear under their name only when they are whole
//! ```

pub mod atomic_output;
pub mod convert;
pub mod taxi;
