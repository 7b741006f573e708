//! `time_bucket(width, time, origin)`: the start of the bucket of a time. Buckets begin at the origin: Monday,
//! 2000-01-03, and 2000-01-01 for buckets of months.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use chrono::{Datelike, NaiveDate};
use datafusion::common::{exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::time_fields::{DAY_MICROS, TimeFields, local_time, micros};

/// 2000-01-03, in microseconds since 1970.
const MONDAY: i64 = 10_959 * DAY_MICROS;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimeBucket {
    signature: Signature,
}

impl Default for TimeBucket {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for TimeBucket {
    fn name(&self) -> &'static str {
        "time_bucket"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (width, times) = match types {
            [width, times] => (width, times),
            [width, times, _] => (width, times),
            _ => return plan_err!("time_bucket takes a width and a time, and perhaps an origin"),
        };
        if !matches!(
            width,
            DataType::Interval(_) | DataType::Null | DataType::Utf8 | DataType::Utf8View
        ) {
            return plan_err!("time_bucket takes an interval first, not {width}");
        }
        let time = match times {
            DataType::Date32 => DataType::Date32,
            other => local_time(other, "time_bucket")?,
        };
        let mut coerced = vec![DataType::Interval(IntervalUnit::MonthDayNano)];
        coerced.resize(types.len(), time);
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [_, time, ..] => Ok(time.clone()),
            _ => plan_err!("time_bucket takes a width and a time"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(buckets, Vec::new())(&args.args)
    }
}

fn buckets(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let [widths, times, origins @ ..] = arguments else {
        return exec_err!("time_bucket takes a width and a time");
    };
    let widths = widths.as_primitive::<IntervalMonthDayNanoType>();
    let values = in_micros(times)?;
    let origins = origins.first().map(in_micros).transpose()?;
    let starts = (0..times.len()).map(|row| {
        let is_null = |column: &Int64Array| column.is_null(row);
        if widths.is_null(row) || is_null(&values) || origins.as_ref().is_some_and(is_null) {
            return Ok(None);
        }
        let origin = origins.as_ref().map(|origins| origins.value(row));
        let width = widths.value(row);
        start(width.months, width.days, width.nanoseconds, values.value(row), origin).map(Some)
    });
    let starts = starts.collect::<Result<Int64Array>>()?;
    let starts = cast(&starts, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    Ok(cast(&starts, times.data_type())?)
}

fn in_micros(times: &ArrayRef) -> Result<Int64Array> {
    match times.data_type() {
        DataType::Date32 => micros(&cast(times, &DataType::Timestamp(TimeUnit::Second, None))?),
        _ => micros(times),
    }
}

/// The start of the bucket of a time, in microseconds since 1970.
fn start(months: i32, days: i32, nanos: i64, time: i64, origin: Option<i64>) -> Result<i64> {
    let too_far = || exec_datafusion_err!("time_bucket: the time is outside the calendar");
    if months == 0 {
        let width = i128::from(days) * i128::from(DAY_MICROS) + i128::from(nanos / 1_000);
        if width <= 0 || nanos % 1_000 != 0 {
            return exec_err!("time_bucket: the width is to be whole microseconds, and more than none");
        }
        let origin = i128::from(origin.unwrap_or(MONDAY));
        let start = origin + (i128::from(time) - origin).div_euclid(width) * width;
        return i64::try_from(start).map_err(|_| too_far());
    }
    if days != 0 || nanos != 0 || months < 0 {
        return exec_err!("time_bucket: the width is to be months, or days and times of day");
    }
    let months = i64::from(months);
    let first = match origin {
        Some(origin) => {
            let fields = TimeFields::of(origin)?;
            if fields.day != 1 || fields.micros != 0 {
                return exec_err!("time_bucket: the origin of buckets of months is to be the first day of one");
            }
            fields.year * 12 + i64::from(fields.month) - 1
        }
        None => 2000 * 12,
    };
    let fields = TimeFields::of(time)?;
    let month = fields.year * 12 + i64::from(fields.month) - 1;
    let start = first + (month - first).div_euclid(months) * months;
    let year = i32::try_from(start.div_euclid(12)).map_err(|_| too_far())?;
    let date = NaiveDate::from_ymd_opt(year, start.rem_euclid(12) as u32 + 1, 1).ok_or_else(too_far)?;
    let days = i64::from(date.num_days_from_ce() - 719_163); // days before 1970
    days.checked_mul(DAY_MICROS).ok_or_else(too_far)
}
