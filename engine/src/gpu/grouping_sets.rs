//! [`GroupingSets`]: GROUPING SETS, CUBE and ROLLUP above a program that groups by all keys.
//!
//! A group of all keys belongs to one group of each set. So each set gets all groups, with NULL in place of the keys
//! that the set lacks, and the final aggregation merges the groups that have become equal.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy, evaluate_group_by};

/// The grouping sets of one aggregation.
#[derive(Debug, Clone)]
pub(crate) struct GroupingSets {
    /// Over a batch of the keys.
    group_by: PhysicalGroupBy,
    /// By position of the state field: the state of a group without rows.
    initial_states: Vec<ScalarValue>,
}

impl GroupingSets {
    /// The grouping sets of `aggregation`; `None` if it groups by its keys alone.
    ///
    /// # Errors
    /// DataFusion's error for an aggregate function.
    pub(crate) fn of(aggregation: &AggregateExec) -> Result<Option<Self>> {
        let group_by = aggregation.group_expr();
        if !group_by.has_grouping_set() {
            return Ok(None);
        }
        let keys = group_by.expr().iter().enumerate().map(|(at, (_, name))| {
            let key = Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
            (key, name.clone())
        });
        let (nulls, groups) = (group_by.null_expr().to_vec(), group_by.groups().to_vec());
        let mut initial_states = Vec::new();
        for function in aggregation.aggr_expr() {
            initial_states.extend(initial_state(function, &aggregation.input_schema())?);
        }
        Ok(Some(Self {
            group_by: PhysicalGroupBy::new(keys.collect(), nulls, groups, true),
            initial_states,
        }))
    }

    /// Number of sets.
    pub(crate) fn len(&self) -> usize {
        self.group_by.groups().len()
    }

    /// The batch of partial state: the groups of each set, from the groups of all keys. `keys` and `states` have a row
    /// for each group. Without groups, each set without keys gets one.
    ///
    /// # Errors
    /// If the arrays do not fit `schema`, which is a bug.
    pub(crate) fn expand(&self, keys: Vec<ArrayRef>, states: Vec<ArrayRef>, schema: &SchemaRef) -> Result<RecordBatch> {
        let is_empty = keys.first().is_none_or(|key| key.is_empty());
        let (keys, states) = match is_empty {
            true => {
                let keys = keys.iter().map(|key| new_null_array(key.data_type(), 1));
                let states = self.initial_states.iter().map(ScalarValue::to_array);
                (keys.collect(), states.collect::<Result<_>>()?)
            }
            false => (keys, states),
        };
        let key_batch = batch_of(keys)?;
        let sets = evaluate_group_by(&self.group_by, &key_batch)?;
        let has_groups = |set: &[bool]| !is_empty || set.iter().all(|is_missing| *is_missing);
        let sets = sets.into_iter().zip(self.group_by.groups());
        let mut batches = Vec::new();
        for (mut columns, _) in sets.filter(|(_, set)| has_groups(set)) {
            columns.extend(states.iter().cloned());
            batches.push(RecordBatch::try_new(Arc::clone(schema), columns)?);
        }
        Ok(concat_batches(schema, &batches)?)
    }
}

/// The state of a group without rows, as the operator that merges it expects it: the two kinds of accumulators have
/// different ones for AVG.
fn initial_state(function: &AggregateFunctionExpr, input: &Schema) -> Result<Vec<ScalarValue>> {
    if !function.groups_accumulator_supported() {
        return function.create_accumulator()?.state();
    }
    let mut arguments = Vec::new();
    for expression in function.expressions() {
        arguments.push(new_null_array(&expression.data_type(input)?, 1));
    }
    let mut accumulator = function.create_groups_accumulator()?;
    // Without any row, accumulators take it that each group has a value.
    let no_row = BooleanArray::from(vec![false]);
    accumulator.update_batch(&arguments, &[0], Some(&no_row), 1)?;
    let states = accumulator.state(EmitTo::All)?;
    states
        .iter()
        .map(|state| ScalarValue::try_from_array(state, 0))
        .collect()
}

fn batch_of(keys: Vec<ArrayRef>) -> Result<RecordBatch> {
    let field = |key: &ArrayRef| -> Field { Field::new("key", DataType::clone(key.data_type()), true) };
    let fields: Vec<Field> = keys.iter().map(field).collect();
    let options = RecordBatchOptions::new().with_row_count(keys.first().map(|key| key.len()));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        keys,
        &options,
    )?)
}
