//! The batch of partial state: a program's [`Output`] in the schema of DataFusion's partial aggregation.
//!
//! The batch has the keys first, then the state fields of the aggregates. A program may have more keys than the
//! aggregation: some functions take their state from a key of finer groups, which the final aggregation merges.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, Decimal128Array, Decimal256Array, Float64Array,
    LargeStringArray, ListArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::kernels::cmp::eq;
use arrow::compute::{cast, filter, is_not_null, nullif};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type, Int64Type, SchemaRef, TimeUnit, i256};
use datafusion::common::{ScalarValue, exec_err, internal_err};
use datafusion::error::Result;
use grampus_gpu_exec::output::{Moments, Output, ResultColumn, ResultValues};

use super::grouping_sets::GroupingSets;
use super::string_dictionary::StringDictionary;

/// The result of a program that a state field takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateSource {
    /// An aggregate, by position.
    Aggregate(usize),
    /// A count, by position, with NULL for 0: the state of AVG in a group without values.
    CountOrNull(usize),
    /// A part of an aggregate's moments, by position: the states of variances and standard deviations.
    Moments(usize, Moment),
    /// A key, by position: the state of MIN and MAX in a group whose rows have one value.
    Key(usize),
    /// A key, by position, as a list of one value, or of none for NULL: the state of `count(DISTINCT …)`.
    KeyAsList(usize),
}

/// A part of [`Moments`](grampus_gpu_exec::output::Moments).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Count,
    Mean,
    Squares,
}

/// The batch of `schema` for a range of the output's groups. `state` has the source of each field after the keys.
///
/// # Errors
/// If the output does not fit the schema, which is a bug.
pub(crate) fn batch(
    (output, groups): (&Output, Range<usize>),
    (state, sets): (&[StateSource], Option<&GroupingSets>),
    schema: &SchemaRef,
    dictionary: &StringDictionary,
) -> Result<RecordBatch> {
    let fields = schema.fields();
    // The id of the grouping set stands behind the keys.
    let ids = usize::from(sets.is_some());
    let key_count = fields.len().checked_sub(state.len() + ids);
    let Some((keys, key_count)) = key_count.and_then(|count| Some((output.keys.get(..count)?, count))) else {
        return internal_err!("the GPU gave {} keys, too few for {schema}", output.keys.len());
    };
    let mut arrays = Vec::with_capacity(fields.len());
    for (key, field) in keys.iter().zip(fields) {
        let key = Part::of(key, &groups)?;
        arrays.push(array(&key, field.data_type(), dictionary)?);
    }
    let mut states = Vec::with_capacity(state.len());
    for (source, field) in state.iter().zip(&fields[key_count + ids..]) {
        states.push(state_array((output, &groups), *source, field.data_type(), dictionary)?);
    }
    if let Some(sets) = sets {
        return sets.expand(arrays, states, schema);
    }
    arrays.append(&mut states);
    let options = RecordBatchOptions::new().with_row_count(Some(groups.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?)
}

/// Groups of a result.
struct Part<'a> {
    column: &'a ResultColumn,
    groups: Range<usize>,
    /// By group: whether the value is there.
    valid: Option<&'a [bool]>,
}

impl<'a> Part<'a> {
    fn of(column: &'a ResultColumn, groups: &Range<usize>) -> Result<Self> {
        let values = match &column.values {
            ResultValues::Int(values) => values.len(),
            ResultValues::Float(values) => values.len(),
            ResultValues::Decimal(values) => values.len(),
            ResultValues::Moments(values) => values.len(),
        };
        let valid = match &column.valid {
            Some(valid) => valid.get(groups.clone()).map(Some),
            None => Some(None),
        };
        match valid {
            Some(valid) if groups.end <= values => Ok(Self {
                column,
                groups: groups.clone(),
                valid,
            }),
            _ => internal_err!("the GPU gave {values} values for {} groups", groups.end),
        }
    }

