//! Joins: the order of their sides, filters from their build sides, and spilling.
//!
//! ```text
//! scan_filter_estimates
//!                    an optimizer rule that samples the filters of scans below joins
//! spilling_join      a hash join that becomes a sort-merge join if its build side does not fit
//! build_side_filter  the dynamic filter of such a join
//! key_set            many keys of such a filter, in few bits each
//! cooperative_joins  an optimizer rule that makes joins yield to other tasks
//! ```

mod build_side_filter;
pub(crate) mod cooperative_joins;
mod key_set;
pub(crate) mod scan_filter_estimates;
pub(crate) mod spilling_join;
