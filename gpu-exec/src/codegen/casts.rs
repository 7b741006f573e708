//! Statements for casts, and for parts of dates and times.

use super::statements::{Operand, Statements, WIDE, cpp};
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
    if Type::casts_decimal(from.ty, to) {
        return cast_decimal(statements, from, to);
    }
    if from.ty == to {
        return from;
    }
    let Operand { value, ok, ty, .. } = from;
    let plain = |value: String| (value, false);
    let (text, refuses) = match (ty, to) {
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

/// Casts between decimals, integers and floats. A value with more digits than the type has refuses the query.
fn cast_decimal(statements: &mut Statements, from: Operand, to: Type) -> Operand {
    let scale_of = |ty: Type| match ty {
        Type::Decimal { scale, .. } => i32::from(scale),
        _ => 0,
    };
    if to == Type::Float64 {
        let double = if from.is_wide() { "to_double(" } else { "((double)" };
        let text = format!("divide({double}{}), 1e{})", from.value, scale_of(from.ty));
        return statements.bind(to, &text, from.ok);
    }
    let Type::Decimal { precision, .. } = to else {
        let power = format!("({}){}ll", from.cpp, power_of_ten(scale_of(from.ty)));
        let text = format!("{} / {power}", from.value);
        let whole = statements.bind_as(from.cpp, Type::Int64, &text, from.ok);
        let narrowed = format!("narrow<{}>({}, REFUSED)", cpp(to), whole.value);
        return statements.bind_refusing(to, &narrowed, whole.ok);
    };
    if matches!(from.ty, Type::Float32 | Type::Float64) {
        let double = match from.ty {
            Type::Float32 => format!("to_double({})", from.value),
            _ => from.value,
        };
        let (scale, bound) = (scale_of(to), power_of_ten(i32::from(precision)));
        let text = format!("decimal_of({double}, 1e{scale}, {bound}ll, REFUSED)");
        return statements.bind_refusing(to, &text, from.ok);
    }
    let by = scale_of(to) - scale_of(from.ty);
    let held = if from.is_wide() { WIDE } else { cpp(to) };
    let scaled = rescale(statements, &from, by, (to, held));
    let bound = match u32::from(precision) {
        digits @ 0..19 => format!("({held}){}ll", 10i64.pow(digits)),
        digits => {
            // There are no literals of 128 bits.
            let (first, rest) = (10i64.pow(18), 10i128.pow(digits - 18));
            match i64::try_from(rest) {
                Ok(rest) => format!("({held}){first}ll * {rest}ll"),
                Err(_) => format!("({held}){first}ll * {first}ll * {}ll", rest / i128::from(first)),
            }
        }
    };
    let checked = statements.bind_refusing_as(
        held,
        to,
        &format!("within({}, {bound}, REFUSED)", scaled.value),
        scaled.ok,
    );
    match held == cpp(to) {
        true => checked,
        false => statements.bind(to, &checked.value_as(cpp(to)), checked.ok),
    }
}

/// A decimal with `by` more digits after the point, in a C++ type. Digits that are lost are rounded, half away from
/// zero.
pub(super) fn rescale(
    statements: &mut Statements,
    value: &Operand,
    by: i32,
    (to, held): (Type, &'static str),
) -> Operand {
    let (text, ok) = (value.value_as(held), value.ok.clone());
    let power = power_of_ten(by.abs());
    match by {
        0 => statements.bind_as(held, to, &text, ok),
        // A power of ten and a value of 64 bits each.
        1.. if held == WIDE && !value.is_wide() => {
            let text = format!("multiply_wide({}, {power}ll)", value.value);
            statements.bind_as(held, to, &text, ok)
        }
        1.. => {
            let text = format!("multiply_checked({text}, (i64){power}ll, REFUSED)");
            statements.bind_refusing_as(held, to, &text, ok)
        }
        _ => {
            let text = format!("round_divide({text}, ({held}){power}ll)");
            statements.bind_as(held, to, &text, ok)
        }
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
