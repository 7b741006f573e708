//! `CalendarPart`: parts of dates and times as DataFusion's `date_part` gives them, and the beginnings of their months,
//! quarters and years as `date_trunc` does, without a calendar for each row.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, Int32Array, PrimitiveArray, RecordBatch};
use arrow::datatypes::{
    DataType, Date32Type, FieldRef, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;

const SECONDS_PER_DAY: i64 = 86_400;
/// Days from 1970-01-01 to the first and the last date that is computed here. DataFusion computes others, and knows
/// which have no calendar date.
const DAYS: std::ops::Range<i64> = -10_000_000..10_000_000;

/// Days whose parts are in tables, from 1900-01-01 to 2099-12-31: a look-up takes half of a calendar's time.
const TABLE_DAYS: std::ops::Range<i64> = -25_567..47_482;
/// Rows of a batch for which a table of 73,049 days is made.
const MIN_TABLE_ROWS: usize = 4096;

/// A part of a date or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Part {
    Year,
    Quarter,
    Month,
    Day,
    /// Sunday is 0.
    DayOfWeek,
    Hour,
}

impl Part {
    /// The part of a name as DataFusion knows it.
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "day" => Self::Day,
            "dow" => Self::DayOfWeek,
            "hour" => Self::Hour,
            _ => return None,
        })
    }

    /// The part of each of [`TABLE_DAYS`], less a base. `None`: it depends on the second.
    fn table(self) -> Option<(i32, &'static [u8])> {
        static TABLES: [OnceLock<Vec<u8>>; Part::Hour as usize] = [const { OnceLock::new() }; Part::Hour as usize];
        let base = if self == Self::Year { 1900 } else { 0 };
        let table = TABLES.get(self as usize)?;
        Some((
            base,
            table.get_or_init(|| TABLE_DAYS.map(|day| (self.at(day, 0) - base) as u8).collect()),
        ))
    }

    /// The part at a second of a day since 1970-01-01.
    #[inline]
    fn at(self, day: i64, second: i64) -> i32 {
        match self {
            Self::Hour => (second / 3600) as i32,
            Self::DayOfWeek => (day + 4).rem_euclid(7) as i32,
            Self::Year | Self::Quarter | Self::Month | Self::Day => {
                let (year, month, day) = civil(day);
                match self {
                    Self::Year => year,
                    Self::Quarter => (month as i32 + 2) / 3,
                    Self::Month => month as i32,
                    _ => day as i32,
                }
            }
        }
    }
}

/// A period of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Period {
    Month,
    Quarter,
    Year,
}

impl Period {
    /// The period of a name as DataFusion knows it. It has fast ways for shorter periods.
    fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "month" => Self::Month,
            "quarter" => Self::Quarter,
            "year" => Self::Year,
            _ => return None,
        })
    }

    /// For each of [`TABLE_DAYS`], the first day of its period. The table begins with a year.
    fn first_days(self) -> &'static [i32] {
        static TABLES: [OnceLock<Vec<i32>>; 3] = [const { OnceLock::new() }; 3];
        TABLES[self as usize].get_or_init(|| {
            let mut first = TABLE_DAYS.start as i32;
            let first_day = |day: i64| {
                let (_, month, of_month) = civil(day);
                let begins = match self {
                    Self::Month => true,
                    Self::Quarter => month % 3 == 1,
                    Self::Year => month == 1,
                };
                if begins && of_month == 1 {
                    first = day as i32;
                }
                first
            };
            TABLE_DAYS.map(first_day).collect()
        })
    }
}

/// What a call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Computed {
    /// `date_part`.
    Part(Part),
    /// `date_trunc`.
    Beginning(Period),
}

