//! Bounds of a column's values by stored statistics, as values of the column's Arrow type.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use grampus_orc_layout::statistics::{ColumnStatistics, TypedStatistics};

use crate::config::InvalidUtf8;

/// A bound of one side; `None`: unknown.
pub(crate) type Bound = fn(&ColumnStatistics, &DataType) -> Option<ScalarValue>;

/// The lower bound of the values that a scan with this setting reads.
pub(crate) fn lower(invalid_utf8: InvalidUtf8) -> Bound {
    match invalid_utf8 {
        InvalidUtf8::Error => lower_bound,
        InvalidUtf8::Replace => lower_bound_replaced,
    }
}

/// The upper bound of the values that a scan with this setting reads.
pub(crate) fn upper(invalid_utf8: InvalidUtf8) -> Bound {
    match invalid_utf8 {
        InvalidUtf8::Error => upper_bound,
        InvalidUtf8::Replace => upper_bound_replaced,
    }
}

/// The least and the greatest value by stored statistics; `None`: unknown. Of text, bounds are no values.
pub(crate) fn extremes(stored: &ColumnStatistics, data_type: &DataType) -> Option<(ScalarValue, ScalarValue)> {
    Some((lower_bound(stored, data_type)?, upper_bound(stored, data_type)?))
}

/// The least and the greatest value of floats, if both and the sum are whole numbers: then all of them probably are. A
/// sum of prices is hardly ever one.
pub(crate) fn of_whole_numbers(stored: &ColumnStatistics) -> Option<(i64, i64)> {
    let Some(TypedStatistics::Double {
        min,
        max,
        sum: Some(sum),
    }) = stored.typed
    else {
        return None;
    };
    // From there on, every float is a whole number.
    const MOST: f64 = (1u64 << 52) as f64;
    let is_whole = |value: f64| value.abs() < MOST && value.fract() == 0.0;
    let are_whole = [min, max, sum].into_iter().all(is_whole);
    are_whole.then_some((min as i64, max as i64))
}

fn lower_bound(stored: &ColumnStatistics, data_type: &DataType) -> Option<ScalarValue> {
    match (stored.typed.as_ref()?, data_type) {
        (TypedStatistics::Integer { min, .. }, _) => integer(*min, data_type),
        (TypedStatistics::Double { min, .. }, _) => {
            // The stored bound may be either zero. -0.0 is the lower one for an order that distinguishes them.
            let min = if *min == 0.0 { -0.0 } else { *min };
            match data_type {
                DataType::Float32 => {
                    let single = min as f32;
                    let below = if f64::from(single) > min {
                        single.next_down()
                    } else {
                        single
                    };
                    Some(ScalarValue::Float32(Some(below)))
                }
                DataType::Float64 => Some(ScalarValue::Float64(Some(min))),
                _ => None,
            }
        }
        (TypedStatistics::String { min, .. }, DataType::Utf8) => Some(ScalarValue::Utf8(Some(min.clone()?))),
        (TypedStatistics::Boolean { true_count }, DataType::Boolean) => {
            Some(ScalarValue::Boolean(Some(*true_count >= stored.values?)))
        }
        (TypedStatistics::Date { min, .. }, DataType::Date32) => Some(ScalarValue::Date32(Some(*min))),
        (TypedStatistics::Timestamp { min, .. }, _) => timestamp(*min - early_ns(*min, data_type), data_type),
        (TypedStatistics::Decimal { min, .. }, DataType::Decimal128(precision, scale)) => {
            Some(ScalarValue::Decimal128(Some(*min), *precision, *scale))
        }
        _ => None,
    }
}

fn upper_bound(stored: &ColumnStatistics, data_type: &DataType) -> Option<ScalarValue> {
    match (stored.typed.as_ref()?, data_type) {
        (TypedStatistics::Integer { max, .. }, _) => integer(*max, data_type),
        (TypedStatistics::Double { max, .. }, _) => {
            let max = if *max == 0.0 { 0.0 } else { *max };
            match data_type {
                DataType::Float32 => {
                    let single = max as f32;
                    let above = if f64::from(single) < max {
                        single.next_up()
                    } else {
                        single
                    };
                    Some(ScalarValue::Float32(Some(above)))
                }
                DataType::Float64 => Some(ScalarValue::Float64(Some(max))),
                _ => None,
            }
        }
        (TypedStatistics::String { max, .. }, DataType::Utf8) => Some(ScalarValue::Utf8(Some(max.clone()?))),
        (TypedStatistics::Boolean { true_count }, DataType::Boolean) => {
            Some(ScalarValue::Boolean(Some(*true_count > 0)))
        }
        (TypedStatistics::Date { max, .. }, DataType::Date32) => Some(ScalarValue::Date32(Some(*max))),
        (TypedStatistics::Timestamp { max, .. }, _) => timestamp(*max + early_ns(*max, data_type), data_type),
        (TypedStatistics::Decimal { max, .. }, DataType::Decimal128(precision, scale)) => {
            Some(ScalarValue::Decimal128(Some(*max), *precision, *scale))
        }
        _ => None,
    }
}

