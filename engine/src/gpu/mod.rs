//! Filtered aggregates on a GPU: which of a plan's aggregations can run there, whether they should, and the operator that runs them.
//!
//! ```text
//! offload_rule         the optimizer rule: finds aggregations over ORC scans, and replaces them
//! lower                a partial aggregation -> a program (what to compute), or the reason why not
//! input_builder        the scan below it -> the program's input (where the values are)
//! encoded_columns      the encoded form of columns that the GPU decodes
//! device_choice        CPU or GPU: estimates; calibration: how fast the machine is
//! gpu_aggregate_exec   GpuAggregateExec, the operator; explain and metrics: what it shows of itself
//! partial_state        the program's results -> the batch that the CPU's aggregation would have given
//! session              what is kept between queries; string_dictionary: strings <-> numbers
//! runner               the runtime of `grampus-gpu-exec`, and how it is opened
//! ```
//!
//! What a program computes and how is the business of the crate `grampus-gpu-exec`; nothing here mentions CUDA's libraries.

pub mod calibration;
mod device_choice;
mod encoded_columns;
mod explain;
pub mod gpu_aggregate_exec;
pub(crate) mod input_builder;
pub(crate) mod lower;
mod metrics;
pub mod offload_rule;
pub(crate) mod partial_state;
pub(crate) mod runner;
pub mod session;
pub(crate) mod string_dictionary;
