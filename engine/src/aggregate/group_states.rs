//! `GroupStates`: the aggregates of all groups, as DataFusion's accumulators keep them.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The aggregates of groups.
pub(super) struct GroupStates(Vec<AggregateState>);

/// One aggregate of all groups.
struct AggregateState {
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    /// Of `FILTER (WHERE …)`.
    filter: Option<Arc<dyn PhysicalExpr>>,
    accumulator: Box<dyn GroupsAccumulator>,
}

/// Whether all aggregates have accumulators of groups, which add rows in any order.
pub(super) fn are_supported(aggregates: &[Arc<AggregateFunctionExpr>]) -> bool {
    let mut aggregates = aggregates.iter();
    aggregates.all(|aggregate| aggregate.groups_accumulator_supported() && aggregate.order_bys().is_empty())
}

impl GroupStates {
    /// The aggregates of `aggregate`, without groups.
    pub(super) fn new(aggregate: &AggregateExec) -> Result<Self> {
        let aggregates = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
        let states = aggregates.map(|(function, filter)| {
            Ok(AggregateState {
                arguments: function.expressions(),
                filter: filter.clone(),
                accumulator: function.create_groups_accumulator()?,
            })
        });
        states.collect::<Result<_>>().map(Self)
    }

    /// Adds rows to their groups. `groups`: by row, the number of its group, below `group_count`.
    pub(super) fn add(&mut self, batch: &RecordBatch, groups: &[usize], group_count: usize) -> Result<()> {
        let values = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(batch)?.into_array(batch.num_rows());
        for state in &mut self.0 {
            let arguments = state.arguments.iter().map(values).collect::<Result<Vec<_>>>()?;
            let filter = state.filter.as_ref().map(values).transpose()?;
            let filter = filter.as_ref().map(|filter| filter.as_boolean());
            state
                .accumulator
                .update_batch(&arguments, groups, filter, group_count)?;
        }
        Ok(())
    }

    /// The columns of partial state, by group. No group is left.
    pub(super) fn take_states(&mut self) -> Result<Vec<ArrayRef>> {
        let states = self.0.iter_mut().map(|state| state.accumulator.state(EmitTo::All));
        Ok(states.collect::<Result<Vec<_>>>()?.concat())
    }

    /// The aggregates, by group. No group is left.
    pub(super) fn take_values(&mut self) -> Result<Vec<ArrayRef>> {
        let values = self.0.iter_mut().map(|state| state.accumulator.evaluate(EmitTo::All));
        values.collect()
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.0.iter().map(|state| state.accumulator.size()).sum()
    }
}
