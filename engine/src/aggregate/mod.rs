//! Aggregation of few groups on the CPU, and minima of floats.
//!
//! ```text
//! float_extremes         min and max of floats in the order of sorts
//! calendar_part          parts of dates, as keys
//! value_codes            codes of the values of one type
//! text_codes             codes of strings
//! entry_codes            codes of a dictionary's entries
//! key_codes              codes of one key's values, by the key's type
//! coded_keys             keys that come as places in dictionaries
//! group_index            from the codes of all keys to the numbers of groups
//! group_states           the aggregates of groups
//! indexed_aggregate_exec the operator
//! indexed_aggregates     the optimizer rule that puts the operator in its place
//! exact_lanes            sums of durations, intervals and decimals in 256 bits
//! exact_task             what an accumulator of them computes
//! exact_groups           these sums of groups
//! exact_sum              `sum` and `avg` by these sums
//! ```
//!
//! DataFusion hashes the keys of every row and compares them with those of a group. The keys of most queries have few
//! values, though. Here each value of a key has a code, a small number, and a table gives the group of a combination of
//! codes. DataFusion's own code is behind it: `GroupValues` decides which combinations are one group, the aggregates
//! are its accumulators, and its operator takes over when there are many groups.

mod calendar_part;
mod coded_keys;
mod entry_codes;
mod exact_groups;
mod exact_lanes;
pub(crate) mod exact_sum;
pub(crate) mod exact_task;
pub(crate) mod float_extremes;
mod group_index;
mod group_states;
mod indexed_aggregate_exec;
pub(crate) mod indexed_aggregates;
mod key_codes;
mod text_codes;
mod value_codes;
