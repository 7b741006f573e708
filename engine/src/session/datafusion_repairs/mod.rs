//! Repairs of what DataFusion answers wrongly, each until DataFusion has mended it.
//!
//! Each repair names the fault, and DataFusion's issue if there is one. Its tests run DataFusion alone too, and fail as
//! soon as the fault is gone: then the repair can go.
//!
//! ```text
//! zeros            zeros of both signs as one value, in expressions
//! float_literals   an analyzer rule: zeros in comparisons, IN lists and CASE
//! float_keys       an optimizer rule: zeros in keys of joins, sorts, windows, and in IN lists
//! parquet_nans     optimizer rules: bounds of Parquet files, which leave NaN out
//! scalar_functions round and trunc to many digits, to_timestamp of NaN
//! shifts           lead and lag with IGNORE NULLS
//! drawn_once       an analyzer rule: volatile operands that DataFusion evaluates twice
//! ```

pub(super) mod drawn_once;
pub(super) mod float_keys;
pub(super) mod float_literals;
pub(super) mod parquet_nans;
pub(super) mod scalar_functions;
pub(super) mod shifts;
mod zeros;
