//! `IndexedAggregateExec`: an aggregation whose groups are found by index, as long as they are few.
//!
//! 1. Each batch's rows get the numbers of their groups (`GroupIndex`), and are added to them (`GroupStates`).
//! 2. At the end the groups are returned.
//! 3. If there are too many groups for the index, or for memory, the groups so far are returned as partial state, and
//!    DataFusion's operator aggregates the rest. It spills, and it stops to aggregate where that does not pay.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy, evaluate_group_by};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, InputOrderMode, PhysicalExpr};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::calendar_part::CalendarPart;
use super::coded_keys::{coded_input, without_codes};
use super::group_index::GroupIndex;
use super::group_states::{GroupStates, are_supported};
use super::key_codes::KeyCodes;
use crate::one_shot_input::OneShotInput;
use crate::plan_methods::delegate_plan;

/// An `AggregateExec` that finds its groups by index.
#[derive(Debug)]
pub(crate) struct IndexedAggregateExec {
    inner: Arc<AggregateExec>,
    /// The input of `inner`, with dictionaries in the place of some keys; or the input itself.
    input: Arc<dyn ExecutionPlan>,
    /// The keys of `inner`, whose dates are computed faster.
    keys: Arc<PhysicalGroupBy>,
    metrics: ExecutionPlanMetricsSet,
}

impl IndexedAggregateExec {
    /// The operator in place of `aggregate`. `None`: it does not do what `aggregate` does.
    pub(super) fn in_place_of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let keys = aggregate.group_expr();
        let is_first_step = match aggregate.mode() {
            AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned => true,
            AggregateMode::Final | AggregateMode::FinalPartitioned | AggregateMode::PartialReduce => false,
        };
        let is_plain = keys.is_single()
            && !keys.is_true_no_grouping()
            && aggregate.limit_options().is_none()
            && *aggregate.input_order_mode() == InputOrderMode::Linear;
        if !is_first_step || !is_plain || !are_supported(aggregate.aggr_expr()) {
            return Ok(None);
        }
        let schema = keys.group_schema(&aggregate.input_schema())?;
        if !schema
            .fields()
            .iter()
            .all(|key| KeyCodes::new(key.data_type()).is_some())
        {
            return Ok(None);
        }
        let coded = coded_input(aggregate)?;
        Ok(Some(Self {
            input: coded.unwrap_or_else(|| Arc::clone(aggregate.input())),
            keys: Arc::new(with_calendar_parts(keys, &aggregate.input_schema())?),
            inner: Arc::new(aggregate.clone()),
            metrics: ExecutionPlanMetricsSet::new(),
        }))
    }
}

/// The same keys, which compute parts of dates by [`CalendarPart`].
fn with_calendar_parts(keys: &PhysicalGroupBy, schema: &Schema) -> Result<PhysicalGroupBy> {
    let keys = keys.expr().iter().map(|(key, name)| {
        let key = Arc::clone(key).transform_up(|expr| {
            Ok(match CalendarPart::in_place_of(&expr, schema)? {
                Some(part) => Transformed::yes(Arc::new(part) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(expr),
            })
        });
        Ok((key?.data, name.clone()))
    });
    keys.collect::<Result<_>>().map(PhysicalGroupBy::new_single)
}

/// Shown as the `AggregateExec` that it is.
impl DisplayAs for IndexedAggregateExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(format, f)
    }
}