/// Year, month and day of the month in the proleptic Gregorian calendar, of a day in [`DAYS`] since 1970-01-01.
///
/// C. Neri, L. Schneider, "Euclidean affine functions and their application to calendar algorithms" (2023), proposition
/// 6.3: years begin in March, and divisions are multiplications of 32 bits.
#[inline]
fn civil(day: i64) -> (i32, u32, u32) {
    // Eras of 400 years that make all days positive, and days from 0000-03-01 to 1970-01-01.
    const ERAS: u32 = 82;
    const SHIFT: u32 = 719_468 + 146_097 * ERAS;
    let day = (day as u32).wrapping_add(SHIFT);
    let quarters = day.wrapping_mul(4).wrapping_add(3); // it overflows outside `DAYS` alone
    let (century, of_century) = (quarters / 146_097, quarters % 146_097 / 4);
    let product = 2_939_745 * u64::from(4 * of_century + 3);
    let (year_of_century, of_year) = ((product >> 32) as u32, product as u32 / 2_939_745 / 4);
    let months = 2141 * of_year + 197_913;
    let (month, day) = (months >> 16, (months & 0xffff) / 2141);
    let is_next_year = u32::from(of_year >= 306);
    let year = (100 * century + year_of_century + is_next_year) as i32 - 400 * ERAS as i32;
    (year, month - 12 * is_next_year, day + 1)
}

/// A call of `date_part` or `date_trunc`.
#[derive(Debug, Clone, Eq)]
pub(super) struct CalendarPart {
    computed: Computed,
    call: Arc<dyn PhysicalExpr>,
}

// Derived, it would move the call.
impl PartialEq for CalendarPart {
    fn eq(&self, other: &Self) -> bool {
        self.computed == other.computed && self.call.eq(&other.call)
    }
}

impl Hash for CalendarPart {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.computed.hash(state);
        self.call.hash(state);
    }
}

impl CalendarPart {
    /// The expression that computes the same as `call`. `None`: DataFusion computes the call's part or type, or `call`
    /// is of another function.
    pub(super) fn in_place_of(call: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        let Some(function) = call.downcast_ref::<ScalarFunctionExpr>() else {
            return Ok(None);
        };
        let [name, value] = function.args() else {
            return Ok(None);
        };
        let name = name
            .downcast_ref::<Literal>()
            .and_then(|name| name.value().try_as_str().flatten());
        // Times of zones need their rules.
        let computed = match (function.name(), name, value.data_type(schema)?) {
            ("date_part", Some(name), DataType::Date32 | DataType::Timestamp(_, None)) => {
                Part::of(name).map(Computed::Part)
            }
            ("date_trunc", Some(name), DataType::Timestamp(_, None)) => Period::of(name).map(Computed::Beginning),
            _ => None,
        };
        Ok(computed.map(|computed| Self {
            computed,
            call: Arc::clone(call),
        }))
    }

    fn value(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        self.call.children().last().copied()
    }

    /// The parts or beginnings of all rows. `None`: a row's date is not computed here.
    fn of_array(&self, values: &ArrayRef) -> Option<ArrayRef> {
        match values.data_type() {
            DataType::Date32 => self.of::<Date32Type>(values, |day| (i64::from(day), 0)),
            DataType::Timestamp(TimeUnit::Second, None) => self.of_times::<TimestampSecondType, 1>(values),
            DataType::Timestamp(TimeUnit::Millisecond, None) => {
                self.of_times::<TimestampMillisecondType, 1_000>(values)
            }
            DataType::Timestamp(TimeUnit::Microsecond, None) => {
                self.of_times::<TimestampMicrosecondType, 1_000_000>(values)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                self.of_times::<TimestampNanosecondType, 1_000_000_000>(values)
            }
            _ => None,
        }
    }

    /// The same for times in units of which a second has `PER_SECOND`.
    fn of_times<T: ArrowPrimitiveType<Native = i64>, const PER_SECOND: i64>(
        &self,
        values: &ArrayRef,
    ) -> Option<ArrayRef> {
        match self.computed {
            Computed::Part(_) => self.of::<T>(values, split::<PER_SECOND>),
            Computed::Beginning(period) => {
                let beginnings = beginnings::<T, PER_SECOND>(period, values.as_primitive())?;
                Some(Arc::new(beginnings))
            }
        }
    }

