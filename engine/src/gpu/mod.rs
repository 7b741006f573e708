//! Filtered aggregates on a GPU: which of a plan's aggregations can run there, whether they should, and the operator that runs them.
//!
//! ```text
//! rule         the optimizer rule: finds aggregations over ORC scans, and replaces them
//! lower        a partial aggregation -> a program (what to compute), or the reason why not
//! place        the scan below it -> the program's input (where the values are); stored: how those are that the GPU decodes
//! choose       CPU or GPU: estimates; calibration: how fast the machine is
//! exec         GpuAggregateExec, the operator; display and metrics: what it says of itself
//! output       the program's results -> the batch that the CPU's aggregation would have given
//! session      what is kept between queries; dictionary: strings <-> numbers
//! device       the runtime of `grampus-gpu-exec`, and how it is opened
//! ```
//!
//! What a program computes and how is the business of the crate `grampus-gpu-exec`; nothing here mentions CUDA's libraries.

pub mod calibration;
mod choose;
pub(crate) mod device;
pub(crate) mod dictionary;
mod display;
pub mod exec;
pub(crate) mod lower;
mod metrics;
pub(crate) mod output;
pub(crate) mod place;
pub mod rule;
pub mod session;
mod stored;

#[cfg(test)]
mod tests;
