//! Filtered aggregates on a GPU: which of a plan's aggregations can run there, whether they should, and the operator that runs them.
//!
//! ```text
//! lower       a partial aggregation over an ORC scan -> a program (what to compute)
//! dictionary  strings <-> numbers
//! ```
//!
//! What a program computes and how is the business of the crate `grampus-gpu-exec`; nothing here mentions CUDA.

#[allow(dead_code)]
pub(crate) mod dictionary;
#[allow(dead_code)] // until the operator that runs it is there
pub(crate) mod lower;
#[allow(dead_code)]
pub(crate) mod output;
#[allow(dead_code)]
pub(crate) mod place;
