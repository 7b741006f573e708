//! [`Statistics`] of row groups, stripes and the file, gathered while values are written (ORC v1, "Column Statistics").
//! A row group's are merged into its stripe's, and a stripe's into the file's.

use super::double_statistics::DoubleStatistics;
use super::string_bound::{Bound, merge_strings, string_proto};
use crate::decimal_text::decimal_text;
use crate::proto;

const NANOS_PER_MILLI: i64 = 1_000_000;

/// Statistics of one column in a row group, a stripe or the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Statistics {
    /// Values that are not null.
    pub(super) values: u64,
    pub(super) has_null: bool,
    pub(super) typed: Typed,
}

/// The type-specific part. Bounds are `None` while there is no value.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Typed {
    /// Struct: nothing but counts.
    #[default]
    None,
    Boolean {
        true_count: u64,
    },
    Integer {
        bounds: Option<(i64, i64)>,
        sum: i128,
    },
    Date {
        bounds: Option<(i32, i32)>,
    },
    Double(DoubleStatistics),
    String {
        bounds: Option<(Bound, Bound)>,
        total: u64,
    },
    Binary {
        total: u64,
    },
    /// Seconds since 1970 and nanoseconds.
    Timestamp {
        bounds: Option<((i64, u32), (i64, u32))>,
    },
    Decimal {
        bounds: Option<(i128, i128)>,
        sum: Option<i128>,
        scale: usize,
    },
    /// List and map: elements by row.
    Collection {
        bounds: Option<(u64, u64)>,
        total: u64,
    },
}

impl Statistics {
    /// Adds the counts of a slice.
    pub(super) fn count(&mut self, values: usize, nulls: usize) {
        self.values += values as u64;
        self.has_null |= nulls > 0;
    }

    /// Adds integers.
    pub(super) fn integers(&mut self, slice: &[i64]) {
        let Some((min, max)) = bounds_of(slice) else { return };
        match &mut self.typed {
            Typed::Integer { bounds, sum } => {
                widen(bounds, min, max);
                *sum += sum_of(slice, min, max);
            }
            // The values come from 32-bit days.
            Typed::Date { bounds } => widen(bounds, min as i32, max as i32),
            _ => {}
        }
    }

    /// Adds a string column's smallest and largest value, and the bytes of all values.
    pub(super) fn strings(&mut self, min: &str, max: &str, bytes: u64) {
        let Typed::String { bounds, total } = &mut self.typed else {
            return;
        };
        *total += bytes;
        match bounds {
            None => *bounds = Some((Bound::lower(min), Bound::upper(max))),
            Some((lower, upper)) => {
                if min < lower.text.as_str() {
                    *lower = Bound::lower(min);
                }
                if max > upper.text.as_str() {
                    *upper = Bound::upper(max);
                }
            }
        }
    }

    /// Adds the number of elements of each row.
    pub(super) fn collections(&mut self, lengths: &[i64]) {
        if let Typed::Collection { bounds, total } = &mut self.typed
            && let Some((min, max)) = bounds_of(lengths)
        {
            widen(bounds, min.unsigned_abs(), max.unsigned_abs());
            *total += lengths.iter().sum::<i64>().unsigned_abs();
        }
    }

    /// Merges the statistics of a smaller unit (row group, stripe) of the same column.
    pub(super) fn merge(&mut self, other: &Self) {
        self.values += other.values;
        self.has_null |= other.has_null;
        match (&mut self.typed, &other.typed) {
            (Typed::Boolean { true_count }, Typed::Boolean { true_count: more }) => *true_count += more,
            (
                Typed::Integer { bounds, sum },
                Typed::Integer {
                    bounds: other,
                    sum: more,
                },
            ) => {
                merge_bounds(bounds, other);
                *sum += more;
            }
            (Typed::Date { bounds }, Typed::Date { bounds: other }) => merge_bounds(bounds, other),
            (Typed::Double(ours), Typed::Double(other)) => ours.merge(other),
            (
                Typed::String { bounds, total },
                Typed::String {
                    bounds: other,
                    total: more,
                },
            ) => {
                *total += more;
                merge_strings(bounds, other);
            }
            (Typed::Binary { total }, Typed::Binary { total: more }) => *total += more,
            (Typed::Timestamp { bounds }, Typed::Timestamp { bounds: other }) => merge_bounds(bounds, other),
            (
                Typed::Decimal { bounds, sum, .. },
                Typed::Decimal {
                    bounds: other,
                    sum: more,
                    ..
                },
            ) => {
                merge_bounds(bounds, other);
                *sum = sum.zip(*more).and_then(|(a, b)| a.checked_add(b));
            }
            (
                Typed::Collection { bounds, total },
                Typed::Collection {
                    bounds: other,
                    total: more,
                },
            ) => {
                merge_bounds(bounds, other);
                *total += more;
            }
            (Typed::None, Typed::None) => {}
            _ => debug_assert!(false, "statistics of two types"),
        }
    }

    /// Bytes of the bounds' texts.
    pub(super) fn heap_bytes(&self) -> usize {
        match &self.typed {
            Typed::String {
                bounds: Some((lower, upper)),
                ..
            } => lower.text.capacity() + upper.text.capacity(),
            _ => 0,
        }
    }

