//! `KeyRanges`: the values that a key may have, from what is known of the columns.

use crate::codegen::{CodeUnit, KeyRange};
use crate::input::Input;
use crate::program::{DatePart, Expr, MathFunction, Program, TimeUnit, Type, Value};

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_EPOCH: i64 = 719_468;
/// Years of which every time has nanoseconds in 64 bits: kernels truncate times of these years alone.
const NANOSECOND_YEARS: (i64, i64) = (1678, 2261);
/// Whole numbers that kernels convert floats to.
const WHOLE: (f64, f64) = (i32::MIN as f64, i32::MAX as f64);

/// Which stripes' extremes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stripes {
    /// Those of all.
    All,
    /// Those of all but the tenth with the most extreme values, on each side.
    Typical,
}

/// The least and the greatest value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Interval {
    Int(i64, i64),
    Float(f64, f64),
}

/// Values of keys.
pub(super) struct KeyRanges<'a> {
    pub(super) program: &'a Program,
    pub(super) input: &'a Input,
    pub(super) stripes: Stripes,
}

impl KeyRanges<'_> {
    /// The codes of a key. `None`: nothing is known, or there are more than codes have bits.
    pub(super) fn of(&self, key: &Expr) -> Option<KeyRange> {
        let (first, last) = match (CodeUnit::of(self.program, key).ok()?, key) {
            (CodeUnit::Months { months, per_day }, Expr::Truncate { value, .. }) => {
                let (least, most) = self.ints(value)?;
                let (earliest, latest) = NANOSECOND_YEARS;
                let month = |time: i64| {
                    let (year, month) = civil(time.div_euclid(per_day));
                    (year * 12 + month).clamp(earliest * 12, latest * 12 + 11) / months
                };
                (month(least), month(most))
            }
            (CodeUnit::Span(span), Expr::Truncate { value, part }) => {
                let (least, most) = self.ints(value)?;
                // 1970-01-01 was a Thursday: weeks begin three days before.
                let begin = if *part == DatePart::Week { -3 * (span / 7) } else { 0 };
                let first = least.checked_sub((least.wrapping_sub(begin)).rem_euclid(span))?;
                (first, first.checked_add((most.checked_sub(first)?) / span)?)
            }
            _ => match self.interval(key)? {
                Interval::Int(least, most) => (least, most),
                Interval::Float(least, most) if is_whole(least) && is_whole(most) => (least as i64, most as i64),
                Interval::Float(..) => return None, // most values are no whole numbers
            },
        };
        let codes = last.checked_sub(first)?.checked_add(1)?;
        Some(KeyRange {
            first,
            codes: u32::try_from(codes).ok().filter(|codes| *codes <= i32::MAX as u32)?,
        })
    }

    fn ints(&self, expr: &Expr) -> Option<(i64, i64)> {
        match self.interval(expr)? {
            Interval::Int(least, most) => Some((least, most)),
            Interval::Float(..) => None,
        }
    }

    fn interval(&self, expr: &Expr) -> Option<Interval> {
        let ty = self.program.type_of(expr).ok()?;
        let known = match expr {
            Expr::Column(at) => self.column(*at),
            Expr::Cast { value, to } => self.cast(value, *to),
            Expr::Math {
                function: MathFunction::Floor,
                value,
            } => self.floats(value, f64::floor),
            Expr::Math {
                function: MathFunction::Ceil,
                value,
            } => self.floats(value, f64::ceil),
            Expr::Extract { part, value } => self.part(*part, value),
            _ => None,
        };
        known.or(match ty {
            Type::Bool => Some(Interval::Int(0, 1)),
            Type::Int8 => Some(Interval::Int(i8::MIN.into(), i8::MAX.into())),
            _ => None,
        })
    }

    fn floats(&self, value: &Expr, function: fn(f64) -> f64) -> Option<Interval> {
        match self.interval(value)? {
            Interval::Float(least, most) => Some(Interval::Float(function(least), function(most))),
            Interval::Int(..) => None,
        }
    }

    fn column(&self, at: usize) -> Option<Interval> {
        let stripes = self.input.value_ranges.get(at).filter(|known| !known.is_empty())?;
        let skipped = match self.stripes {
            Stripes::All => 0,
            Stripes::Typical => stripes.len() / 10,
        };
        let ints = |value: fn(&(Value, Value)) -> Value| -> Option<Vec<i64>> {
            let int = |range| match value(range) {
                Value::Int(v) => Some(v),
                Value::Bool(v) => Some(i64::from(v)),
                Value::Float(_) => None,
            };
            let mut all = stripes.iter().map(int).collect::<Option<Vec<i64>>>()?;
            all.sort_unstable();
            Some(all)
        };
        if let (Some(least), Some(most)) = (ints(|range| range.0), ints(|range| range.1)) {
            return Some(Interval::Int(least[skipped], most[most.len() - 1 - skipped]));
        }
        let floats = |value: fn(&(Value, Value)) -> Value| {
            let float = |range| match value(range) {
                Value::Float(v) if !v.is_nan() => Some(v),
                _ => None,
            };
            let mut all = stripes.iter().map(float).collect::<Option<Vec<f64>>>()?;
            all.sort_unstable_by(f64::total_cmp);
            Some(all)
        };
        let (least, most) = (floats(|range| range.0)?, floats(|range| range.1)?);
        Some(Interval::Float(least[skipped], most[most.len() - 1 - skipped]))
    }

    fn cast(&self, value: &Expr, to: Type) -> Option<Interval> {
        let from = self.program.type_of(value).ok()?;
        let limits = match to {
            Type::Int8 => (i8::MIN.into(), i8::MAX.into()),
            Type::Int16 => (i16::MIN.into(), i16::MAX.into()),
            Type::Int32 | Type::Date32 => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        };
        let within = |v: i64| v.clamp(limits.0, limits.1);
        let scaled = |v: i64| match (from, to) {
            (Type::Timestamp(from), Type::Timestamp(to)) if per_day(from) > per_day(to) => {
                Some(v / (per_day(from) / per_day(to)))
            }
            (Type::Timestamp(from), Type::Timestamp(to)) => v.checked_mul(per_day(to) / per_day(from)),
            (Type::Date32, Type::Timestamp(to)) => v.checked_mul(per_day(to)),
            (Type::Timestamp(from), Type::Date32) => Some(v.div_euclid(per_day(from))),
            _ => Some(v),
        };
        Some(match (self.interval(value)?, to) {
            (Interval::Float(least, most), Type::Float32 | Type::Float64) => Interval::Float(least, most),
            (Interval::Int(least, most), Type::Float32 | Type::Float64) => Interval::Float(least as f64, most as f64),
            (Interval::Float(least, most), _) => {
                let whole = |v: f64| within(v.clamp(WHOLE.0, WHOLE.1).trunc() as i64);
                Interval::Int(whole(least), whole(most))
            }
            (Interval::Int(least, most), _) => Interval::Int(within(scaled(least)?), within(scaled(most)?)),
        })
    }

    fn part(&self, part: DatePart, value: &Expr) -> Option<Interval> {
        let (least, most) = match part {
            DatePart::Year => {
                let unit = match self.program.type_of(value).ok()? {
                    Type::Timestamp(unit) => per_day(unit),
                    _ => 1,
                };
                let (least, most) = self.ints(value)?;
                (civil(least.div_euclid(unit)).0, civil(most.div_euclid(unit)).0)
            }
            DatePart::Quarter => (1, 4),
            DatePart::Month => (1, 12),
            DatePart::Week => (1, 53),
            DatePart::Day => (1, 31),
            DatePart::DayOfWeek => (0, 6),
            DatePart::DayOfYear => (1, 366),
            DatePart::Hour => (0, 23),
            DatePart::Minute | DatePart::Second => (0, 59),
        };
        Some(Interval::Int(least, most))
    }
}

fn is_whole(v: f64) -> bool {
    v.fract() == 0.0 && (WHOLE.0..=WHOLE.1).contains(&v)
}

fn per_day(unit: TimeUnit) -> i64 {
    86_400
        * match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        }
}

/// Year and month, which counts from 0, of a day.
fn civil(day: i64) -> (i64, i64) {
    let day = day + DAYS_TO_EPOCH;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let of_era_years = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_era_years + of_era_years / 4 - of_era_years / 100);
    let month = (5 * of_year + 2) / 153; // from March
    let year = era * 400 + of_era_years + i64::from(month >= 10);
    (year, (month + 2) % 12)
}
