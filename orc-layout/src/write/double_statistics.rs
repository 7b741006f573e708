//! [`DoubleStatistics`], bounds and sum of floats.

use crate::proto;

/// Bounds and sum of floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DoubleStatistics {
    min: f64,
    max: f64,
    sum: f64,
    count: u64,
    nan: bool,
}

impl Default for DoubleStatistics {
    fn default() -> Self {
        Self {
            min: f64::INFINITY,
            max: f64::NEG_INFINITY,
            sum: 0.0,
            count: 0,
            nan: false,
        }
    }
}

impl DoubleStatistics {
    /// Adds values, with several accumulators: the loop is then not bound by an addition's latency.
    pub(super) fn update<T: Copy + Into<f64>>(&mut self, values: &[T]) {
        const LANES: usize = 8;
        let mut min = [f64::INFINITY; LANES];
        let mut max = [f64::NEG_INFINITY; LANES];
        let mut sum = [0.0; LANES];
        let chunks = values.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            for lane in 0..LANES {
                let value: f64 = chunk[lane].into();
                min[lane] = if value < min[lane] { value } else { min[lane] };
                max[lane] = if value > max[lane] { value } else { max[lane] };
                sum[lane] += value;
            }
        }
        for (lane, value) in rest.iter().enumerate() {
            let value: f64 = (*value).into();
            min[lane] = if value < min[lane] { value } else { min[lane] };
            max[lane] = if value > max[lane] { value } else { max[lane] };
            sum[lane] += value;
        }
        let sum: f64 = sum.iter().sum();
        // A sum is NaN if a value is, or if both infinities are there.
        self.nan |= sum.is_nan() && values.iter().any(|&value| value.into().is_nan());
        self.min = min.into_iter().fold(self.min, f64::min);
        self.max = max.into_iter().fold(self.max, f64::max);
        self.sum += sum;
        self.count += values.len() as u64;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.nan |= other.nan;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// Statistics as stored. A column with NaN has no bounds; its NaN sum tells this to the readers of the Apache
    /// project. A zero bound takes the sign that also bounds the other zero, for readers that distinguish them.
    pub(super) fn to_proto(self) -> proto::DoubleStatistics {
        if self.nan {
            return proto::DoubleStatistics {
                minimum: None,
                maximum: None,
                sum: Some(f64::NAN),
            };
        }
        let known = self.count > 0;
        proto::DoubleStatistics {
            minimum: known.then_some(if self.min == 0.0 { -0.0 } else { self.min }),
            maximum: known.then_some(if self.max == 0.0 { 0.0 } else { self.max }),
            sum: Some(self.sum),
        }
    }
}
