//! `list_aggregate(list, 'sum')`: an aggregate of each list's elements; `list_sum(list)` and its like for its names.
//!
//! A NULL list gives NULL, and an empty one what the aggregate gives without rows.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{ScalarValue, exec_err, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};

use super::{moments, value_counts};

/// Other names of aggregates.
const NAMES: [(&str, &str); 7] = [
    ("first", "first_value"),
    ("last", "last_value"),
    ("mean", "avg"),
    ("stddev", "stddev_samp"),
    ("variance", "var_samp"),
    ("approx_count_distinct", "approx_distinct"),
    ("group_concat", "string_agg"),
];

/// Aggregates that have a function of their own: `list_sum`. DataFusion has `list_max` and `list_any_value`.
const OWN: [&str; 19] = [
    "approx_count_distinct",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "entropy",
    "first",
    "histogram",
    "kurtosis",
    "last",
    "median",
    "min",
    "mode",
    "skewness",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_samp",
];

/// A function: `list_aggregate`, or that of one aggregate.
#[derive(Debug)]
struct ListAggregate {
    name: String,
    aliases: Vec<String>,
    aggregate: Option<&'static str>,
    aggregates: Arc<HashMap<String, Arc<AggregateUDF>>>,
    signature: Signature,
}

impl PartialEq for ListAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for ListAggregate {}

impl Hash for ListAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// The functions.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let own = value_counts::functions().into_iter().chain(moments::functions());
    let all = all_default_aggregate_functions().into_iter().chain(own.map(Arc::new));
    let mut aggregates = HashMap::new();
    for aggregate in all {
        for name in aggregate.aliases().iter().map(String::as_str).chain([aggregate.name()]) {
            aggregates.insert(name.to_owned(), Arc::clone(&aggregate));
        }
    }
    let aggregates = Arc::new(aggregates);
    let function = |name: String, aliases: Vec<String>, aggregate| {
        ScalarUDF::new_from_impl(ListAggregate {
            name,
            aliases,
            aggregate,
            aggregates: Arc::clone(&aggregates),
            signature: Signature::user_defined(Volatility::Immutable),
        })
    };
    let any = ["list_aggr", "array_aggregate", "array_aggr"].map(str::to_owned).into();
    let own = OWN.map(|name| {
        // DataFusion sums as DOUBLE.
        let aliases = if name == "sum" {
            vec!["array_sum".to_owned()]
        } else {
            Vec::new()
        };
        function(format!("list_{name}"), aliases, Some(name))
    });
    std::iter::once(function("list_aggregate".to_owned(), any, None))
        .chain(own)
        .collect()
}

/// An aggregate over a list's elements, and the type to which they are cast.
struct Call {
    item: DataType,
    aggregate: AggregateFunctionExpr,
    others: Vec<ScalarValue>,
}