fn integer(value: i64, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(value.try_into().ok()?)),
        DataType::Int16 => ScalarValue::Int16(Some(value.try_into().ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(value.try_into().ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        _ => return None,
    })
}

/// The time by which a bound is widened: a day for local times before 1970. There, time zone tables and writers differ
/// in their offsets, and bounds have the writer's.
fn early_ns(bound: i128, data_type: &DataType) -> i128 {
    const DAY_NS: i128 = 86_400_000_000_000;
    let is_local = matches!(data_type, DataType::Timestamp(_, None));
    if is_local && bound < 0 { DAY_NS } else { 0 }
}

/// A bound in nanoseconds as a value of the column's type. Values are cut to microseconds towards the past, and so are
/// their bounds. A bound beyond the type's range becomes the range's end: no value of the column lies beyond.
fn timestamp(nanoseconds: i128, data_type: &DataType) -> Option<ScalarValue> {
    let clamped = |value: i128| value.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => Some(ScalarValue::TimestampNanosecond(
            Some(clamped(nanoseconds)),
            zone.clone(),
        )),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let microseconds = clamped(nanoseconds.div_euclid(1_000));
            Some(ScalarValue::TimestampMicrosecond(Some(microseconds), zone.clone()))
        }
        _ => None,
    }
}

/// A lower bound of text in which U+FFFD stands for invalid bytes: the part before the first byte that could be one.
fn lower_bound_replaced(stored: &ColumnStatistics, data_type: &DataType) -> Option<ScalarValue> {
    match lower_bound(stored, data_type)? {
        ScalarValue::Utf8(Some(text)) => {
            let end = text.find(|character: char| !character.is_ascii()).unwrap_or(text.len());
            Some(ScalarValue::from(&text[..end]))
        }
        other => Some(other),
    }
}

/// An upper bound of text in which U+FFFD stands for invalid bytes, which are all above ASCII.
fn upper_bound_replaced(stored: &ColumnStatistics, data_type: &DataType) -> Option<ScalarValue> {
    match upper_bound(stored, data_type)? {
        ScalarValue::Utf8(Some(text)) if !text.is_ascii() => None,
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_bounds_hold_for_replaced_text() {
        let string = |min: &str, max: &str| ColumnStatistics {
            typed: Some(TypedStatistics::String {
                min: Some(min.to_owned()),
                max: Some(max.to_owned()),
                exact: true,
                total_length: None,
            }),
            ..ColumnStatistics::default()
        };
        let bounds = |stored: &ColumnStatistics| {
            let text = |bound: Option<ScalarValue>| bound.map(|bound| bound.to_string());
            (
                text(lower_bound_replaced(stored, &DataType::Utf8)),
                text(upper_bound_replaced(stored, &DataType::Utf8)),
            )
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(bounds(&string("ab", "cd")), (some("ab"), some("cd")));
        assert_eq!(bounds(&string("ab\u{fffd}c", "ü")), (some("ab"), None));
    }

    #[test]
    fn bounds_of_local_times_before_1970_are_widened_by_a_day() {
        const DAY: i128 = 86_400_000_000_000;
        let bounds = |min, max, zone: Option<&str>| {
            let stored = ColumnStatistics {
                typed: Some(TypedStatistics::Timestamp { min, max }),
                ..ColumnStatistics::default()
            };
            let (least, greatest) = extremes(
                &stored,
                &DataType::Timestamp(TimeUnit::Nanosecond, zone.map(Into::into)),
            )?;
            match (least, greatest) {
                (ScalarValue::TimestampNanosecond(least, _), ScalarValue::TimestampNanosecond(greatest, _)) => {
                    Some((i128::from(least?), i128::from(greatest?)))
                }
                _ => None,
            }
        };
        assert_eq!(bounds(-9, -5, None), Some((-9 - DAY, -5 + DAY)));
        assert_eq!(bounds(-9, 5, None), Some((-9 - DAY, 5)));
        assert_eq!(bounds(0, 5, None), Some((0, 5)));
        assert_eq!(bounds(-9, -5, Some("UTC")), Some((-9, -5)));
    }

    #[test]
    fn floats_look_whole_if_their_bounds_and_their_sum_are() {
        let of = |min: f64, max: f64, sum: Option<f64>| {
            let typed = Some(TypedStatistics::Double { min, max, sum });
            of_whole_numbers(&ColumnStatistics {
                typed,
                ..ColumnStatistics::default()
            })
        };
        assert_eq!(of(-0.0, 6.0, Some(1e9)), Some((0, 6)));
        assert_eq!(of(-20.0, 279.0, Some(-5.0)), Some((-20, 279)));
        for (min, max, sum) in [
            (0.0, 6.0, None),
            (0.0, 6.0, Some(1e9 + 0.5)),
            (0.5, 6.0, Some(1e9)),
            (0.0, 6.25, Some(1e9)),
            (0.0, f64::INFINITY, Some(f64::INFINITY)),
            (0.0, 1e17, Some(1e17)),
        ] {
            assert_eq!(of(min, max, sum), None, "{min} to {max}, {sum:?}");
        }
    }
}