    /// The parts. `split` gives day and second.
    fn of<T: ArrowPrimitiveType>(
        &self,
        values: &ArrayRef,
        split: impl Fn(T::Native) -> (i64, i64),
    ) -> Option<ArrayRef> {
        let Computed::Part(part) = self.computed else {
            return None;
        };
        let values: &PrimitiveArray<T> = values.as_primitive();
        let is_computed = Cell::new(true);
        // One loop for each part: the compiler leaves out what the part does not need.
        let each = |part: Part| {
            values.unary(|value| {
                let (day, second) = split(value);
                is_computed.set(is_computed.get() & DAYS.contains(&day));
                part.at(day, second)
            })
        };
        let table = part.table().filter(|_| values.len() >= MIN_TABLE_ROWS);
        let parts: Int32Array = match (table, part) {
            (Some((base, table)), part) => values.unary(|value| {
                let (day, second) = split(value);
                let place = usize::try_from(day - TABLE_DAYS.start).ok();
                match place.and_then(|place| table.get(place)) {
                    Some(above) => base + i32::from(*above),
                    None => {
                        is_computed.set(is_computed.get() & DAYS.contains(&day));
                        part.at(day, second)
                    }
                }
            }),
            (None, Part::Year) => each(Part::Year),
            (None, Part::Quarter) => each(Part::Quarter),
            (None, Part::Month) => each(Part::Month),
            (None, Part::Day) => each(Part::Day),
            (None, Part::DayOfWeek) => each(Part::DayOfWeek),
            (None, Part::Hour) => each(Part::Hour),
        };
        is_computed.get().then(|| Arc::new(parts) as ArrayRef)
    }
}

/// The first times of the periods of all rows. `None`: a row's day is in no table, or the rows are too few for one.
fn beginnings<T: ArrowPrimitiveType<Native = i64>, const PER_SECOND: i64>(
    period: Period,
    times: &PrimitiveArray<T>,
) -> Option<PrimitiveArray<T>> {
    if times.len() < MIN_TABLE_ROWS {
        return None;
    }
    let (table, is_computed) = (period.first_days(), Cell::new(true));
    let beginnings = times.unary(|time| {
        let (day, _) = split::<PER_SECOND>(time);
        let place = usize::try_from(day - TABLE_DAYS.start).ok();
        let first = place.and_then(|place| table.get(place));
        is_computed.set(is_computed.get() & first.is_some());
        first.map_or(0, |first| i64::from(*first) * SECONDS_PER_DAY * PER_SECOND)
    });
    is_computed.get().then_some(beginnings)
}

/// Day and second of the day of a time in units of which a second has `PER_SECOND`.
#[inline]
fn split<const PER_SECOND: i64>(time: i64) -> (i64, i64) {
    let per_day = SECONDS_PER_DAY * PER_SECOND;
    (time.div_euclid(per_day), time.rem_euclid(per_day) / PER_SECOND)
}

impl fmt::Display for CalendarPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt(f)
    }
}

