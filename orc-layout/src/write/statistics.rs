//! Statistics of row groups, stripes and the file, gathered while values are written (ORC v1, "Column Statistics").
//! A row group's are merged into its stripe's and those into the file's.

use crate::proto;

/// Longest string bound that is written; a longer one is cut and becomes a bound that is no value.
const MAX_BOUND_BYTES: usize = 1024;

const NANOS_PER_MILLI: i64 = 1_000_000;

/// What is known of one column in one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Statistics {
    /// Values that are not null.
    pub(super) values: u64,
    pub(super) has_null: bool,
    pub(super) typed: Typed,
}

/// The part that depends on the type. Bounds are `None` while there is no value.
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
    /// Takes values in; several accumulators, so that the loop is not bound by an addition's latency.
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

    fn merge(&mut self, other: &Self) {
        self.nan |= other.nan;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count += other.count;
    }

    /// A column with NaN has no bounds, and a NaN sum tells the readers of the Apache project so. A zero bound takes
    /// the sign that also bounds the other zero, for readers that tell them apart.
    fn to_proto(self) -> proto::DoubleStatistics {
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

/// A string bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bound {
    text: String,
    /// It is a value of the column, not only a bound.
    exact: bool,
}

impl Bound {
    /// `text`, or its first characters.
    fn lower(text: &str) -> Self {
        if text.len() <= MAX_BOUND_BYTES {
            return Self {
                text: text.to_owned(),
                exact: true,
            };
        }
        Self {
            text: text[..cut(text)].to_owned(),
            exact: false,
        }
    }

    /// `text`, or its first characters with the last one that can be raised raised; `text` as it is if none can.
    fn upper(text: &str) -> Self {
        if text.len() <= MAX_BOUND_BYTES {
            return Self::lower(text);
        }
        let mut head = text[..cut(text)].to_owned();
        while let Some(last) = head.pop() {
            // The code points between the two planes of surrogates are no characters.
            let next = if last == '\u{d7ff}' {
                Some('\u{e000}')
            } else {
                char::from_u32(last as u32 + 1)
            };
            if let Some(next) = next {
                head.push(next);
                return Self {
                    text: head,
                    exact: false,
                };
            }
        }
        Self {
            text: text.to_owned(),
            exact: true,
        }
    }
}

/// Where to cut a text that is too long: before the character that crosses the limit.
fn cut(text: &str) -> usize {
    let mut at = MAX_BOUND_BYTES;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl Statistics {
    /// Takes in the counts of a slice.
    pub(super) fn count(&mut self, values: usize, nulls: usize) {
        self.values += values as u64;
        self.has_null |= nulls > 0;
    }

    /// Takes integers in.
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

    /// Takes a string column's smallest and largest value in, and the bytes of all.
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

    /// The statistics of a larger place take in those of a smaller one of the same column.
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

    /// The same kind of statistics with nothing in it.
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

    /// As stored. A sum that 64 bits cannot hold is left out.
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

fn string_proto(bounds: Option<&(Bound, Bound)>, total: u64) -> proto::StringStatistics {
    let mut out = proto::StringStatistics {
        sum: i64::try_from(total).ok(),
        ..Default::default()
    };
    if let Some((lower, upper)) = bounds {
        let (text, place) = (
            lower.text.clone(),
            if lower.exact {
                &mut out.minimum
            } else {
                &mut out.lower_bound
            },
        );
        *place = Some(text);
        let (text, place) = (
            upper.text.clone(),
            if upper.exact {
                &mut out.maximum
            } else {
                &mut out.upper_bound
            },
        );
        *place = Some(text);
    }
    out
}

/// Whole milliseconds, rounded down, in the UTC fields; what is below a millisecond apart, plus one, because 0 means that it is not stated.
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

/// An unscaled decimal as text: "-12.50" for -1250 at scale 2.
pub(super) fn decimal_text(unscaled: i128, scale: usize) -> String {
    let sign = if unscaled < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
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

/// The sum of values between `min` and `max`, in 64 bits where those suffice.
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

/// Of two equal bounds the one that is a value wins: the cut one says that something lies beyond it.
fn merge_strings(bounds: &mut Option<(Bound, Bound)>, other: &Option<(Bound, Bound)>) {
    let Some((min, max)) = other else { return };
    match bounds {
        None => *bounds = Some((min.clone(), max.clone())),
        Some((lower, upper)) => {
            if (&min.text, !min.exact) < (&lower.text, !lower.exact) {
                *lower = min.clone();
            }
            if (&max.text, max.exact) > (&upper.text, upper.exact) {
                *upper = max.clone();
            }
        }
    }
}

#[cfg(test)]
#[path = "statistics_tests.rs"]
mod tests;
