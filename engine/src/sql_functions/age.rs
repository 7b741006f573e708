//! `age(later, earlier)`: years, months, days and time between two times, as PostgreSQL counts them.

use std::sync::Arc;

use arrow::array::{ArrayRef, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::time_fields::{DAY_MICROS, TimeFields, local_time, micros};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Age {
    signature: Signature,
}

impl Default for Age {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Age {
    fn name(&self) -> &'static str {
        "age"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [later, earlier] => Ok(vec![local_time(later, "age")?, local_time(earlier, "age")?]),
            _ => plan_err!("age takes two times: age(later, earlier)"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let times = ColumnarValue::values_to_arrays(&args.args)?;
        let [later, earlier] = times.as_slice() else {
            return exec_err!("age takes two times");
        };
        let (later, earlier) = (micros(later)?, micros(earlier)?);
        let ages = (later.iter().zip(earlier.iter()))
            .map(|(later, earlier)| {
                later
                    .zip(earlier)
                    .map(|(later, earlier)| between(earlier, later))
                    .transpose()
            })
            .collect::<Result<IntervalMonthDayNanoArray>>()?;
        let ages: ArrayRef = Arc::new(ages);
        match is_scalar {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&ages, 0)?)),
            false => Ok(ColumnarValue::Array(ages)),
        }
    }
}

/// The interval between two times in microseconds.
fn between(from: i64, to: i64) -> Result<IntervalMonthDayNano> {
    let sign = if from <= to { 1 } else { -1 };
    let (early, late) = (TimeFields::of(from.min(to))?, TimeFields::of(from.max(to))?);
    let months = |time: TimeFields| time.year * 12 + i64::from(time.month);
    let mut months = months(late) - months(early);
    let mut days = i64::from(late.day) - i64::from(early.day);
    let mut micros = late.micros - early.micros;
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    // Days are borrowed from the month in which the earlier time lies.
    if days < 0 {
        days += early.days_of_month();
        months -= 1;
    }
    let months = i32::try_from(sign * months).map_err(|_| exec_datafusion_err!("an age of {months} months"))?;
    // Less than a month of days, and less than a day of nanoseconds.
    Ok(IntervalMonthDayNano::new(
        months,
        (sign * days) as i32,
        sign * micros * 1_000,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days since 1970, and ages from PostgreSQL's documentation and DuckDB 2.0.0.
    #[test]
    fn ages_are_those_of_postgresql() {
        for (later, earlier, expected) in [
            (11_422, -4_585, (43 * 12 + 9, 27)), // 2001-04-10, 1957-06-13
            (18_352, 18_321, (1, 2)),            // 2020-03-31, 2020-02-29
            (18_321, 18_352, (-1, -2)),
            (18_322, 18_292, (1, 1)), // 2020-03-01, 2020-01-31
            (0, 0, (0, 0)),
        ] {
            let found = between(earlier * DAY_MICROS, later * DAY_MICROS).unwrap();
            assert_eq!(
                (found.months, found.days, found.nanoseconds),
                (expected.0, expected.1, 0),
                "{later} {earlier}"
            );
        }
        let found = between(1, DAY_MICROS).unwrap();
        assert_eq!(
            (found.months, found.days, found.nanoseconds),
            (0, 0, 86_399_999_999_000)
        );
    }
}
