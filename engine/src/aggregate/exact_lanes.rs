//! [`ExactLanes`]: sums of durations, intervals and decimals in 256 bits.
//!
//! A duration and a decimal have one lane. An interval has one for its months, its days and its smaller part, each of
//! which is summed by itself.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, IntervalDayTimeArray, IntervalMonthDayNanoArray,
    IntervalYearMonthArray, PrimitiveArray,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit, i256,
};
use datafusion::common::{exec_datafusion_err, not_impl_err};
use datafusion::error::{DataFusionError, Result};

/// Most lanes of a type.
pub(super) const MAX_LANES: usize = 3;

/// Lane by lane, a number for each row or group.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ExactLanes {
    pub(super) lanes: Vec<Vec<i256>>,
}

/// Lanes of a type; `None`: the type is not summed here.
pub(super) fn lane_count(data_type: &DataType) -> Option<usize> {
    Some(match data_type {
        DataType::Duration(_) | DataType::Decimal128(..) | DataType::Decimal256(..) => 1,
        DataType::Interval(IntervalUnit::YearMonth) => 1,
        DataType::Interval(IntervalUnit::DayTime) => 2,
        DataType::Interval(IntervalUnit::MonthDayNano) => 3,
        _ => return None,
    })
}

impl ExactLanes {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: vec![Vec::new(); lanes],
        }
    }

    /// The values of an array; those of NULLs are any.
    pub(super) fn of(array: &dyn Array) -> Result<Self> {
        fn numbers<T: ArrowPrimitiveType>(array: &dyn Array, number: impl Fn(T::Native) -> i256) -> Vec<i256> {
            let values = array.as_primitive::<T>().values().iter();
            values.map(|&value| number(value)).collect()
        }
        let lanes = match array.data_type() {
            DataType::Duration(TimeUnit::Second) => vec![numbers::<DurationSecondType>(array, i256::from)],
            DataType::Duration(TimeUnit::Millisecond) => vec![numbers::<DurationMillisecondType>(array, i256::from)],
            DataType::Duration(TimeUnit::Microsecond) => vec![numbers::<DurationMicrosecondType>(array, i256::from)],
            DataType::Duration(TimeUnit::Nanosecond) => vec![numbers::<DurationNanosecondType>(array, i256::from)],
            DataType::Decimal128(..) => vec![numbers::<Decimal128Type>(array, i256::from_i128)],
            DataType::Decimal256(..) => vec![numbers::<Decimal256Type>(array, |value| value)],
            DataType::Interval(IntervalUnit::YearMonth) => vec![numbers::<IntervalYearMonthType>(array, i256::from)],
            DataType::Interval(IntervalUnit::DayTime) => {
                let lane = |part: fn(IntervalDayTime) -> i32| {
                    numbers::<IntervalDayTimeType>(array, |value| i256::from(part(value)))
                };
                vec![lane(|value| value.days), lane(|value| value.milliseconds)]
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let lane = |part: fn(IntervalMonthDayNano) -> i64| {
                    numbers::<IntervalMonthDayNanoType>(array, |value| i256::from(part(value)))
                };
                vec![
                    lane(|value| i64::from(value.months)),
                    lane(|value| i64::from(value.days)),
                    lane(|value| value.nanoseconds),
                ]
            }
            other => return not_impl_err!("exact sums of {other}"),
        };
        Ok(Self { lanes })
    }

    /// Lanes of one row.
    pub(super) fn of_row(row: &[i256]) -> Self {
        Self {
            lanes: row.iter().map(|&number| vec![number]).collect(),
        }
    }

    /// An array of the type.
    ///
    /// # Errors
    /// If a number does not fit the type.
    pub(super) fn into_array(self, data_type: &DataType, nulls: Option<NullBuffer>, sum: &str) -> Result<ArrayRef> {
        let is_valid = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let error = || beyond(data_type, sum);
        // The number of a lane in the bits of a native type.
        fn narrow<N: Default>(
            lane: &[i256],
            is_valid: impl Fn(usize) -> bool,
            native: impl Fn(i256) -> Option<N>,
            error: impl Fn() -> DataFusionError,
        ) -> Result<Vec<N>> {
            let rows = lane.iter().enumerate().map(|(row, &number)| match is_valid(row) {
                true => native(number).ok_or_else(&error),
                false => Ok(N::default()),
            });
            rows.collect()
        }
        let int = |lane: usize| {
            let native = |number: i256| i32::try_from(number.to_i128()?).ok();
            narrow(&self.lanes[lane], is_valid, native, error)
        };
        let long = |lane: usize| {
            let native = |number: i256| i64::try_from(number.to_i128()?).ok();
            narrow(&self.lanes[lane], is_valid, native, error)
        };
        fn durations<T: ArrowPrimitiveType<Native = i64>>(values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
            Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
        }
        Ok(match data_type {
            DataType::Duration(TimeUnit::Second) => durations::<DurationSecondType>(long(0)?, nulls),
            DataType::Duration(TimeUnit::Millisecond) => durations::<DurationMillisecondType>(long(0)?, nulls),
            DataType::Duration(TimeUnit::Microsecond) => durations::<DurationMicrosecondType>(long(0)?, nulls),
            DataType::Duration(TimeUnit::Nanosecond) => durations::<DurationNanosecondType>(long(0)?, nulls),
            DataType::Decimal128(precision, scale) => {
                let fits = |number: i256| number.to_i128().filter(|_| has_digits(number, *precision));
                let values = narrow(&self.lanes[0], is_valid, fits, error)?;
                let array = Decimal128Array::new(values.into(), nulls);
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            DataType::Decimal256(precision, scale) => {
                let fits = |number: i256| Some(number).filter(|_| has_digits(number, *precision));
                let values = narrow(&self.lanes[0], is_valid, fits, error)?;
                let array = Decimal256Array::new(values.into(), nulls);
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            DataType::Interval(IntervalUnit::YearMonth) => Arc::new(IntervalYearMonthArray::new(int(0)?.into(), nulls)),
            DataType::Interval(IntervalUnit::DayTime) => {
                let parts = int(0)?.into_iter().zip(int(1)?);
                let values: Vec<_> = parts.map(|(days, rest)| IntervalDayTime::new(days, rest)).collect();
                Arc::new(IntervalDayTimeArray::new(values.into(), nulls))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let parts = int(0)?.into_iter().zip(int(1)?).zip(long(2)?);
                let value = |((months, days), rest)| IntervalMonthDayNano::new(months, days, rest);
                let values: Vec<_> = parts.map(value).collect();
                Arc::new(IntervalMonthDayNanoArray::new(values.into(), nulls))
            }
            other => return not_impl_err!("exact sums of {other}"),
        })
    }
}

/// Whether a mantissa has at most `precision` digits.
fn has_digits(mantissa: i256, precision: u8) -> bool {
    let bound = i256::from(10).checked_pow(u32::from(precision));
    // 10^76 fits, and no DECIMAL has more digits.
    bound.is_none_or(|bound| mantissa < bound && mantissa > bound.wrapping_neg())
}

/// The error of a sum that its type cannot hold.
pub(super) fn beyond(data_type: &DataType, sum: &str) -> DataFusionError {
    let way_out = match data_type {
        DataType::Duration(TimeUnit::Nanosecond) => {
            ", which ends at 292 years; sum whole seconds: sum(arrow_cast(…, 'Duration(Second)'))"
        }
        DataType::Decimal128(..) => "; cast the values to DOUBLE, or to a DECIMAL with fewer digits behind the point",
        _ => "",
    };
    exec_datafusion_err!("overflow: {sum} does not fit {data_type}{way_out}")
}