impl ListAggregate {
    /// The call for a type of lists and constants behind it.
    fn call(&self, lists: &DataType, constants: &[Option<ScalarValue>]) -> Result<Call> {
        let DataType::List(item) = lists else {
            return plan_err!("{} takes a list, not {lists}", self.name);
        };
        let constants = constants.iter().map(|constant| {
            constant
                .clone()
                .ok_or_else(|| plan_datafusion_err!("{}: arguments behind the list are to be constants", self.name))
        });
        let mut constants = constants.collect::<Result<Vec<_>>>()?.into_iter();
        let name = match self.aggregate {
            Some(name) => name.to_owned(),
            None => match constants.next() {
                Some(name) => name.try_as_str().flatten().unwrap_or_default().to_lowercase(),
                None => return plan_err!("{} takes a list and the name of an aggregate", self.name),
            },
        };
        let others: Vec<ScalarValue> = constants.collect();
        let found = NAMES
            .iter()
            .find(|(other, _)| *other == name)
            .map_or(name.as_str(), |(_, name)| name);
        let Some(aggregate) = self.aggregates.get(found) else {
            return plan_err!("{}: there is no aggregate named {name}", self.name);
        };
        let mut fields = vec![Arc::new(Field::new("item", item.data_type().clone(), true))];
        fields.extend(
            others
                .iter()
                .map(|other| Arc::new(Field::new("other", other.data_type(), true))),
        );
        let coerced = fields_with_udf(&fields, aggregate.as_ref())?;
        let Some((item, rest)) = coerced.split_first() else {
            return plan_err!("{}: {name} takes no elements", self.name);
        };
        let others = others
            .iter()
            .zip(rest)
            .map(|(other, field)| other.cast_to(field.data_type()));
        let others = others.collect::<Result<Vec<_>>>()?;
        let literal = |other: &ScalarValue| Arc::new(Literal::new(other.clone())) as Arc<dyn PhysicalExpr>;
        let mut arguments: Vec<Arc<dyn PhysicalExpr>> = vec![Arc::new(Column::new("item", 0))];
        arguments.extend(others.iter().map(literal));
        let schema = Schema::new(vec![Field::new("item", item.data_type().clone(), true)]);
        let mut builder = AggregateExprBuilder::new(Arc::clone(aggregate), arguments)
            .schema(Arc::new(schema))
            .alias(&self.name);
        if name == "any_value" {
            builder = builder.ignore_nulls();
        }
        Ok(Call {
            item: item.data_type().clone(),
            aggregate: builder.build()?,
            others,
        })
    }
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        &self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let Some((lists, others)) = types.split_first() else {
            return plan_err!("{} takes a list", self.name);
        };
        let lists = match lists {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => DataType::List(Arc::clone(item)),
            DataType::Null => DataType::new_list(DataType::Int64, true),
            other => return plan_err!("{} takes a list, not {other}", self.name),
        };
        Ok(std::iter::once(lists).chain(others.iter().cloned()).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{}: the type depends on the aggregate", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let Some(lists) = args.arg_fields.first() else {
            return plan_err!("{} takes a list", self.name);
        };
        let constants: Vec<_> = args
            .scalar_arguments
            .iter()
            .skip(1)
            .map(|value| value.cloned())
            .collect();
        let call = self.call(lists.data_type(), &constants)?;
        Ok(Arc::new(Field::new(
            &self.name,
            call.aggregate.field().data_type().clone(),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some((lists, others)) = args.args.split_first() else {
            return exec_err!("{} takes a list", self.name);
        };
        let constants = others.iter().map(|other| match other {
            ColumnarValue::Scalar(value) => Ok(Some(value.clone())),
            // A constant that was spread over the rows.
            ColumnarValue::Array(values) if !values.is_empty() => ScalarValue::try_from_array(values, 0).map(Some),
            ColumnarValue::Array(_) => Ok(None),
        });
        let constants = constants.collect::<Result<Vec<_>>>()?;
        let result = args.return_field.data_type();
        let is_constant = matches!(lists, ColumnarValue::Scalar(_));
        let lists = lists.to_array(if is_constant { 1 } else { args.number_rows })?;
        if lists.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(result)));
        }
        let call = self.call(lists.data_type(), &constants)?;
        let values = call.of_lists(&lists, result)?;
        match is_constant {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
            false => Ok(ColumnarValue::Array(values)),
        }
    }
}

impl Call {
    fn of_lists(&self, lists: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
        let lists = lists.as_list::<i32>();
        let items = cast(lists.values(), &self.item)?;
        let mut values = Vec::with_capacity(lists.len());
        for (row, bounds) in lists.value_offsets().windows(2).enumerate() {
            if lists.is_null(row) {
                values.push(ScalarValue::try_new_null(result)?);
                continue;
            }
            let (from, to) = (bounds[0] as usize, bounds[1] as usize);
            let mut columns = vec![items.slice(from, to - from)];
            for other in &self.others {
                columns.push(other.to_array_of_size(to - from)?);
            }
            let mut accumulator = self.aggregate.create_accumulator()?;
            accumulator.update_batch(&columns)?;
            values.push(accumulator.evaluate()?);
        }
        Ok(cast(&ScalarValue::iter_to_array(values)?, result)?)
    }
}