    /// Empty statistics of the same type.
    pub(super) fn empty(&self) -> Self {
        let typed = match &self.typed {
            Typed::None => Typed::None,
            Typed::Boolean { .. } => Typed::Boolean { true_count: 0 },
            Typed::Integer { .. } => Typed::Integer { bounds: None, sum: 0 },
            Typed::Date { .. } => Typed::Date { bounds: None },
            Typed::Double(_) => Typed::Double(DoubleStatistics::default()),
            Typed::String { .. } => Typed::String { bounds: None, total: 0 },
            Typed::Binary { .. } => Typed::Binary { total: 0 },
            Typed::Timestamp { .. } => Typed::Timestamp { bounds: None },
            Typed::Decimal { scale, .. } => Typed::Decimal {
                bounds: None,
                sum: Some(0),
                scale: *scale,
            },
            Typed::Collection { .. } => Typed::Collection { bounds: None, total: 0 },
        };
        Self {
            values: 0,
            has_null: false,
            typed,
        }
    }

    /// The stored message. A sum that does not fit 64 bits is left out.
    pub(super) fn to_proto(&self) -> proto::ColumnStatistics {
        let mut out = proto::ColumnStatistics {
            number_of_values: Some(self.values),
            has_null: Some(self.has_null),
            ..Default::default()
        };
        match &self.typed {
            Typed::None => {}
            Typed::Boolean { true_count } => {
                out.bucket_statistics = Some(proto::BucketStatistics {
                    count: vec![*true_count],
                });
            }
            Typed::Integer { bounds, sum } => {
                out.int_statistics = Some(proto::IntegerStatistics {
                    minimum: bounds.map(|(min, _)| min),
                    maximum: bounds.map(|(_, max)| max),
                    sum: i64::try_from(*sum).ok(),
                });
            }
            Typed::Date { bounds } => {
                out.date_statistics = Some(proto::DateStatistics {
                    minimum: bounds.map(|(min, _)| min),
                    maximum: bounds.map(|(_, max)| max),
                });
            }
            Typed::Double(double) => out.double_statistics = Some(double.to_proto()),
            Typed::String { bounds, total } => out.string_statistics = Some(string_proto(bounds.as_ref(), *total)),
            Typed::Binary { total } => {
                out.binary_statistics = Some(proto::BinaryStatistics {
                    sum: i64::try_from(*total).ok(),
                });
            }
            Typed::Timestamp { bounds } => out.timestamp_statistics = Some(timestamp_proto(*bounds)),
            Typed::Decimal { bounds, sum, scale } => {
                out.decimal_statistics = Some(proto::DecimalStatistics {
                    minimum: bounds.map(|(min, _)| decimal_text(min, *scale)),
                    maximum: bounds.map(|(_, max)| decimal_text(max, *scale)),
                    sum: sum.map(|sum| decimal_text(sum, *scale)),
                });
            }
            Typed::Collection { bounds, total } => {
                out.collection_statistics = Some(proto::CollectionStatistics {
                    min_children: bounds.map(|(min, _)| min),
                    max_children: bounds.map(|(_, max)| max),
                    total_children: Some(*total),
                });
            }
        }
        out
    }
}

/// Whole milliseconds, rounded down, in the UTC fields. The rest below a millisecond has fields of its own, plus one,
/// because 0 means that it is not stated.
fn timestamp_proto(bounds: Option<((i64, u32), (i64, u32))>) -> proto::TimestampStatistics {
    let mut out = proto::TimestampStatistics::default();
    let millis = |(seconds, nanos): (i64, u32)| {
        let millis = seconds
            .checked_mul(1000)?
            .checked_add(i64::from(nanos) / NANOS_PER_MILLI)?;
        Some((millis, (i64::from(nanos) % NANOS_PER_MILLI) as i32 + 1))
    };
    if let Some((min, max)) = bounds
        && let (Some(min), Some(max)) = (millis(min), millis(max))
    {
        out.minimum_utc = Some(min.0);
        out.minimum_nanos = Some(min.1);
        out.maximum_utc = Some(max.0);
        out.maximum_nanos = Some(max.1);
    }
    out
}

/// Smallest and largest value.
pub(super) fn bounds_of<T: Copy + Ord>(values: &[T]) -> Option<(T, T)> {
    let first = *values.first()?;
    Some(
        values
            .iter()
            .fold((first, first), |(min, max), &value| (min.min(value), max.max(value))),
    )
}

/// The sum of values between `min` and `max`, computed in 64 bits if the sum fits.
fn sum_of(values: &[i64], min: i64, max: i64) -> i128 {
    let largest = min.unsigned_abs().max(max.unsigned_abs());
    if largest
        .checked_mul(values.len() as u64)
        .is_some_and(|bound| bound <= i64::MAX as u64)
    {
        i128::from(values.iter().sum::<i64>())
    } else {
        values.iter().map(|&value| i128::from(value)).sum()
    }
}

/// Makes bounds hold `min` and `max` too.
pub(super) fn widen<T: Copy + Ord>(bounds: &mut Option<(T, T)>, min: T, max: T) {
    *bounds = Some(bounds.map_or((min, max), |(low, high)| (low.min(min), high.max(max))));
}

fn merge_bounds<T: Copy + Ord>(bounds: &mut Option<(T, T)>, other: &Option<(T, T)>) {
    if let Some((min, max)) = *other {
        widen(bounds, min, max);
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
