//! [`FinishedGroups`]: values of aggregates from their states, for groups that occur once each.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// What a final aggregation does with a batch of partial state whose groups occur nowhere else.
#[derive(Debug)]
pub(super) struct FinishedGroups {
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    keys: usize,
    /// Of the batches of partial state: the keys, then the aggregates' states.
    pub(super) state_schema: SchemaRef,
    /// Of the final aggregation.
    schema: SchemaRef,
}

impl FinishedGroups {
    /// The work of `last`, a final aggregation with keys. `None`: one of its functions merges states row by row only.
    pub(super) fn of(last: &AggregateExec, state_schema: SchemaRef) -> Option<Self> {
        let aggregates = last.aggr_expr().to_vec();
        let all_by_group = aggregates.iter().all(|of| of.groups_accumulator_supported());
        all_by_group.then(|| Self {
            aggregates,
            keys: last.group_expr().expr().len(),
            state_schema,
            schema: last.schema(),
        })
    }

    /// The batch of keys and values.
    ///
    /// # Errors
    /// An aggregate function's error: a sum of decimals that overflows, for one.
    pub(super) fn finish(&self, states: &RecordBatch) -> Result<RecordBatch> {
        let (keys, mut states_left) = states.columns().split_at(self.keys);
        let groups: Vec<usize> = (0..states.num_rows()).collect();
        let mut columns = keys.to_vec();
        for function in &self.aggregates {
            let (state, rest) = states_left.split_at(function.state_fields()?.len());
            states_left = rest;
            let mut accumulator = function.create_groups_accumulator()?;
            accumulator.merge_batch(state, &groups, groups.len())?;
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
