//! [`ExactLanes`]: sums of durations, intervals and decimals in 256 bits.
//!
//! A duration and a decimal have one lane. An interval has one for its months, its days and its smaller part, each of
//! which is summed by itself.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal256Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, PrimitiveArray,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalDayTime, IntervalDayTimeType, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, TimeUnit, i256,
};
use datafusion::common::{exec_datafusion_err, not_impl_err};
use datafusion::error::{DataFusionError, Result};

/// Most lanes of a type.
pub(super) const MAX_LANES: usize = 3;

/// Lane by lane, a number for each group.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ExactLanes {
    pub(super) lanes: Vec<Vec<i256>>,
}

/// Numbers of a lane, one for each row.
#[derive(Debug)]
pub(super) enum Numbers<'a> {
    Short(Cow<'a, [i128]>),
    /// Those of decimals of 256 bits.
    Long(&'a [i256]),
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

/// The lanes of an array's values; numbers of NULLs are any.
pub(super) fn lanes_of(array: &dyn Array) -> Result<Vec<Numbers<'_>>> {
    fn numbers<T: ArrowPrimitiveType>(array: &dyn Array, number: impl Fn(T::Native) -> i128) -> Numbers<'_> {
        let values = array.as_primitive::<T>().values().iter();
        Numbers::Short(values.map(|&value| number(value)).collect())
    }
    Ok(match array.data_type() {
        DataType::Duration(TimeUnit::Second) => vec![numbers::<DurationSecondType>(array, i128::from)],
        DataType::Duration(TimeUnit::Millisecond) => vec![numbers::<DurationMillisecondType>(array, i128::from)],
        DataType::Duration(TimeUnit::Microsecond) => vec![numbers::<DurationMicrosecondType>(array, i128::from)],
        DataType::Duration(TimeUnit::Nanosecond) => vec![numbers::<DurationNanosecondType>(array, i128::from)],
        DataType::Decimal128(..) => {
            let values: &[i128] = array.as_primitive::<Decimal128Type>().values();
            vec![Numbers::Short(values.into())]
        }
        DataType::Decimal256(..) => vec![Numbers::Long(array.as_primitive::<Decimal256Type>().values())],
        DataType::Interval(IntervalUnit::YearMonth) => vec![numbers::<IntervalYearMonthType>(array, i128::from)],
        DataType::Interval(IntervalUnit::DayTime) => {
            let lane = |part: fn(IntervalDayTime) -> i32| {
                numbers::<IntervalDayTimeType>(array, move |value| i128::from(part(value)))
            };
            vec![lane(|value| value.days), lane(|value| value.milliseconds)]
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let lane = |part: fn(IntervalMonthDayNano) -> i64| {
                numbers::<IntervalMonthDayNanoType>(array, move |value| i128::from(part(value)))
            };
            vec![
                lane(|value| i64::from(value.months)),
                lane(|value| i64::from(value.days)),
                lane(|value| value.nanoseconds),
            ]
        }
        other => return not_impl_err!("exact sums of {other}"),
    })
}

impl Numbers<'_> {
    pub(super) fn get(&self, row: usize) -> i256 {
        match self {
            Self::Short(numbers) => i256::from_i128(numbers[row]),
            Self::Long(numbers) => numbers[row],
        }
    }

    /// Adds the number of each of `rows` to the sum of its group. Returns false if a sum takes more than 256 bits.
    pub(super) fn add_to(&self, sums: &mut [i256], groups: &[usize], rows: &Rows) -> bool {
        match self {
            // No memory holds the 2^128 numbers that would pass 256 bits.
            Self::Short(numbers) => rows.for_each(|row| {
                let sum = &mut sums[groups[row]];
                *sum = sum.wrapping_add(i256::from_i128(numbers[row]));
            }),
            Self::Long(numbers) => {
                let mut fits = true;
                rows.for_each(|row| {
                    let (sum, number) = (&mut sums[groups[row]], numbers[row]);
                    let added = sum.wrapping_add(number);
                    fits &= number.is_negative() == (added < *sum) || number == i256::ZERO;
                    *sum = added;
                });
                return fits;
            }
        }
        true
    }
}

/// The rows of a batch that have a value and pass a filter.
#[derive(Debug)]
pub(super) struct Rows {
    len: usize,
    /// `None`: all.
    chosen: Option<BooleanBuffer>,
}

impl Rows {
    pub(super) fn of(array: &dyn Array, filter: Option<&BooleanArray>) -> Self {
        let valid = array
            .nulls()
            .filter(|nulls| nulls.null_count() > 0)
            .map(NullBuffer::inner);
        let passing = filter.map(|filter| match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        });
        let chosen = match (valid, passing) {
            (Some(valid), Some(passing)) => Some(valid & &passing),
            (Some(valid), None) => Some(valid.clone()),
            (None, passing) => passing,
        };
        Self {
            len: array.len(),
            chosen,
        }
    }

    pub(super) fn for_each(&self, visit: impl FnMut(usize)) {
        match &self.chosen {
            None => (0..self.len).for_each(visit),
            Some(chosen) => chosen.set_indices().for_each(visit),
        }
    }

    pub(super) fn count(&self) -> usize {
        let chosen = self.chosen.as_ref();
        chosen.map_or(self.len, BooleanBuffer::count_set_bits)
    }
}

impl ExactLanes {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes: vec![Vec::new(); lanes],
        }
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
