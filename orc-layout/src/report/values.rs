//! [`StatisticsReport`]: statistics with numbers as numbers and everything else as text.

use std::fmt;

use chrono::{DateTime, Days, NaiveDate};
use serde::Serialize;

use crate::schema::TypeKind;
use crate::statistics::{ColumnStatistics, TypedStatistics};

/// Statistics of a column's values in a file, a stripe or a row group.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StatisticsReport {
    /// Number of values that are not null.
    pub values: Option<u64>,
    /// Whether the column has nulls.
    pub has_null: Option<bool>,
    /// No value is smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<ValueReport>,
    /// No value is larger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<ValueReport>,
    /// Sum of numbers; number of true values; total bytes of strings and binaries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sum: Option<ValueReport>,
}

/// A bound or a sum.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ValueReport {
    /// An integer.
    Integer(i64),
    /// A float or double; infinities become null in JSON.
    Double(f64),
    /// A string, or a date, timestamp or decimal in its usual form.
    Text(String),
}

impl fmt::Display for ValueReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Double(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl StatisticsReport {
    /// Statistics in the terms of the column's type.
    pub fn new(statistics: &ColumnStatistics, kind: TypeKind) -> Self {
        let (min, max, sum) = statistics
            .typed
            .as_ref()
            .map_or((None, None, None), |typed| bounds(typed, kind));
        Self {
            values: statistics.values,
            has_null: statistics.has_null,
            min,
            max,
            sum,
        }
    }
}

type Bounds = (Option<ValueReport>, Option<ValueReport>, Option<ValueReport>);

fn bounds(typed: &TypedStatistics, kind: TypeKind) -> Bounds {
    use ValueReport::{Double, Integer, Text};
    let scale = match kind {
        TypeKind::Decimal { scale, .. } => scale,
        _ => 0,
    };
    match typed {
        TypedStatistics::Integer { min, max, sum } => (Some(Integer(*min)), Some(Integer(*max)), sum.map(Integer)),
        TypedStatistics::Double { min, max, sum } => (Some(Double(*min)), Some(Double(*max)), sum.map(Double)),
        TypedStatistics::String {
            min, max, total_length, ..
        } => (min.clone().map(Text), max.clone().map(Text), total_length.map(Integer)),
        TypedStatistics::Boolean { true_count } => (None, None, i64::try_from(*true_count).ok().map(Integer)),
        TypedStatistics::Date { min, max } => (Some(date(*min)), Some(date(*max)), None),
        TypedStatistics::Timestamp { min, max } => (Some(timestamp(*min)), Some(timestamp(*max)), None),
        TypedStatistics::Decimal { min, max, sum } => {
            let text = |value: i128| Text(decimal(value, scale));
            (Some(text(*min)), Some(text(*max)), sum.map(text))
        }
        TypedStatistics::Binary { total_length } => (None, None, Some(Integer(*total_length))),
    }
}

fn date(days: i32) -> ValueReport {
    let epoch = NaiveDate::default();
    let distance = Days::new(u64::from(days.unsigned_abs()));
    let date = match days {
        0.. => epoch.checked_add_days(distance),
        _ => epoch.checked_sub_days(distance),
    };
    match date {
        Some(date) => ValueReport::Text(date.to_string()),
        None => ValueReport::Integer(days.into()),
    }
}

fn timestamp(nanos: i128) -> ValueReport {
    const NANOS: i128 = 1_000_000_000;
    let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok();
    let instant = seconds.and_then(|seconds| DateTime::from_timestamp(seconds, nanos.rem_euclid(NANOS) as u32));
    ValueReport::Text(match instant {
        Some(instant) => instant.naive_utc().to_string(),
        None => format!("{nanos} ns after 1970"),
    })
}

/// An unscaled value with its point: (-1250, 2) is "-12.50".
fn decimal(value: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let point = if scale > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_values_are_written_by_type() {
        assert_eq!(decimal(-1250, 2), "-12.50");
        assert_eq!(decimal(5, 3), "0.005");
        assert_eq!(decimal(i128::MIN, 0), i128::MIN.to_string());
        assert_eq!(date(16_436).to_string(), "2015-01-01");
        assert_eq!(date(-1).to_string(), "1969-12-31");
        assert_eq!(date(i32::MAX), ValueReport::Integer(i32::MAX.into()));
        assert_eq!(timestamp(1_500_000_000).to_string(), "1970-01-01 00:00:01.500");
        let last = 253_402_214_400_000_000_000;
        assert_eq!(timestamp(last).to_string(), "9999-12-31 00:00:00");
        timestamp(i128::MIN);
        timestamp(i128::MAX);
    }
}
