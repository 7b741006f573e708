//! [`ColumnStatistics`] of a file, a stripe or a row group, without values that cannot be trusted. `Trust` collects
//! each writer's errors and the last version that has them.

use crate::calendar::{proleptic_day, proleptic_second};
use crate::proto;
use crate::schema::TypeKind;
use crate::wire;

/// Statistics of one column's values in a file, a stripe or a row group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ColumnStatistics {
    /// Number of non-null values, if stated.
    pub values: Option<u64>,
    /// Whether the column has nulls; `None` if the (old) writer did not state it.
    pub has_null: Option<bool>,
    /// Type-specific part; `None` when absent or not to be trusted.
    pub typed: Option<TypedStatistics>,
}

/// Bounds and sums by type. Bounds are inclusive, and *bounds*: a truncated string bound is a bound, not a value.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // min, max and sum of the variant's type
#[non_exhaustive]
pub enum TypedStatistics {
    /// BYTE, SHORT, INT, LONG.
    Integer { min: i64, max: i64, sum: Option<i64> },
    /// FLOAT, DOUBLE: bounds of a column without NaN. Absent (`typed == None`) if a value may be NaN.
    Double { min: f64, max: f64, sum: Option<f64> },
    /// STRING, CHAR, VARCHAR. `None`: no bound on that side. Bounds of CHAR hold for the values without their trailing
    /// blanks.
    String {
        min: Option<String>,
        max: Option<String>,
        exact: bool,
        total_length: Option<i64>,
    },
    /// BOOLEAN: number of true values.
    Boolean { true_count: u64 },
    /// DATE, days since 1970-01-01 in the proleptic Gregorian calendar.
    Date { min: i32, max: i32 },
    /// TIMESTAMP, as nanoseconds that bound every value, also beyond 64 bits: the millisecond statistics widened to
    /// whole milliseconds. For local TIMESTAMP these are local wall-clock nanoseconds: the UTC statistics of ORC-135
    /// writers, or the older statistics widened by a day. They have the offsets of the writer's time zone table, which
    /// may differ from those of values before 1970.
    Timestamp { min: i128, max: i128 },
    /// DECIMAL, unscaled at the column's scale.
    Decimal { min: i128, max: i128, sum: Option<i128> },
    /// BINARY: total bytes.
    Binary { total_length: i64 },
}

/// Writer codes of the footer (ORC v1, "File Footer").
pub(crate) mod writer {
    pub(crate) const JAVA: u32 = 0;
    pub(crate) const CPP: u32 = 1;
    pub(crate) const PRESTO: u32 = 2;
    pub(crate) const GO: u32 = 3;
    pub(crate) const TRINO: u32 = 4;
    /// A writer that is not registered with the Apache project, as this crate's.
    pub(crate) const UNREGISTERED: u32 = i32::MAX as u32;
}

/// Trustworthiness of a file's statistics, by writer and version.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trust {
    writer: u32,
    version: u32,
    /// Days and seconds are of the hybrid calendar.
    is_hybrid_calendar: bool,
}

/// Level of the statistics: some writers computed only one level wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// File footer or stripe statistics.
    Merged,
    /// Row index.
    RowGroup,
}

impl Trust {
    /// `writer` and `version` as the footer and the postscript state them.
    pub(crate) fn new(writer: u32, version: u32) -> Self {
        Self {
            writer,
            version,
            is_hybrid_calendar: false,
        }
    }

    /// The same for a file whose days and seconds are of the hybrid calendar.
    pub(crate) fn with_hybrid_calendar(self, is_hybrid_calendar: bool) -> Self {
        Self {
            is_hybrid_calendar,
            ..self
        }
    }

    fn java_before(self, version: u32) -> bool {
        self.writer == writer::JAVA && self.version < version
    }

    /// HIVE-8732 (version 1): maxima of merged statistics were wrong, and strings were compared as UTF-16.
    fn bounds(self, level: Level, kind: TypeKind) -> bool {
        !(self.java_before(1) && (level == Level::Merged || kind.is_string()))
    }

