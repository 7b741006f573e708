//! [`TimeFields`]: a time as fields of the calendar, from microseconds since 1970.

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, TimeUnit};
use arrow::temporal_conversions::timestamp_us_to_datetime;
use chrono::{Datelike, NaiveDate};
use datafusion::common::{exec_datafusion_err, plan_err};
use datafusion::error::Result;

pub(super) const DAY_MICROS: i64 = 86_400_000_000;

/// A date, and the microseconds of its day.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeFields {
    pub(super) year: i64,
    /// 1 to 12.
    pub(super) month: u32,
    /// 1 to 31.
    pub(super) day: u32,
    pub(super) micros: i64,
}

impl TimeFields {
    /// # Errors
    /// If the calendar does not reach that far: 262,000 years.
    pub(super) fn of(micros: i64) -> Result<Self> {
        let time = timestamp_us_to_datetime(micros)
            .ok_or_else(|| exec_datafusion_err!("{micros} microseconds since 1970 are outside the calendar"))?;
        Ok(Self {
            year: time.year().into(),
            month: time.month(),
            day: time.day(),
            micros: micros.rem_euclid(DAY_MICROS),
        })
    }

    pub(super) fn days_of_month(self) -> i64 {
        let year = self.year as i32; // `of` took it from chrono's
        let next = match self.month {
            12 => NaiveDate::from_ymd_opt(year + 1, 1, 1),
            month => NaiveDate::from_ymd_opt(year, month + 1, 1),
        };
        next.and_then(|next| next.pred_opt())
            .map_or(31, |last| last.day().into())
    }
}

/// The type as which dates and times are passed to functions: their own unit, in the time of their zone.
pub(super) fn local_time(data_type: &DataType, function: &str) -> Result<DataType> {
    match data_type {
        DataType::Timestamp(unit, _) => Ok(DataType::Timestamp(*unit, None)),
        DataType::Date32 | DataType::Date64 => Ok(DataType::Timestamp(TimeUnit::Second, None)),
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Ok(DataType::Timestamp(TimeUnit::Microsecond, None))
        }
        other => plan_err!("{function} takes dates and timestamps, not {other}"),
    }
}

/// Timestamps without a zone in microseconds, rounded down.
pub(super) fn micros(times: &ArrayRef) -> Result<Int64Array> {
    let values = cast(times, &DataType::Int64)?;
    let values = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(&values);
    let DataType::Timestamp(unit, _) = times.data_type() else {
        return plan_err!("{} are no timestamps", times.data_type());
    };
    let factor = match unit {
        TimeUnit::Second => 1_000_000,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1,
        TimeUnit::Nanosecond => return Ok(values.unary(|value| value.div_euclid(1_000))),
    };
    Ok(values.try_unary(|value| {
        let too_far =
            || arrow::error::ArrowError::ComputeError(format!("{value} is too far from 1970 for microseconds"));
        value.checked_mul(factor).ok_or_else(too_far)
    })?)
}
