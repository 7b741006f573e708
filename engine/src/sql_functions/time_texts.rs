//! `strftime(time, format)` and `strptime(text, format)`: times as texts, by the letters of C's functions.
//!
//! `%f` is a fraction of 6 digits, `%g` of 3 and `%n` of 9. `%x`, `%X` and `%c` are ISO 8601's date, time and both.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::temporal_conversions::timestamp_us_to_datetime;
use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{NaiveDate, NaiveTime};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

use super::time_fields::{local_time, micros};

/// A function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeText {
    kind: Kind,
    signature: Signature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Write,
    Read,
    /// NULL for texts of another format.
    TryRead,
}

/// The functions.
pub(super) fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Write, Kind::Read, Kind::TryRead].into_iter().map(|kind| {
        ScalarUDF::new_from_impl(TimeText {
            kind,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

impl ScalarUDFImpl for TimeText {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Write => "strftime",
            Kind::Read => "strptime",
            Kind::TryRead => "try_strptime",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        match types {
            [time, format] if is_text(format) => Ok(match self.kind {
                Kind::Write => vec![local_time(time, self.name())?, DataType::Utf8],
                _ if is_text(time) => vec![DataType::Utf8; 2],
                _ => return plan_err!("{} takes a text, not {time}", self.name()),
            }),
            _ => plan_err!(
                "{} takes two arguments; the second is a format, such as '%Y-%m-%d'",
                self.name()
            ),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Write => DataType::Utf8,
            _ => DataType::Timestamp(TimeUnit::Microsecond, None),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let call = |arguments: &[ArrayRef]| match self.kind {
            Kind::Write => written(arguments),
            kind => read(arguments, kind == Kind::TryRead),
        };
        make_scalar_function(call, Vec::new())(&args.args)
    }
}

/// A format in the letters of chrono.
fn in_chrono(format: &str, is_read: bool) -> Result<String> {
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('f') if !is_read => out.push_str("%6f"),
            // A fraction to read has any number of digits, and its point before it.
            Some('f' | 'g' | 'n') if is_read && out.ends_with('.') => {
                out.pop();
                out.push_str("%.f");
            }
            Some('g') if !is_read => out.push_str("%3f"),
            Some('n') if !is_read => out.push_str("%9f"),
            Some('x') => out.push_str("%Y-%m-%d"),
            Some('X') => out.push_str("%H:%M:%S"),
            Some('c') => out.push_str("%Y-%m-%d %H:%M:%S"),
            Some(letter @ ('z' | 'Z' | 'f' | 'g' | 'n')) => {
                return exec_err!("the format {format}: %{letter} is not supported here");
            }
            Some(letter) => {
                out.push('%');
                out.push(letter);
            }
            None => return exec_err!("the format {format} ends with %"),
        }
    }
    Ok(out)
}

fn items(format: &str) -> Result<Vec<Item<'_>>> {
    let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
    match items.contains(&Item::Error) {
        true => exec_err!("the format {format} has a letter that no time has"),
        false => Ok(items),
    }
}

/// Calls a function with a value and a format of each row, and gives it the last row's format again.
fn for_rows<T>(
    rows: usize,
    formats: &StringArray,
    is_read: bool,
    mut call: impl FnMut(usize, &[Item<'_>]) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let mut found = Vec::with_capacity(rows);
    let mut row = 0;
    while row < rows {
        if formats.is_null(row) {
            found.push(None);
            row += 1;
            continue;
        }
        let format = formats.value(row);
        let translated = in_chrono(format, is_read)?;
        let items = items(&translated)?;
        while row < rows && formats.is_valid(row) && formats.value(row) == format {
            found.push(call(row, &items)?);
            row += 1;
        }
    }
    Ok(found)
}

fn written(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [times, formats] = arguments else {
        return exec_err!("strftime takes a time and a format");
    };
    let times = micros(times)?;
    let texts = for_rows(times.len(), formats.as_string::<i32>(), false, |row, items| {
        if times.is_null(row) {
            return Ok(None);
        }
        let time = timestamp_us_to_datetime(times.value(row))
            .ok_or_else(|| exec_datafusion_err!("strftime: a time is outside the calendar"))?;
        let mut text = String::new();
        match write!(text, "{}", time.format_with_items(items.iter())) {
            Ok(()) => Ok(Some(text)),
            Err(_) => exec_err!("strftime: the format has a letter that timestamps do not have"),
        }
    })?;
    Ok(Arc::new(StringArray::from(texts)))
}

fn read(arguments: &[ArrayRef], is_try: bool) -> Result<ArrayRef> {
    let [texts, formats] = arguments else {
        return exec_err!("strptime takes a text and a format");
    };
    let texts = texts.as_string::<i32>();
    let formats = formats.as_string::<i32>();
    let times = for_rows(texts.len(), formats, true, |row, items| {
        if texts.is_null(row) {
            return Ok(None);
        }
        match time(texts.value(row), items) {
            Some(micros) => Ok(Some(micros)),
            None if is_try => Ok(None),
            None => {
                let (text, format) = (texts.value(row), formats.value(row));
                exec_err!("strptime: {text:?} has not the format {format:?}; try_strptime gives NULL")
            }
        }
    })?;
    Ok(Arc::new(TimestampMicrosecondArray::from(times)))
}

/// A text as microseconds since 1970. A text without date is of 1900-01-01, without time of midnight.
fn time(text: &str, items: &[Item<'_>]) -> Option<i64> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    let has_year = parsed.year().is_some() || parsed.year_mod_100().is_some() || parsed.timestamp().is_some();
    let has_date = has_year || parsed.month().is_some() || parsed.day().is_some() || parsed.ordinal().is_some();
    if has_date && !has_year {
        parsed.set_year(1900).ok()?;
    }
    if has_date && parsed.ordinal().is_none() && parsed.timestamp().is_none() {
        // What the text leaves out is the first one.
        if parsed.month().is_none() {
            parsed.set_month(1).ok()?;
        }
        if parsed.day().is_none() {
            parsed.set_day(1).ok()?;
        }
    }
    let date = match has_date {
        true => parsed.to_naive_date().ok()?,
        false => NaiveDate::from_ymd_opt(1900, 1, 1)?,
    };
    let has_hour = parsed.hour_div_12().is_some() || parsed.hour_mod_12().is_some();
    let has_less = parsed.minute().is_some() || parsed.second().is_some() || parsed.nanosecond().is_some();
    let time = match (has_hour, has_less) {
        (false, false) => NaiveTime::MIN,
        (_, _) => {
            if !has_hour {
                parsed.set_hour(0).ok()?;
            }
            if parsed.minute().is_none() {
                parsed.set_minute(0).ok()?;
            }
            parsed.to_naive_time().ok()?
        }
    };
    Some(date.and_time(time).and_utc().timestamp_micros())
}