    /// ORC-517 (version 7): bounds of decimals of up to 18 digits were wrong.
    fn decimals(self, precision: u8) -> bool {
        !(self.java_before(7) && precision <= 18)
    }

    /// A NaN leaves no trace in the bounds of the Java and C++ writers, only in the sum. Presto and Trino write no sum,
    /// and no bounds at all if a value is NaN (`DoubleStatisticsBuilder`).
    ///
    /// Of other bounds without a sum, or with a NaN sum, nothing follows, not even for `x < 5`:
    /// - The sign of a NaN decides whether SQL's order puts it below or above all numbers. x86 makes negative ones.
    /// - If a group's first value is NaN, both of its bounds stay NaN, and merging skips the group with its numbers.
    fn doubles_without_sum(self) -> bool {
        matches!(self.writer, writer::PRESTO | writer::TRINO)
    }
}

impl ColumnStatistics {
    /// Statistics from the stored message. A message that cannot be decoded is unknown, not an error: statistics only
    /// save work.
    ///
    /// `rows` is the number of rows, for top-level columns. Statistics that contradict it are unknown as well. Without
    /// a row index, Java writers counted nothing, and wrote that there are no values and no nulls. The oldest of them
    /// do not state whether there are nulls, so their columns of NULL alone look the same.
    pub(crate) fn decode(bytes: &[u8], kind: TypeKind, trust: Trust, level: Level, rows: Option<u64>) -> Self {
        let statistics = match wire::decode::<proto::ColumnStatistics>(bytes) {
            Ok(stored) => Self::from_proto(&stored, kind, trust, level),
            Err(_) => return Self::default(),
        };
        match (rows, statistics.values, statistics.has_null) {
            (Some(rows), Some(values), Some(false)) if values != rows => Self::default(),
            (Some(rows), Some(0), None) if rows > 0 => Self::default(),
            (Some(rows), Some(values), _) if values > rows => Self::default(),
            _ => statistics,
        }
    }

    pub(crate) fn from_proto(stored: &proto::ColumnStatistics, kind: TypeKind, trust: Trust, level: Level) -> Self {
        let empty = stored.number_of_values == Some(0);
        let trusted = !empty && trust.bounds(level, kind);
        Self {
            values: stored.number_of_values,
            has_null: stored.has_null,
            typed: if trusted { typed(stored, kind, trust) } else { None },
        }
    }
}

fn typed(stored: &proto::ColumnStatistics, kind: TypeKind, trust: Trust) -> Option<TypedStatistics> {
    match kind {
        TypeKind::Byte | TypeKind::Short | TypeKind::Int | TypeKind::Long => {
            let stored = stored.int_statistics.as_ref()?;
            let (min, max) = ascending(stored.minimum?, stored.maximum?)?;
            let sum = stored.sum;
            Some(TypedStatistics::Integer { min, max, sum })
        }
        TypeKind::Float | TypeKind::Double => double(stored.double_statistics.as_ref()?, trust),
        TypeKind::String | TypeKind::Varchar { .. } => string(stored.string_statistics.as_ref()?),
        TypeKind::Char { .. } => string(stored.string_statistics.as_ref()?).map(without_padding),
        TypeKind::Boolean => {
            let true_count = *stored.bucket_statistics.as_ref()?.count.first()?;
            Some(TypedStatistics::Boolean { true_count })
        }
        TypeKind::Date => {
            let stored = stored.date_statistics.as_ref()?;
            let (min, max) = ascending(stored.minimum?, stored.maximum?)?;
            let day = |day: i32| match trust.is_hybrid_calendar {
                true => proleptic_day(day.into()).clamp(i32::MIN.into(), i32::MAX.into()) as i32,
                false => day,
            };
            let (min, max) = (day(min), day(max));
            Some(TypedStatistics::Date { min, max })
        }
        TypeKind::Timestamp | TypeKind::TimestampInstant => timestamp(stored.timestamp_statistics.as_ref()?, trust),
        TypeKind::Decimal { precision, scale } if trust.decimals(precision) => {
            let stored = stored.decimal_statistics.as_ref()?;
            let unscaled = |text: &Option<String>| text.as_deref().and_then(|text| unscaled(text, scale));
            let (min, max) = ascending(unscaled(&stored.minimum)?, unscaled(&stored.maximum)?)?;
            let sum = unscaled(&stored.sum);
            Some(TypedStatistics::Decimal { min, max, sum })
        }
        TypeKind::Binary => {
            let total_length = stored.binary_statistics.as_ref()?.sum?;
            Some(TypedStatistics::Binary { total_length })
        }
        TypeKind::Decimal { .. } | TypeKind::Struct | TypeKind::List | TypeKind::Map | TypeKind::Union => None,
        TypeKind::Unknown { .. } => None,
    }
}

