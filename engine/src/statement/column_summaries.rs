//! [`ColumnSummaries`]: an aggregate function of any number of columns. Its value is a list of structs, one for each
//! column, with the column's figures.
//!
//! One function of all columns, and not ten for each: planning looks each column up by name in every rule, so its time
//! would grow with the square of the columns, or worse.

use std::iter;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{CastOptions, cast_with_options, filter, is_not_null};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, TimeUnit, UInt64Type};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::approx_distinct::approx_distinct_udaf;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::stddev::stddev_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{col, lit};

use crate::sql_functions::sql_type_name;

/// The fields of a column's figures. `min` to `q75` are text, but for `approx_unique`.
pub(super) const FIGURES: [&str; 12] = [
    "column_name",
    "column_type",
    "min",
    "max",
    "approx_unique",
    "avg",
    "std",
    "q25",
    "q50",
    "q75",
    "count",
    "null_percentage",
];

/// The function of columns with these names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ColumnSummaries {
    names: Vec<String>,
    signature: Signature,
}

impl ColumnSummaries {
    pub(super) fn of(names: Vec<String>) -> AggregateUDF {
        AggregateUDF::from(Self {
            names,
            signature: Signature::variadic_any(Volatility::Immutable),
        })
    }

    fn columns(&self, fields: &[FieldRef]) -> Result<Vec<ColumnSummary>> {
        let columns = self.names.iter().zip(fields);
        columns
            .map(|(name, field)| ColumnSummary::new(name, field.data_type()))
            .collect()
    }
}

impl AggregateUDFImpl for ColumnSummaries {
    /// EXPLAIN shows it with the functions inside.
    fn name(&self) -> &str {
        "summary(count, min, max, approx_distinct, avg, stddev, approx_percentile_cont)"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::List(item()))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(SummaryAccumulator {
            rows: 0,
            columns: self.columns(args.expr_fields)?,
        }))
    }

    /// The rows, and a struct of the columns' states.
    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let columns = self.columns(args.input_fields)?;
        let fields: Result<Fields> = columns
            .iter()
            .enumerate()
            .map(|(at, column)| column.state_field(at))
            .collect();
        let name = |part| format!("{}[{part}]", args.name);
        Ok(vec![
            Arc::new(Field::new(name("rows"), DataType::UInt64, true)),
            Arc::new(Field::new(name("columns"), DataType::Struct(fields?), true)),
        ])
    }
}

/// The elements of the function's value.
fn item() -> FieldRef {
    let fields = FIGURES.map(|name| {
        let data_type = match name {
            "approx_unique" | "count" => DataType::Int64,
            "null_percentage" => DataType::Float64,
            _ => DataType::Utf8,
        };
        Field::new(name, data_type, true)
    });
    Arc::new(Field::new_list_field(DataType::Struct(fields.to_vec().into()), true))
}

/// The figures of all columns so far.
#[derive(Debug)]
struct SummaryAccumulator {
    rows: u64,
    columns: Vec<ColumnSummary>,
}

impl Accumulator for SummaryAccumulator {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows += values.first().map_or(0, |column| column.len() as u64);
        let mut columns = self.columns.iter_mut().zip(values);
        columns.try_for_each(|(column, values)| column.update(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [rows, columns] = states else {
            return internal_err!("a summary has two states, not {}", states.len());
        };
        self.rows += rows.as_primitive::<UInt64Type>().iter().flatten().sum::<u64>();
        let states = columns.as_struct().columns();
        let mut columns = self.columns.iter_mut().zip(states);
        columns.try_for_each(|(column, states)| column.merge(states))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.columns.iter_mut().enumerate().map(|(at, column)| {
            let field = column.state_field(at)?;
            Ok((field, column.state()?))
        });
        let (fields, arrays): (Vec<FieldRef>, Vec<ArrayRef>) = states.collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let columns = StructArray::try_new(fields.into(), arrays, None)?;
        Ok(vec![
            ScalarValue::UInt64(Some(self.rows)),
            ScalarValue::Struct(Arc::new(columns)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let rows = self.rows;
        let found = self.columns.iter_mut().map(|column| column.figures());
        let found: Vec<Figures> = found.collect::<Result<_>>()?;
        let item = item();
        let DataType::Struct(fields) = item.data_type() else {
            return internal_err!("figures are no struct");
        };
        let names = self.columns.iter().map(|column| column.name.as_str());
        let types = self.columns.iter().map(|column| sql_type_name(&column.data_type));
        let text =
            |at: usize| Arc::new(StringArray::from_iter(found.iter().map(|one| one.texts[at].clone()))) as ArrayRef;
        let share = |one: &Figures| (rows > 0).then(|| null_percentage(rows, one.values));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(names)),
            Arc::new(StringArray::from_iter_values(types)),
            text(0),
            text(1),
            Arc::new(Int64Array::from_iter(found.iter().map(|one| one.distinct))),
            text(2),
            text(3),
            text(4),
            text(5),
            text(6),
            Arc::new(Int64Array::from_iter_values(found.iter().map(|_| rows as i64))),
            Arc::new(Float64Array::from_iter(found.iter().map(share))),
        ];
        let structs = StructArray::try_new(fields.clone(), columns, None)?;
        let offsets = OffsetBuffer::from_lengths([structs.len()]);
        let list = ListArray::try_new(Arc::clone(&item), offsets, Arc::new(structs), None)?;
        Ok(ScalarValue::List(Arc::new(list)))
    }

    fn size(&self) -> usize {
        let columns = self.columns.iter().map(ColumnSummary::size);
        size_of_val(self) + columns.sum::<usize>()
    }
}

/// The share of NULLs in percent, with two digits after the point.
fn null_percentage(rows: u64, values: i64) -> f64 {
    let share = 100.0 * (rows as f64 - values as f64) / rows as f64;
    (share * 100.0).round() / 100.0
}

/// The figures of one column.
#[derive(Default)]
struct Figures {
    /// `min`, `max`, `avg`, `std`, `q25`, `q50`, `q75`.
    texts: [Option<String>; 7],
    distinct: Option<i64>,
    /// Values that are not NULL.
    values: i64,
}

/// The place of an aggregate's value in [`Figures`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Text(usize),
    /// As text of the column's type, of which the value is a number.
    TimeText(usize),
    Distinct,
    Values,
}

/// The form of a column that an aggregate takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The values as they are.
    Value,
    /// The values as DOUBLE.
    Number,
    /// Structs of the values that are not NULL. DataFusion counts the distinct ones of these, but not of floats.
    Structs,
}