    /// The groups' values among those of all groups.
    fn of_all<T>(&self, values: &'a [T]) -> &'a [T] {
        &values[self.groups.clone()]
    }

    fn numbers<T: ArrowPrimitiveType>(&self, values: &'a [T::Native]) -> PrimitiveArray<T> {
        let nulls = self.valid.map(NullBuffer::from);
        PrimitiveArray::new(self.of_all(values).to_vec().into(), nulls)
    }
}

fn state_array(
    (output, groups): (&Output, &Range<usize>),
    source: StateSource,
    data_type: &DataType,
    dictionary: &StringDictionary,
) -> Result<ArrayRef> {
    let (column, item) = match (source, data_type) {
        (StateSource::Moments(at, _), _) => (output.aggregates.get(at), None),
        (StateSource::Aggregate(at) | StateSource::CountOrNull(at), _) => (output.aggregates.get(at), None),
        (StateSource::Key(at), _) => (output.keys.get(at), None),
        (StateSource::KeyAsList(at), DataType::List(item)) => (output.keys.get(at), Some(item)),
        (StateSource::KeyAsList(_), other) => return internal_err!("a list is no {other}"),
    };
    let Some(column) = column else {
        return internal_err!("the GPU gave no {source:?}");
    };
    let part = Part::of(column, groups)?;
    match (item, source) {
        (Some(item), _) => lists(&array(&part, item.data_type(), dictionary)?, item),
        (None, StateSource::Moments(_, moment)) => moments(&part, moment),
        (None, StateSource::CountOrNull(_)) => {
            let counts = array(&part, data_type, dictionary)?;
            let zero = ScalarValue::new_zero(data_type)?.to_scalar()?;
            Ok(nullif(&counts, &eq(&counts, &zero)?)?)
        }
        (None, _) => array(&part, data_type, dictionary),
    }
}

/// A part of each group's moments.
fn moments(part: &Part<'_>, moment: Moment) -> Result<ArrayRef> {
    let ResultValues::Moments(all) = &part.column.values else {
        return internal_err!("the GPU gave no moments");
    };
    let all = part.of_all(all);
    let floats = |of: fn(&Moments) -> f64| Float64Array::from_iter_values(all.iter().map(of));
    Ok(match moment {
        Moment::Count => Arc::new(UInt64Array::from_iter_values(all.iter().map(|of| of.count))),
        Moment::Mean => Arc::new(floats(|of| of.mean)),
        Moment::Squares => Arc::new(floats(|of| of.squares)),
    })
}

/// A list with each value; an empty one for NULL.
fn lists(values: &ArrayRef, item: &FieldRef) -> Result<ArrayRef> {
    let lengths = (0..values.len()).map(|row| usize::from(values.is_valid(row)));
    let offsets = OffsetBuffer::from_lengths(lengths);
    let valid = filter(values, &is_not_null(values)?)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, valid, None)?))
}