impl PhysicalExpr for CalendarPart {
    fn return_field(&self, input_schema: &Schema) -> Result<FieldRef> {
        self.call.return_field(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let Some(value) = self.value() else {
            return internal_err!("{self} has no argument");
        };
        if let ColumnarValue::Array(values) = value.evaluate(batch)?
            && let Some(parts) = self.of_array(&values)
        {
            return Ok(ColumnarValue::Array(parts));
        }
        self.call.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.call]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match <[_; 1]>::try_from(children) {
            Ok([call]) => Ok(Arc::new(Self {
                computed: self.computed,
                call,
            })),
            Err(children) => internal_err!("{self} is one call, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.call.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, TimestampMicrosecondArray, TimestampNanosecondArray, TimestampSecondArray};
    use arrow::compute::{DatePart, date_part};
    use arrow::datatypes::Field;
    use datafusion::logical_expr::ScalarFunctionArgs;

    use super::*;

    const PARTS: [(&str, DatePart); 6] = [
        ("year", DatePart::Year),
        ("quarter", DatePart::Quarter),
        ("MONTH", DatePart::Month),
        ("day", DatePart::Day),
        ("dow", DatePart::DayOfWeekSunday0),
        ("hour", DatePart::Hour),
    ];

    fn parts(name: &str, values: &ArrayRef) -> Option<Int32Array> {
        let part = CalendarPart {
            computed: Computed::Part(Part::of(name).unwrap()),
            call: Arc::new(Literal::new(0.into())),
        };
        Some(part.of_array(values)?.as_primitive().clone())
    }

    /// DataFusion's `date_trunc`.
    fn truncated(name: &str, values: &ArrayRef) -> ArrayRef {
        let field = |name: &str, data_type: &DataType| Arc::new(Field::new(name, data_type.clone(), true));
        let args = ScalarFunctionArgs {
            args: vec![
                ColumnarValue::Scalar(name.into()),
                ColumnarValue::Array(Arc::clone(values)),
            ],
            arg_fields: vec![field("name", &DataType::Utf8), field("value", values.data_type())],
            number_rows: values.len(),
            return_field: field("result", values.data_type()),
            config_options: Arc::default(),
        };
        let function = datafusion::functions::datetime::date_trunc();
        function.invoke_with_args(args).unwrap().to_array(values.len()).unwrap()
    }

    #[test]
    fn beginnings_are_those_of_datafusion() {
        // Every day of the table, at some second, and a NULL.
        let second = |day: i64| day * SECONDS_PER_DAY + day.rem_euclid(SECONDS_PER_DAY);
        let seconds: Vec<Option<i64>> = TABLE_DAYS.map(|day| Some(second(day))).chain([None]).collect();
        let scaled = |by: i64, less: i64| -> Vec<Option<i64>> {
            let value = |second: &Option<i64>| second.map(|second| second * by + less);
            seconds.iter().map(value).collect()
        };
        let arrays: [ArrayRef; 3] = [
            Arc::new(TimestampSecondArray::from(seconds.clone())),
            Arc::new(TimestampMicrosecondArray::from(scaled(1_000_000, 1))),
            Arc::new(TimestampNanosecondArray::from(scaled(1_000_000_000, 999_999_999))),
        ];
        for array in &arrays {
            for name in ["month", "QUARTER", "year"] {
                let call = CalendarPart {
                    computed: Computed::Beginning(Period::of(name).unwrap()),
                    call: Arc::new(Literal::new(0.into())),
                };
                let got = call.of_array(array).unwrap();
                assert_eq!(&got, &truncated(name, array), "{name} of {}", array.data_type());
                assert_eq!(call.of_array(&array.slice(0, MIN_TABLE_ROWS - 1)), None, "few rows");
                let before = TABLE_DAYS.start * SECONDS_PER_DAY - 1;
                let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![before; MIN_TABLE_ROWS]));
                assert_eq!(call.of_array(&far), None, "a day that is in no table");
            }
        }
    }

    #[test]
    fn parts_are_those_of_arrow() {
        let days: Vec<Option<i32>> = (-800_000..800_000).step_by(97).map(Some).chain([None]).collect();
        let second = |day: &Option<i32>| day.map(|day| i64::from(day) * 86_400 + i64::from(day).rem_euclid(86_400));
        let seconds: Vec<Option<i64>> = days.iter().map(second).collect();
        let scaled = |by: i64, less: i64| -> Vec<Option<i64>> {
            let scale = |second: &Option<i64>| second.and_then(|second| second.checked_mul(by)).map(|v| v - less);
            seconds.iter().map(scale).collect()
        };
        let arrays: [ArrayRef; 4] = [
            Arc::new(Date32Array::from(days.clone())),
            Arc::new(TimestampSecondArray::from(seconds.clone())),
            Arc::new(TimestampMicrosecondArray::from(scaled(1_000_000, 1))),
            Arc::new(TimestampNanosecondArray::from(scaled(1_000_000_000, 999_999_999))),
        ];
        // Some rows are too few for a table of days.
        let few = arrays.iter().map(|array| array.slice(8000, 1000));
        for array in &few.chain(arrays.clone()).collect::<Vec<_>>() {
            for (name, part) in PARTS {
                let expected = date_part(array, part).unwrap();
                let got = parts(name, array).unwrap();
                assert_eq!(&got, expected.as_primitive(), "{name} of {}", array.data_type());
            }
        }
    }

    #[test]
    fn far_dates_are_left_to_datafusion() {
        let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, i64::MAX]));
        assert_eq!(parts("year", &far), None);
        let all_bits: ArrayRef = Arc::new(Date32Array::from(vec![-1_000_000_000, i32::MIN, i32::MAX]));
        assert_eq!(parts("month", &all_bits), None);
    }
}