/// Crossed bounds bound nothing.
fn ascending<T: PartialOrd>(min: T, max: T) -> Option<(T, T)> {
    (min <= max).then_some((min, max))
}

fn double(stored: &proto::DoubleStatistics, trust: Trust) -> Option<TypedStatistics> {
    let (min, max) = ascending(stored.minimum?, stored.maximum?)?; // NaN is not <= anything
    let nan_is_excluded = match stored.sum {
        Some(sum) => !sum.is_nan(),
        None => trust.doubles_without_sum(),
    };
    // Writers compare -0.0 and 0.0 as equal; Arrow orders them.
    let min = if min == 0.0 { -0.0 } else { min };
    let max = if max == 0.0 { 0.0 } else { max };
    let sum = stored.sum;
    nan_is_excluded.then_some(TypedStatistics::Double { min, max, sum })
}

fn string(stored: &proto::StringStatistics) -> Option<TypedStatistics> {
    let exact = stored.minimum.is_some() && stored.maximum.is_some();
    let min = stored.minimum.as_ref().or(stored.lower_bound.as_ref()).cloned();
    let max = stored.maximum.as_ref().or(stored.upper_bound.as_ref()).cloned();
    if let (Some(min), Some(max)) = (&min, &max)
        && min > max
    {
        return None;
    }
    let total_length = stored.sum;
    (min.is_some() || max.is_some() || total_length.is_some()).then_some(TypedStatistics::String {
        min,
        max,
        exact,
        total_length,
    })
}

/// Bounds of CHAR values without their trailing blanks, from bounds of the stored ones.
///
/// A value without blanks is not above the stored one, so the upper bound holds. It is below the lower bound only if it
/// is a prefix, continued there by blanks and a control character: blanks are above those. The lower bound is therefore
/// cut at its first control character.
fn without_padding(stored: TypedStatistics) -> TypedStatistics {
    match stored {
        TypedStatistics::String {
            min, max, total_length, ..
        } => TypedStatistics::String {
            min: min.map(|min| {
                let end = min.find(|character| character < ' ').unwrap_or(min.len());
                min[..end].trim_end_matches(' ').to_owned()
            }),
            max,
            exact: false,
            total_length,
        },
        other => other,
    }
}

/// Bounds from the UTC statistics of ORC-135. Older statistics are shifted by the offset of a zone, which depends on
/// each value, so they are widened by a day. Some writers rounded whole milliseconds towards zero, so a bound is
/// widened to both sides: 0 also stands for the millisecond before 1970.
fn timestamp(stored: &proto::TimestampStatistics, trust: Trust) -> Option<TypedStatistics> {
    const DAY: i128 = 86_400_000;
    let (min, max) = match (stored.minimum_utc, stored.maximum_utc) {
        (Some(min), Some(max)) => ascending(i128::from(min), i128::from(max))?,
        _ => {
            let (min, max) = ascending(stored.minimum?, stored.maximum?)?;
            (i128::from(min) - DAY, i128::from(max) + DAY)
        }
    };
    let min = if min <= 0 { min - 1 } else { min };
    let proleptic = |millis: i128| match i64::try_from(millis.div_euclid(1_000)) {
        Ok(second) if trust.is_hybrid_calendar => {
            i128::from(proleptic_second(second)) * 1_000 + millis.rem_euclid(1_000)
        }
        _ => millis,
    };
    Some(TypedStatistics::Timestamp {
        min: proleptic(min) * NANOS_PER_MILLI,
        max: proleptic(max) * NANOS_PER_MILLI + NANOS_PER_MILLI - 1,
    })
}