/// The name of the only column of a form.
const VALUE: &str = "value";

/// One aggregate of a column.
#[derive(Debug)]
struct Measure {
    form: Form,
    place: Place,
    function: AggregateFunctionExpr,
    accumulator: Box<dyn Accumulator>,
}

/// One column's aggregates so far.
#[derive(Debug)]
struct ColumnSummary {
    name: String,
    /// The column's type.
    data_type: DataType,
    kind: Kind,
    measures: Vec<Measure>,
}

impl ColumnSummary {
    fn new(name: &str, data_type: &DataType) -> Result<Self> {
        let values = values_of(data_type);
        let kind = Kind::of(values);
        let distinct = match values.is_floating() {
            true => Form::Structs,
            false => Form::Value,
        };
        let mut wanted = vec![(Form::Value, Place::Values, count_udaf(), None)];
        if matches!(kind, Kind::Number | Kind::Time(_) | Kind::Ordered) {
            wanted.push((Form::Value, Place::Text(0), min_udaf(), None));
            wanted.push((Form::Value, Place::Text(1), max_udaf(), None));
        }
        if !matches!(kind, Kind::Other) {
            wanted.push((distinct, Place::Distinct, approx_distinct_udaf(), None));
        }
        if matches!(kind, Kind::Number) {
            wanted.push((Form::Number, Place::Text(2), avg_udaf(), None));
            wanted.push((Form::Number, Place::Text(3), stddev_udaf(), None));
        }
        for (at, share) in [(4, 0.25), (5, 0.5), (6, 0.75)] {
            let place = match kind {
                Kind::Number => Place::Text(at),
                Kind::Time(_) => Place::TimeText(at),
                _ => continue,
            };
            wanted.push((Form::Number, place, approx_percentile_cont_udaf(), Some(share)));
        }
        let measures = wanted.into_iter().map(|(form, place, function, share)| {
            let schema = Arc::new(schema_of(form, values));
            let mut arguments = vec![col(VALUE, &schema)?];
            arguments.extend(share.map(lit));
            let name = function.name().to_owned();
            let function = AggregateExprBuilder::new(function, arguments)
                .schema(schema)
                .alias(name);
            let function = function.build()?;
            Ok(Measure {
                form,
                place,
                accumulator: function.create_accumulator()?,
                function,
            })
        });
        Ok(Self {
            name: name.to_owned(),
            data_type: data_type.clone(),
            measures: measures.collect::<Result<_>>()?,
            kind,
        })
    }

    fn update(&mut self, values: &ArrayRef) -> Result<()> {
        let plain = &cast(values, values_of(values.data_type()))?;
        let number = match &self.kind {
            Kind::Number => Some(cast(plain, &DataType::Float64)?),
            Kind::Time(casts) => {
                let mut casts = casts.iter().chain(iter::once(&DataType::Float64));
                let number = casts.try_fold(Arc::clone(plain), |array, to| cast(&array, to));
                Some(number?)
            }
            _ => None,
        };
        for measure in &mut self.measures {
            let input = match (measure.form, &number) {
                (Form::Number, Some(number)) => Arc::clone(number),
                (Form::Structs, _) => structs(plain)?,
                _ => Arc::clone(plain),
            };
            let schema = Arc::new(schema_of(measure.form, plain.data_type()));
            let rows = input.len();
            let batch = RecordBatch::try_new(schema, vec![input])?;
            let arguments = measure.function.expressions().into_iter();
            let arguments = arguments.map(|argument| argument.evaluate(&batch)?.into_array(rows));
            measure
                .accumulator
                .update_batch(&arguments.collect::<Result<Vec<_>>>()?)?;
        }
        Ok(())
    }

