//! `date_diff(part, from, to)`: how many boundaries of years, months, days … lie between two times.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

use super::time_fields::{DAY_MICROS, TimeFields, local_time, micros};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct DateDiff {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for DateDiff {
    fn default() -> Self {
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: vec!["datediff".to_owned()],
        }
    }
}

impl ScalarUDFImpl for DateDiff {
    fn name(&self) -> &'static str {
        "date_diff"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, from, to] = types else {
            return plan_err!("date_diff takes a part and two times: date_diff('day', from, to)");
        };
        let times = [local_time(from, "date_diff")?, local_time(to, "date_diff")?];
        Ok([DataType::Utf8].into_iter().chain(times).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(ScalarValue::Utf8(Some(part))), from, to] = args.args.as_slice() else {
            return exec_err!("the part of date_diff is a text that is the same for all rows, such as 'day'");
        };
        let Some(unit) = Unit::named(part) else {
            return exec_err!(
                "date_diff knows no part named {part:?}; it knows microsecond, millisecond, second, \
                minute, hour, day, week, month, quarter, year, decade, century and millennium"
            );
        };
        let times = ColumnarValue::values_to_arrays(&[from.clone(), to.clone()])?;
        let (starts, ends) = (micros(&times[0])?, micros(&times[1])?);
        let counts = (starts.iter().zip(ends.iter()))
            .map(|(from, to)| match (from, to) {
                (Some(from), Some(to)) => Ok(Some(unit.number(to)? - unit.number(from)?)),
                _ => Ok(None),
            })
            .collect::<Result<Int64Array>>()?;
        let counts: ArrayRef = Arc::new(counts);
        match (from, to) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&counts, 0)?))
            }
            _ => Ok(ColumnarValue::Array(counts)),
        }
    }
}

/// What boundaries lie between.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// Of so many microseconds.
    Micros(i64),
    /// From Monday on.
    Week,
    Months(i64),
    /// Centuries begin with the years 1900, 2000 …, as DuckDB counts them.
    Years(i64),
}

impl Unit {
    fn named(part: &str) -> Option<Self> {
        let name = part.to_ascii_lowercase();
        Some(match name.as_str() {
            "us" | "microsecond" | "microseconds" => Self::Micros(1),
            "ms" | "millisecond" | "milliseconds" => Self::Micros(1_000),
            "s" | "sec" | "second" | "seconds" => Self::Micros(1_000_000),
            "m" | "min" | "minute" | "minutes" => Self::Micros(60_000_000),
            "h" | "hr" | "hour" | "hours" => Self::Micros(3_600_000_000),
            "d" | "day" | "days" | "dayofmonth" => Self::Micros(DAY_MICROS),
            "w" | "week" | "weeks" | "weekofyear" => Self::Week,
            "mon" | "mons" | "month" | "months" => Self::Months(1),
            "quarter" | "quarters" => Self::Months(3),
            "y" | "yr" | "year" | "years" => Self::Years(1),
            "decade" | "decades" => Self::Years(10),
            "century" | "centuries" => Self::Years(100),
            "millennium" | "millennia" => Self::Years(1_000),
            _ => return None,
        })
    }

    /// The number of the unit in which a time lies.
    fn number(self, micros: i64) -> Result<i64> {
        Ok(match self {
            Self::Micros(length) => micros.div_euclid(length),
            // 1970 began on a Thursday.
            Self::Week => (micros.div_euclid(DAY_MICROS) + 3).div_euclid(7),
            Self::Months(count) => {
                let time = TimeFields::of(micros)?;
                (time.year * 12 + i64::from(time.month) - 1).div_euclid(count)
            }
            Self::Years(count) => TimeFields::of(micros)?.year.div_euclid(count),
        })
    }
}