/// The values as an array of `data_type`.
fn array(part: &Part<'_>, data_type: &DataType, dictionary: &StringDictionary) -> Result<ArrayRef> {
    match (&part.column.values, data_type) {
        (ResultValues::Int(codes), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            strings(part.of_all(codes), part.valid, data_type, dictionary)
        }
        (ResultValues::Int(values), DataType::Boolean) => {
            let values = part.of_all(values).iter().map(|value| *value != 0);
            Ok(Arc::new(BooleanArray::from_iter(masked(values, part.valid))))
        }
        (ResultValues::Int(values), DataType::Decimal128(precision, scale)) => {
            let values = part.of_all(values).iter().map(|&value| i128::from(value));
            decimals(values, part.valid, *precision, *scale)
        }
        (ResultValues::Decimal(values), DataType::Decimal128(precision, scale)) => {
            let array = part.numbers::<Decimal128Type>(values);
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        (ResultValues::Decimal(values), DataType::Decimal256(precision, scale)) => {
            let values = part.of_all(values).iter().map(|&value| i256::from_i128(value));
            let array = Decimal256Array::from_iter(masked(values, part.valid));
            Ok(Arc::new(array.with_precision_and_scale(*precision, *scale)?))
        }
        (ResultValues::Int(values), _) => integers(part.numbers(values), data_type),
        (ResultValues::Float(values), DataType::Float64 | DataType::Float32) => {
            let array: ArrayRef = Arc::new(part.numbers::<Float64Type>(values));
            Ok(cast(&array, data_type)?)
        }
        (_, other) => internal_err!("the GPU gave values of type {:?} for {other}", part.column.ty),
    }
}

/// The values, with NULL for the invalid ones.
fn masked<T>(values: impl Iterator<Item = T>, valid: Option<&[bool]>) -> impl Iterator<Item = Option<T>> {
    values.enumerate().map(move |(row, value)| {
        valid
            .is_none_or(|valid| valid.get(row).copied().unwrap_or(false))
            .then_some(value)
    })
}

/// 64-bit integers as `data_type`: a smaller integer, or a type that is stored as an integer.
fn integers(array: PrimitiveArray<Int64Type>, data_type: &DataType) -> Result<ArrayRef> {
    let stored = match data_type {
        DataType::Date32 => DataType::Int32,
        DataType::Timestamp(
            TimeUnit::Second | TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            _,
        )
        | DataType::Int64 => DataType::Int64,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt64 => data_type.clone(),
        other => return internal_err!("the GPU gave integers for {other}"),
    };
    let options = arrow::compute::CastOptions {
        safe: false,
        ..Default::default()
    };
    let array: ArrayRef = Arc::new(array);
    Ok(cast(
        &arrow::compute::cast_with_options(&array, &stored, &options)?,
        data_type,
    )?)
}

fn decimals(values: impl Iterator<Item = i128>, valid: Option<&[bool]>, precision: u8, scale: i8) -> Result<ArrayRef> {
    let array = Decimal128Array::from_iter(masked(values, valid));
    Ok(Arc::new(array.with_precision_and_scale(precision, scale)?))
}

fn strings(
    codes: &[i64],
    valid: Option<&[bool]>,
    data_type: &DataType,
    dictionary: &StringDictionary,
) -> Result<ArrayRef> {
    let valid_codes: Vec<i64> = masked(codes.iter().copied(), valid).flatten().collect();
    let Some(found) = dictionary.strings(&valid_codes) else {
        return exec_err!("the GPU gave a string's number that was never given out");
    };
    let mut found = found.into_iter();
    let texts = masked(codes.iter(), valid).map(|code| code.and_then(|_| found.next()));
    Ok(match data_type {
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(texts)),
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(texts)),
        _ => Arc::new(StringArray::from_iter(texts)),
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use arrow::util::pretty::pretty_format_batches;
    use grampus_gpu_exec::output::Cost;
    use grampus_gpu_exec::program::{TimeUnit as Unit, Type};

    use super::*;

    fn column(ty: Type, values: ResultValues, valid: Option<Vec<bool>>) -> ResultColumn {
        ResultColumn { ty, values, valid }
    }

    #[test]
    fn arrays_have_the_types_of_the_schema() {
        let dictionary = StringDictionary::default();
        let code = i64::from(dictionary.code("green").unwrap());
        let some = Some(vec![true, false]);
        let int = |ty, value| column(ty, ResultValues::Int(vec![value, 0]), some.clone());
        let decimal = Type::Decimal {
            precision: 38,
            scale: 2,
        };
        let nanoseconds = Type::Timestamp(Unit::Nanosecond);
        let keys = vec![
            (int(Type::Code, code), DataType::Utf8),
            (int(Type::Bool, 1), DataType::Boolean),
            (int(Type::Int8, -128), DataType::Int8),
            (int(Type::Date32, 18_000), DataType::Date32),
            (
                int(nanoseconds, 1),
                DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            ),
            (
                column(Type::Float32, ResultValues::Float(vec![0.5, 0.0]), some.clone()),
                DataType::Float32,
            ),
            (
                column(decimal, ResultValues::Decimal(vec![1 << 70, 0]), some),
                DataType::Decimal128(38, 2),
            ),
            (
                column(Type::Int64, ResultValues::Int(vec![7, 0]), None),
                DataType::UInt64,
            ),
        ];
        let fields: Vec<Field> = keys
            .iter()
            .map(|(_, t)| Field::new("c", t.clone(), *t != DataType::UInt64))
            .collect();
        let output = Output {
            groups: 2,
            keys: keys.into_iter().map(|(key, _)| key).collect(),
            aggregates: Vec::new(),
            cost: Cost::default(),
        };
        let batch = batch(
            (&output, 0..2),
            (&[], None),
            &Arc::new(Schema::new(fields)),
            &dictionary,
        )
        .unwrap();
        let shown = pretty_format_batches(std::slice::from_ref(&batch)).unwrap().to_string();
        for wanted in [
            "green",
            "true",
            "-128",
            "2019-04-14",
            "00.000000001Z",
            "0.5",
            "11805916207174113034.24",
            " 7 ",
        ] {
            assert!(shown.contains(wanted), "{wanted} in\n{shown}");
        }
        assert!(
            batch.columns()[..7]
                .iter()
                .all(|array| array.is_null(1) && array.is_valid(0))
        );
    }

    #[test]
    fn batches_may_share_results_and_have_no_columns() {
        let dictionary = StringDictionary::default();
        let count = column(Type::Int64, ResultValues::Int(vec![3]), None);
        let output = Output {
            groups: 1,
            keys: Vec::new(),
            aggregates: vec![count],
            cost: Cost::default(),
        };
        let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, false));
        let [first, second] = [0, 1].map(StateSource::Aggregate);
        let both = batch(
            (&output, 0..1),
            (&[first, first], None),
            &Arc::new(Schema::new(fields.to_vec())),
            &dictionary,
        )
        .unwrap();
        assert_eq!(both.column(0), both.column(1));
        assert!(
            batch(
                (&output, 0..1),
                (&[second], None),
                &Arc::new(Schema::new(fields[..1].to_vec())),
                &dictionary
            )
            .is_err()
        );
        let none = batch((&output, 0..1), (&[], None), &Arc::new(Schema::empty()), &dictionary).unwrap();
        assert_eq!(none.num_rows(), 1);
    }
}