    /// The field of the states, in the states of all columns.
    fn state_field(&self, at: usize) -> Result<FieldRef> {
        let mut fields = Vec::new();
        for (number, measure) in self.measures.iter().enumerate() {
            for field in measure.function.state_fields()? {
                let name = format!("{number} {}", field.name());
                fields.push(Field::new(name, field.data_type().clone(), true));
            }
        }
        Ok(Arc::new(Field::new(
            at.to_string(),
            DataType::Struct(fields.into()),
            true,
        )))
    }

    fn state(&mut self) -> Result<ArrayRef> {
        let field = self.state_field(0)?;
        let DataType::Struct(fields) = field.data_type() else {
            return internal_err!("states are no struct");
        };
        let mut arrays = Vec::with_capacity(fields.len());
        for measure in &mut self.measures {
            for state in measure.accumulator.state()? {
                arrays.push(state.to_array()?);
            }
        }
        Ok(Arc::new(StructArray::try_new(fields.clone(), arrays, None)?))
    }

    fn merge(&mut self, states: &ArrayRef) -> Result<()> {
        let mut left = states.as_struct().columns();
        for measure in &mut self.measures {
            let (states, others) = left.split_at(measure.function.state_fields()?.len());
            measure.accumulator.merge_batch(states)?;
            left = others;
        }
        Ok(())
    }

    fn figures(&mut self) -> Result<Figures> {
        let mut figures = Figures::default();
        for measure in &mut self.measures {
            let value = measure.accumulator.evaluate()?;
            match measure.place {
                Place::Text(at) => figures.texts[at] = text(&value)?,
                Place::TimeText(at) => {
                    let casts = match &self.kind {
                        Kind::Time(casts) => casts.as_slice(),
                        _ => &[],
                    };
                    let mut casts = iter::once(values_of(&self.data_type)).chain(casts).rev();
                    figures.texts[at] = text(&casts.try_fold(value, |value, to| value.cast_to(to))?)?;
                }
                Place::Distinct => figures.distinct = integer(&value)?,
                Place::Values => figures.values = integer(&value)?.unwrap_or(0),
            }
        }
        Ok(figures)
    }

    fn size(&self) -> usize {
        let measures = self.measures.iter();
        let accumulators = measures.map(|measure| size_of::<Measure>() + measure.accumulator.size());
        size_of::<Self>() + self.name.capacity() + accumulators.sum::<usize>()
    }
}

/// The type of a dictionary's values, or the type itself.
fn values_of(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn schema_of(form: Form, data_type: &DataType) -> Schema {
    let data_type = match form {
        Form::Value => data_type.clone(),
        Form::Number => DataType::Float64,
        Form::Structs => DataType::Struct(vec![Field::new(VALUE, data_type.clone(), true)].into()),
    };
    Schema::new(vec![Field::new(VALUE, data_type, true)])
}

fn structs(values: &ArrayRef) -> Result<ArrayRef> {
    let present: BooleanArray = is_not_null(values)?;
    let values = filter(values, &present)?;
    let fields = vec![Field::new(VALUE, values.data_type().clone(), true)].into();
    Ok(Arc::new(StructArray::try_new(fields, vec![values], None)?))
}

/// The values in another type, which has all of them or is an error.
fn cast(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    Ok(cast_with_options(values, to, &options)?)
}

fn text(value: &ScalarValue) -> Result<Option<String>> {
    let text = value.cast_to(&DataType::Utf8)?;
    Ok(text.try_as_str().flatten().map(str::to_owned))
}

fn integer(value: &ScalarValue) -> Result<Option<i64>> {
    match value.cast_to(&DataType::Int64)? {
        ScalarValue::Int64(value) => Ok(value),
        other => internal_err!("{other} is no integer"),
    }
}

/// The kinds of columns, by the figures that they have.
#[derive(Debug)]
enum Kind {
    Number,
    /// Dates and timestamps, with the casts to an integer that a double holds exactly.
    Time(Vec<DataType>),
    /// Ordered values that are no quantities.
    Ordered,
    Bytes,
    /// Nested and rare types.
    Other,
}

impl Kind {
    fn of(data_type: &DataType) -> Self {
        match data_type {
            numeric if numeric.is_numeric() => Self::Number,
            DataType::Date32 => Self::Time(vec![DataType::Int32]),
            DataType::Date64 => Self::Time(vec![DataType::Int64]),
            DataType::Timestamp(_, zone) => {
                let microseconds = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
                Self::Time(vec![microseconds, DataType::Int64])
            }
            DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Ordered,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                Self::Bytes
            }
            _ => Self::Other,
        }
    }
}
