//! `mode`, `histogram` and `entropy`: how often each value occurs.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StructArray, UInt64Array, new_empty_array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int64Type};
use arrow::row::{OwnedRow, RowConverter, SortField};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::scalar::ScalarValue;

/// What is made of the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Summary {
    /// The most frequent value; of several, the least.
    Mode,
    /// A map from values to counts, in the values' order.
    Histogram,
    /// `-Σ p log2 p` over the values' shares.
    Entropy,
}

/// The functions.
pub(super) fn functions() -> Vec<AggregateUDF> {
    let named = [
        ("mode", Summary::Mode),
        ("histogram", Summary::Histogram),
        ("entropy", Summary::Entropy),
    ];
    let function = |(name, summary)| {
        AggregateUDF::new_from_impl(CountFunction {
            name,
            summary,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    named.into_iter().map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct CountFunction {
    name: &'static str,
    summary: Summary,
    signature: Signature,
}

impl AggregateUDFImpl for CountFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Dictionary(_, values)] => Ok(vec![values.as_ref().clone()]),
            [_] => Ok(types.to_vec()),
            _ => plan_err!("{} takes one argument, not {}", self.name, types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [values] = types else {
            return internal_err!("{} takes one argument", self.name);
        };
        Ok(match self.summary {
            Summary::Mode => values.clone(),
            Summary::Histogram => DataType::Map(Arc::new(Field::new("entries", entries(values), false)), false),
            Summary::Entropy => DataType::Float64,
        })
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(expr) = args.exprs.first() else {
            return internal_err!("{} has no argument", self.name);
        };
        let values = expr.data_type(args.schema)?;
        Ok(Box::new(Counts {
            summary: self.summary,
            rows: RowConverter::new(vec![SortField::new(values.clone())])?,
            values,
            counts: HashMap::new(),
            row_bytes: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let item = Arc::new(Field::new_list_field(args.input_fields[0].data_type().clone(), true));
        let count = Arc::new(Field::new_list_field(DataType::Int64, true));
        let field = |name, item| {
            Arc::new(Field::new(
                format_state_name(args.name, name),
                DataType::List(item),
                true,
            ))
        };
        Ok(vec![field("values", item), field("counts", count)])
    }
}

/// The type of a histogram's entries.
fn entries(values: &DataType) -> DataType {
    DataType::Struct(Fields::from(vec![
        Field::new("key", values.clone(), false),
        Field::new("value", DataType::UInt64, true),
    ]))
}

#[derive(Debug)]
struct Counts {
    summary: Summary,
    values: DataType,
    rows: RowConverter,
    counts: HashMap<OwnedRow, i64>,
    row_bytes: usize,
}

impl Counts {
    /// Adds values, each as often as its count says; NULL is no value.
    fn add(&mut self, values: &ArrayRef, counts: impl Iterator<Item = i64>) -> Result<()> {
        let values = one_zero(values)?;
        let rows = self.rows.convert_columns(std::slice::from_ref(&values))?;
        for ((row, count), at) in rows.iter().zip(counts).zip(0..) {
            if values.is_valid(at) {
                let row = row.owned();
                let bytes = row.as_ref().len() + size_of::<(OwnedRow, i64)>();
                *self.counts.entry(row).or_insert_with(|| {
                    self.row_bytes += bytes;
                    0
                }) += count;
            }
        }
        Ok(())
    }

    /// The values in their order, with their counts.
    fn sorted(&self) -> Result<(ArrayRef, Vec<i64>)> {
        let mut sorted: Vec<_> = self.counts.iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(b.0));
        if sorted.is_empty() {
            return Ok((new_empty_array(&self.values), Vec::new()));
        }
        let mut values = self.rows.convert_rows(sorted.iter().map(|(row, _)| row.row()))?;
        Ok((values.remove(0), sorted.into_iter().map(|(_, count)| *count).collect()))
    }
}

/// Floats with one zero.
fn one_zero(values: &ArrayRef) -> Result<ArrayRef> {
    use arrow::datatypes::{Float32Type, Float64Type};
    Ok(match values.data_type() {
        DataType::Float64 => Arc::new(
            values
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| value + 0.0),
        ),
        DataType::Float32 => Arc::new(
            values
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| value + 0.0),
        ),
        _ => Arc::clone(values),
    })
}

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], std::iter::repeat(1))
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (values, counts) = self.sorted()?;
        let Some(&most) = counts.iter().max() else {
            return match self.summary {
                Summary::Mode => Ok(ScalarValue::try_from(&self.values)?),
                Summary::Histogram => {
                    let data_type = DataType::Map(Arc::new(Field::new("entries", entries(&self.values), false)), false);
                    Ok(ScalarValue::try_from(&data_type)?)
                }
                Summary::Entropy => Ok(ScalarValue::from(0.0)),
            };
        };
        match self.summary {
            Summary::Mode => {
                let first = counts.iter().position(|&count| count == most).unwrap_or_default();
                ScalarValue::try_from_array(&values, first)
            }
            Summary::Histogram => {
                let DataType::Struct(fields) = entries(&self.values) else {
                    return internal_err!("entries are structs");
                };
                let offsets = OffsetBuffer::from_lengths([counts.len()]);
                let counts: UInt64Array = counts.iter().map(|&count| count as u64).collect::<Vec<_>>().into();
                let pairs = StructArray::try_new(fields.clone(), vec![values, Arc::new(counts)], None)?;
                let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
                let map = MapArray::try_new(field, offsets, pairs, None, false)?;
                Ok(ScalarValue::Map(Arc::new(map)))
            }
            Summary::Entropy => {
                let rows = counts.iter().sum::<i64>() as f64;
                let shares = counts.iter().map(|&count| count as f64 / rows);
                Ok(ScalarValue::from(
                    -shares.map(|share| share * share.log2()).sum::<f64>() + 0.0,
                ))
            }
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size() + self.row_bytes
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (values, counts) = self.sorted()?;
        let list = |items: ArrayRef| -> Result<ScalarValue> {
            let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths([items.len()]);
            Ok(ScalarValue::List(Arc::new(ListArray::try_new(
                field, offsets, items, None,
            )?)))
        };
        Ok(vec![list(values)?, list(Arc::new(Int64Array::from(counts)))?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let [values, counts] = states else {
            return internal_err!("a state of values and counts has {} columns", states.len());
        };
        for (values, counts) in values.as_list::<i32>().iter().zip(counts.as_list::<i32>().iter()) {
            if let (Some(values), Some(counts)) = (values, counts) {
                let counts = counts.as_primitive::<Int64Type>().values().to_vec();
                self.add(&values, counts.into_iter())?;
            }
        }
        Ok(())
    }
}
