//! [`Task`]: what an accumulator of [`exact_sum`](super::exact_sum) computes, and its results.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, i256};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};

use super::exact_lanes::{ExactLanes, beyond, lane_count};

/// Type of a lane's state.
pub(super) const STATE: DataType = DataType::Decimal256(76, 0);

/// The two functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ExactFunction {
    Sum,
    Average,
}

/// What an accumulator has to compute.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) function: ExactFunction,
    /// Type of the argument.
    pub(super) input: DataType,
    pub(super) output: DataType,
    /// The call as written, for errors.
    pub(super) name: String,
}

impl Task {
    pub(super) fn lane_count(&self) -> usize {
        lane_count(&self.input).unwrap_or(1)
    }

    /// The results of groups with these sums and counts of values.
    pub(super) fn results(&self, mut sums: ExactLanes, counts: &[u64]) -> Result<ArrayRef> {
        if self.function == ExactFunction::Average {
            for lane in &mut sums.lanes {
                for (sum, &count) in lane.iter_mut().zip(counts) {
                    *sum = sum
                        .checked_div(i256::from_i128(i128::from(count)))
                        .unwrap_or(i256::ZERO);
                }
            }
        }
        let nulls = counts.iter().map(|&count| count > 0).collect();
        sums.into_array(&self.output, Some(nulls), &self.name)
    }

    pub(super) fn result(&self, lanes: &[i256], count: u64) -> Result<ScalarValue> {
        let array = self.results(ExactLanes::of_row(lanes), &[count])?;
        ScalarValue::try_from_array(&array, 0)
    }

    /// A sum of two numbers of a lane.
    pub(super) fn add(&self, one: i256, other: i256) -> Result<i256> {
        one.checked_add(other).ok_or_else(|| self.beyond())
    }

    /// The error of a sum beyond 256 bits.
    pub(super) fn beyond(&self) -> DataFusionError {
        beyond(&self.output, &self.name)
    }
}
