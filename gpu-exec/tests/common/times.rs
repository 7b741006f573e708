//! Dates and times for the interpreter. They are chrono's.

use chrono::{DateTime, Datelike, Duration, NaiveDate, NaiveDateTime, Timelike};
use grampus_gpu_exec::program::{DatePart, TimeUnit, Type};

use super::interpreter::Scalar::{self, Int};
use super::interpreter::{Answer, Refused, fits, wrap};

pub(super) fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

pub(super) fn date_of(date: NaiveDate) -> i32 {
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    i32::try_from(days).expect("a date of the calendar")
}

/// A date or time of chrono's calendar.
pub(super) fn moment(ty: Type, v: i64) -> Answer<NaiveDateTime> {
    let (seconds, nanos) = match ty {
        Type::Timestamp(unit) => {
            let scale = per_second(unit);
            let (second, rest) = (i128::from(v).div_euclid(scale), i128::from(v).rem_euclid(scale));
            (second, rest * (1_000_000_000 / scale))
        }
        _ => (i128::from(v) * 86_400, 0),
    };
    let seconds = i64::try_from(seconds).map_err(|_| Refused)?;
    DateTime::from_timestamp(seconds, nanos as u32)
        .map(|t| t.naive_utc())
        .ok_or(Refused)
}

pub(super) fn extract(part: DatePart, ty: Type, v: i64) -> Answer<Scalar> {
    let of_time = matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second);
    if ty == Type::Date32 && of_time {
        return Ok(Int(0));
    }
    let t = moment(ty, v)?;
    Ok(Int(i64::from(match part {
        DatePart::Year => t.year(),
        DatePart::Quarter => t.quarter() as i32,
        DatePart::Month => t.month() as i32,
        DatePart::Week => t.iso_week().week() as i32,
        DatePart::Day => t.day() as i32,
        DatePart::DayOfWeek => t.weekday().num_days_from_sunday() as i32,
        DatePart::DayOfYear => t.ordinal() as i32,
        DatePart::Hour => t.hour() as i32,
        DatePart::Minute => t.minute() as i32,
        DatePart::Second => t.second() as i32,
    })))
}

pub(super) fn truncate(part: DatePart, ty: Type, v: i64) -> Answer<Scalar> {
    let Type::Timestamp(unit) = ty else {
        unreachable!("a timestamp")
    };
    let scale = per_second(unit);
    let length = match part {
        DatePart::Second => scale,
        DatePart::Minute => 60 * scale,
        DatePart::Hour => 3_600 * scale,
        DatePart::Day => 86_400 * scale,
        _ => {
            let ns = |v: i128| fits(ty, v * (1_000_000_000 / scale));
            ns(i128::from(v))?;
            let day = moment(ty, v)?.date();
            let first = match part {
                DatePart::Week => day - Duration::days(i64::from(day.weekday().num_days_from_monday())),
                DatePart::Month => day.with_day(1).expect("a day"),
                DatePart::Quarter => NaiveDate::from_ymd_opt(day.year(), day.month0() / 3 * 3 + 1, 1).expect("a day"),
                _ => NaiveDate::from_ymd_opt(day.year(), 1, 1).expect("a day"),
            };
            let time = i128::from(date_of(first)) * 86_400 * scale;
            ns(time)?;
            return Ok(Int(time as i64));
        }
    };
    let v = i128::from(v);
    Ok(wrap(ty, v - v.rem_euclid(length)))
}
