//! [`RunContext`]: the values that the trips of a run, or of its part in one segment, share.

use super::calendar::{Hour, Segment};
use super::distance::LongTrips;

/// The shared values of a part of a run.
pub(super) struct RunContext<'a> {
    pub(super) segment: &'a Segment,
    pub(super) year: i32,
    /// Months since January 2009.
    pub(super) month_number: i32,
    pub(super) hour: Hour,
    pub(super) long: LongTrips,
}