const NANOS_PER_MILLI: i128 = 1_000_000;

/// "-12.5" at scale 2 is -1250. `None` for anything that the scale cannot express exactly.
fn unscaled(text: &str, scale: i8) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let scale = usize::try_from(scale).ok()?;
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) || fraction.len() > scale {
        return None;
    }
    let padding = std::iter::repeat_n(b'0', scale - fraction.len());
    let mut value = 0i128;
    for byte in whole.bytes().chain(fraction.bytes()).chain(padding) {
        let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Trust = Trust {
        writer: writer::JAVA,
        version: 9,
        is_hybrid_calendar: false,
    };

    fn convert(stored: proto::ColumnStatistics, kind: TypeKind, trust: Trust, level: Level) -> Option<TypedStatistics> {
        ColumnStatistics::from_proto(&stored, kind, trust, level).typed
    }

    fn doubles(min: f64, max: f64, sum: Option<f64>) -> proto::ColumnStatistics {
        proto::ColumnStatistics {
            double_statistics: Some(proto::DoubleStatistics {
                minimum: Some(min),
                maximum: Some(max),
                sum,
            }),
            ..Default::default()
        }
    }

    fn strings(min: &str, max: &str) -> proto::ColumnStatistics {
        proto::ColumnStatistics {
            string_statistics: Some(proto::StringStatistics {
                minimum: Some(min.into()),
                upper_bound: Some(max.into()),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn double_bounds_are_absent_after_a_nan() {
        let level = Level::RowGroup;
        let bounds = |stored, trust| convert(stored, TypeKind::Double, trust, level);
        assert!(bounds(doubles(1.0, 2.0, Some(3.0)), NEW).is_some());
        assert_eq!(bounds(doubles(1.0, 2.0, Some(f64::NAN)), NEW), None);
        assert_eq!(bounds(doubles(f64::NAN, f64::NAN, Some(0.0)), NEW), None);
        assert_eq!(bounds(doubles(1.0, 2.0, None), NEW), None);
        assert!(bounds(doubles(1.0, 2.0, None), Trust::new(writer::TRINO, 6)).is_some());
        let zero = bounds(doubles(0.0, -0.0, Some(0.0)), NEW);
        assert!(matches!(zero, Some(TypedStatistics::Double { min, max, .. })
            if min.is_sign_negative() && max.is_sign_positive()));
    }

    #[test]
    fn statistics_of_old_writers_are_used_only_where_correct() {
        let old = Trust::new(writer::JAVA, 0);
        assert_eq!(
            convert(doubles(1.0, 2.0, Some(3.0)), TypeKind::Double, old, Level::Merged),
            None
        );
        assert!(convert(doubles(1.0, 2.0, Some(3.0)), TypeKind::Double, old, Level::RowGroup).is_some());
        assert_eq!(convert(strings("a", "b"), TypeKind::String, old, Level::RowGroup), None);
        let bounds = convert(strings("a", "b"), TypeKind::String, NEW, Level::Merged);
        assert!(matches!(bounds, Some(TypedStatistics::String { exact: false, .. })));
        let local = proto::ColumnStatistics {
            timestamp_statistics: Some(proto::TimestampStatistics {
                minimum: Some(1),
                maximum: Some(2),
                ..Default::default()
            }),
            ..Default::default()
        };
        let day = 86_400_000_000_000;
        let widened = TypedStatistics::Timestamp {
            min: 1_000_000 - day - 1_000_000,
            max: 2_999_999 + day,
        };
        assert_eq!(convert(local, TypeKind::Timestamp, NEW, Level::Merged), Some(widened));
    }

    #[test]
    fn timestamp_bounds_hold_every_nanosecond_of_their_millisecond() {
        let stored = |min, max| proto::TimestampStatistics {
            minimum_utc: Some(min),
            maximum_utc: Some(max),
            ..Default::default()
        };
        let bounds = |min, max| timestamp(&stored(min, max), NEW);
        let typed = |min, max| Some(TypedStatistics::Timestamp { min, max });
        assert_eq!(bounds(-1, 1), typed(-2_000_000, 1_999_999));
        // ORC C++ cuts -0.5 ms to 0.
        assert_eq!(bounds(0, 0), typed(-1_000_000, 999_999));
        assert_eq!(bounds(1, 1), typed(1_000_000, 1_999_999));
        // 0001-01-01 and 9999-12-31 do not fit 64 bits.
        let (first, last) = (-62_135_596_800_000, 253_402_214_400_000);
        let nanos = |millis| i128::from(millis) * 1_000_000;
        assert_eq!(
            bounds(first, last),
            typed(nanos(first) - 1_000_000, nanos(last) + 999_999)
        );
        assert!(bounds(i64::MIN, i64::MAX).is_some());
        let hybrid = timestamp(&stored(first - 172_800_000, first), NEW.with_hybrid_calendar(true));
        let two_days = 172_800_000_000_000;
        assert_eq!(
            hybrid,
            typed(nanos(first) - 1_000_000, nanos(first) + two_days + 999_999)
        );
    }

    #[test]
    fn counts_that_contradict_the_rows_are_unknown() {
        let decoded = |values: Option<u64>, has_null: Option<bool>| {
            let stored = proto::ColumnStatistics {
                number_of_values: values,
                has_null,
                ..Default::default()
            };
            let bytes = prost::Message::encode_to_vec(&stored);
            let statistics = ColumnStatistics::decode(&bytes, TypeKind::Long, NEW, Level::Merged, Some(10));
            statistics.values
        };
        assert_eq!(decoded(Some(0), Some(true)), Some(0));
        assert_eq!(decoded(Some(4), None), Some(4));
        assert_eq!(decoded(Some(10), Some(false)), Some(10));
        for (values, has_null) in [
            (0, None),
            (0, Some(false)),
            (4, Some(false)),
            (11, None),
            (11, Some(true)),
        ] {
            assert_eq!(decoded(Some(values), has_null), None, "{values} {has_null:?}");
        }
    }

    #[test]
    fn char_bounds_hold_without_padding() {
        let kind = TypeKind::Char { length: 4 };
        let bounds = |min, max| convert(strings(min, max), kind, NEW, Level::RowGroup);
        let typed = |min: &str, max: &str| {
            Some(TypedStatistics::String {
                min: Some(min.into()),
                max: Some(max.into()),
                exact: false,
                total_length: None,
            })
        };
        assert_eq!(bounds("x   ", "y   "), typed("x", "y   "));
        // "a" is stored as "a   ", above "a \tb", and read below it.
        assert_eq!(bounds("a \tb", "b   "), typed("a", "b   "));
    }

    #[test]
    fn decimals_are_read_at_the_columns_scale() {
        assert_eq!(unscaled("-12.5", 2), Some(-1250));
        assert_eq!(unscaled("12.500", 1), Some(125));
        assert_eq!(unscaled(".5", 1), Some(5));
        assert_eq!(unscaled("0", 0), Some(0));
        for bad in [
            "",
            "-",
            ".",
            "1.25",
            "1e3",
            "x",
            "999999999999999999999999999999999999999",
        ] {
            assert_eq!(unscaled(bad, 1), None, "{bad}");
        }
    }
}