impl ExecutionPlan for IndexedAggregateExec {
    delegate_plan!(inner);

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inner.benefits_from_input_partitioning()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if let [input] = children.as_slice()
            && input.schema() == self.input.schema()
            && input.schema() != self.inner.input_schema()
        {
            // `inner` keeps the input without dictionaries, which is not executed.
            return Ok(Arc::new(Self {
                inner: Arc::clone(&self.inner),
                input: Arc::clone(input),
                keys: Arc::clone(&self.keys),
                metrics: ExecutionPlanMetricsSet::new(),
            }));
        }
        let replaced = Arc::clone(&self.inner).replace_children(children, options)?;
        match replaced.downcast_ref::<AggregateExec>() {
            Some(aggregate) => Ok(match Self::in_place_of(aggregate)? {
                Some(indexed) => Arc::new(indexed),
                None => replaced,
            }),
            None => Ok(replaced),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let group_schema = self.inner.group_expr().group_schema(&self.inner.input_schema())?;
        let Some(index) = GroupIndex::new(&group_schema)? else {
            return internal_err!("keys of {group_schema:?} have no codes");
        };
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let consumer = MemoryConsumer::new(format!("IndexedAggregate[{partition}]"));
        let execution = Execution {
            aggregate: Arc::clone(&self.inner),
            keys: Arc::clone(&self.keys),
            index,
            states: GroupStates::new(&self.inner)?,
            groups: Vec::new(),
            reservation: consumer.register(context.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
            operators: self.metrics.clone(),
            partition,
            context,
        };
        let schema = self.inner.schema();
        let batches = stream::once(execution.run(input)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// One execution over one partition.
struct Execution {
    aggregate: Arc<AggregateExec>,
    keys: Arc<PhysicalGroupBy>,
    index: GroupIndex,
    states: GroupStates,
    /// The batch's groups, by row.
    groups: Vec<usize>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    operators: ExecutionPlanMetricsSet,
    partition: usize,
    context: Arc<TaskContext>,
}

impl Execution {
    /// Aggregates the input, and returns the groups.
    async fn run(mut self, mut input: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        let elapsed = self.metrics.elapsed_compute().clone();
        while let Some(batch) = input.next().await.transpose()? {
            let timer = elapsed.timer();
            let is_added = self.add(&batch)?;
            timer.done();
            let left = match is_added {
                false => Some(batch),
                true if self.reserve() => continue,
                true => None,
            };
            let schema = self.aggregate.input_schema();
            let strings = Arc::clone(&schema);
            let rest = stream::iter(left.map(Ok)).chain(input);
            let rest = rest.map(move |batch| without_codes(&batch?, &strings));
            let rest = RecordBatchStreamAdapter::new(schema, rest);
            return self.hand_over(Box::pin(rest));
        }
        drop(input);
        let _timer = elapsed.timer();
        let columns = match self.aggregate.mode() {
            AggregateMode::Partial => self.states.take_states()?,
            _ => self.states.take_values()?,
        };
        let schema = self.aggregate.schema();
        self.batches(&schema, columns)
    }

    /// Adds the rows of a batch to their groups. False: there are too many groups, and no row was added.
    fn add(&mut self, batch: &RecordBatch) -> Result<bool> {
        let keys = evaluate_group_by(&self.keys, batch)?;
        let Some(keys) = keys.first() else {
            return internal_err!("an aggregation without grouping sets");
        };
        if !self.index.groups_of(keys, &mut self.groups)? {
            return Ok(false);
        }
        self.states.add(batch, &self.groups, self.index.len())?;
        Ok(true)
    }

    /// Whether there is memory for the groups so far.
    fn reserve(&mut self) -> bool {
        let bytes = self.index.size() + self.states.size() + self.groups.capacity() * size_of::<usize>();
        self.reservation.try_resize(bytes).is_ok()
    }

    /// The groups so far, and what DataFusion's operators make of the rest of the input.
    fn hand_over(mut self, rest: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        log::debug!("{} groups are too many for an index", self.index.len());
        MetricBuilder::new(&self.operators)
            .counter("hashed_partitions", self.partition)
            .add(1);
        let (aggregate, context) = (Arc::clone(&self.aggregate), Arc::clone(&self.context));
        let partial = over(&aggregate, AggregateMode::Partial, rest)?;
        let states = self.states.take_states()?;
        let schema = partial.schema();
        let before = self.batches(&schema, states)?;
        let after = partial.execute(0, Arc::clone(&context))?;
        let both = Box::pin(RecordBatchStreamAdapter::new(schema, before.chain(after)));
        match aggregate.mode() {
            AggregateMode::Partial => Ok(both),
            _ => over(&aggregate, AggregateMode::Final, both)?.execute(0, context),
        }
    }

    /// The groups with these columns behind their keys, in batches of the session's size.
    fn batches(mut self, schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<SendableRecordBatchStream> {
        if self.index.len() == 0 {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(
                Arc::clone(schema),
                stream::empty(),
            )));
        }
        let mut all = self.index.take_keys()?;
        all.extend(columns);
        let batch = RecordBatch::try_new(Arc::clone(schema), all)?;
        let rows = batch.num_rows();
        let step = self.context.session_config().batch_size().max(1);
        let (metrics, reservation) = (self.metrics, self.reservation);
        // The groups are moved, and the reservation is released with the last slice.
        let _ = reservation.try_resize(batch.get_array_memory_size());
        let slices = (0..rows).step_by(step).map(move |first| {
            let _held = &reservation;
            let slice = batch.slice(first, step.min(rows - first));
            metrics.record_output(slice.num_rows());
            Ok(slice)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(schema),
            stream::iter(slices),
        )))
    }
}

/// DataFusion's operator for a step of `aggregate`, over a stream.
fn over(aggregate: &AggregateExec, mode: AggregateMode, input: SendableRecordBatchStream) -> Result<AggregateExec> {
    let (keys, filters) = match mode {
        AggregateMode::Partial => (aggregate.group_expr().clone(), aggregate.filter_expr().to_vec()),
        _ => (
            aggregate.group_expr().as_final(),
            vec![None; aggregate.filter_expr().len()],
        ),
    };
    let input = OneShotInput::new(input).plan()?;
    AggregateExec::try_new(
        mode,
        keys,
        aggregate.aggr_expr().to_vec(),
        filters,
        input,
        aggregate.input_schema(),
    )
}

#[cfg(test)]
#[path = "indexed_aggregate_exec_tests.rs"]
mod tests;
