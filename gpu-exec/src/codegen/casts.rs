//! Statements for casts, and for parts of dates and times.

use super::statements::{Operand, Statements, cpp};
use crate::program::{DatePart, TimeUnit, Type};

/// Units of a timestamp in a day.
pub(super) fn per_day(unit: TimeUnit) -> i64 {
    86_400
        * match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => 1_000_000_000,
        }
}

pub(super) fn cast(statements: &mut Statements, from: Operand, to: Type) -> Operand {
    let Operand { value, ok, ty } = from;
    let plain = |value: String| (value, false);
    if Type::casts_decimal(ty, to) {
        return cast_decimal(statements, Operand { value, ok, ty }, to);
    }
    let (text, refuses) = match (ty, to) {
        _ if ty == to => return Operand { value, ok, ty: to },
        (_, Type::Bool) => plain(format!("{value} != 0")),
        (Type::Date32, Type::Timestamp(unit)) => (format!("scale_up({value}, {}ll, REFUSED)", per_day(unit)), true),
        (Type::Timestamp(unit), Type::Date32) => (format!("day_of_time<{}ll>({value}, REFUSED)", per_day(unit)), true),
        (Type::Timestamp(a), Type::Timestamp(b)) if per_day(a) > per_day(b) => {
            plain(format!("{value} / {}", per_day(a) / per_day(b)))
        }
        (Type::Timestamp(a), Type::Timestamp(b)) => (
            format!("scale_up({value}, {}ll, REFUSED)", per_day(b) / per_day(a)),
            true,
        ),
        (Type::Float32 | Type::Float64, Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64) => {
            (format!("truncate<{}>({value}, REFUSED)", cpp(to)), true)
        }
        (Type::Float32, Type::Float64) => plain(format!("to_double({value})")),
        (Type::Float64, Type::Float32) => plain(format!("to_float({value})")),
        (Type::Int16 | Type::Int32 | Type::Int64, Type::Int8 | Type::Int16 | Type::Int32)
            if to.width() < ty.width() =>
        {
            (format!("narrow<{}>({value}, REFUSED)", cpp(to)), true)
        }
        _ => plain(format!("({}){value}", cpp(to))),
    };
    if refuses {
        statements.bind_refusing(to, &text, ok)
    } else {
        statements.bind(to, &text, ok)
    }
}

/// Casts between decimals, integers and DOUBLE. A value with more digits than the type has refuses the query.
fn cast_decimal(statements: &mut Statements, from: Operand, to: Type) -> Operand {
    let scale_of = |ty: Type| match ty {
        Type::Decimal { scale, .. } => i32::from(scale),
        _ => 0,
    };
    if to == Type::Float64 {
        let text = format!("divide((double){}, 1e{})", from.value, scale_of(from.ty));
        return statements.bind(to, &text, from.ok);
    }
    let Type::Decimal { precision, .. } = to else {
        let whole = statements.bind(
            Type::Int64,
            &format!("{} / {}ll", from.value, power_of_ten(scale_of(from.ty))),
            from.ok,
        );
        let narrowed = format!("narrow<{}>({}, REFUSED)", cpp(to), whole.value);
        return statements.bind_refusing(to, &narrowed, whole.ok);
    };
    let by = scale_of(to) - scale_of(from.ty);
    let scaled = rescale(statements, &from, by, to);
    match u32::from(precision) {
        digits @ 0..19 => {
            let checked = format!("within({}, {}ll, REFUSED)", scaled.value, 10i64.pow(digits));
            statements.bind_refusing(to, &checked, scaled.ok)
        }
        _ => scaled,
    }
}

/// A decimal with `by` more digits after the point. Digits that are lost are rounded, half away from zero.
pub(super) fn rescale(statements: &mut Statements, value: &Operand, by: i32, to: Type) -> Operand {
    let (text, refuses) = match by {
        0 => (format!("(i64){}", value.value), false),
        1.. => {
            let text = format!("multiply_checked({}, {}ll, REFUSED)", value.value, power_of_ten(by));
            (text, true)
        }
        _ => (format!("round_divide({}, {}ll)", value.value, power_of_ten(-by)), false),
    };
    match refuses {
        true => statements.bind_refusing(to, &text, value.ok.clone()),
        false => statements.bind(to, &text, value.ok.clone()),
    }
}

/// 10 to the power of `digits`, which are 0 to 18.
fn power_of_ten(digits: i32) -> i64 {
    10i64.pow(digits.clamp(0, 18) as u32)
}

/// The day of a date or time. Days outside the calendar refuse the query, which nanoseconds never reach.
fn day(statements: &mut Statements, value: &Operand) -> Operand {
    let (text, refuses) = match value.ty {
        Type::Timestamp(TimeUnit::Nanosecond) => (
            format!("(i32)days_before<{}ll>({})", per_day(TimeUnit::Nanosecond), value.value),
            false,
        ),
        Type::Timestamp(unit) => (
            format!("day_of_time<{}ll>({}, REFUSED)", per_day(unit), value.value),
            true,
        ),
        _ => (format!("calendar_day({}, REFUSED)", value.value), true),
    };
    if refuses {
        statements.bind_refusing(Type::Date32, &text, value.ok.clone())
    } else {
        statements.bind(Type::Date32, &text, value.ok.clone())
    }
}

pub(super) fn extract(statements: &mut Statements, part: DatePart, value: Operand) -> Operand {
    let of_time = |of_second: &str| match value.ty {
        Type::Timestamp(unit) => {
            format!("second_of_time<{}ll>({}){of_second}", per_day(unit), value.value)
        }
        _ => "0".to_owned(),
    };
    let time = match part {
        DatePart::Hour => Some(of_time(" / 3600")),
        DatePart::Minute => Some(of_time(" / 60 % 60")),
        DatePart::Second => Some(of_time(" % 60")),
        _ => None,
    };
    if let Some(time) = time {
        if value.ty != Type::Date32 {
            day(statements, &value);
        }
        return statements.bind(Type::Int32, &time, value.ok);
    }
    let day = day(statements, &value);
    let field = match part {
        DatePart::Year => "year_of",
        DatePart::Quarter => "quarter_of",
        DatePart::Month => "month_of",
        DatePart::Week => "week_of",
        DatePart::Day => "day_of_month",
        DatePart::DayOfWeek => "day_of_week",
        _ => "day_of_year",
    };
    statements.bind(Type::Int32, &format!("{field}({})", day.value), day.ok)
}

pub(super) fn truncate(statements: &mut Statements, part: DatePart, value: Operand) -> Operand {
    let Type::Timestamp(unit) = value.ty else {
        return value; // the verifier lets no other type pass
    };
    let units_of_day = per_day(unit);
    let length = match part {
        DatePart::Second => units_of_day / 86_400,
        DatePart::Minute => units_of_day / 1_440,
        DatePart::Hour => units_of_day / 24,
        _ => units_of_day,
    };
    let first = match part {
        DatePart::Year => "first_of_year",
        DatePart::Quarter => "first_of_quarter",
        DatePart::Month => "first_of_month",
        DatePart::Week => "first_of_week",
        _ => {
            let text = format!("truncate_to({}, {length}ll)", value.value);
            return statements.bind(value.ty, &text, value.ok);
        }
    };
    let of = day(statements, &value);
    let text = format!(
        "time_of_day<{units_of_day}ll>({}, {first}({}), REFUSED)",
        value.value, of.value
    );
    statements.bind_refusing(value.ty, &text, value.ok)
}
