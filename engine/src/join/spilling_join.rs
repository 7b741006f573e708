//! `SpillingJoinExec`: a hash join that becomes a sort-merge join if its build side does not fit in memory.
//!
//! DataFusion's hash join keeps its build side in memory, and fails if that does not fit. This operator decides while
//! it runs, for each partition:
//!
//! 1. It reads the build side, within a share of the memory that is left.
//! 2. If the build side fits, its keys go into the join's dynamic filter (`build_side_filter`), and the hash join runs.
//! 3. If it does not fit, or its hash table does not, both inputs are sorted, which spills, and merged.
//!
//! A join is replaced only if a sort-merge join can take its place: see [`can_merge`].

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};
use futures::{StreamExt, TryStreamExt};

use super::build_side_filter::{BuildSideFilter, Reporter};
use crate::one_shot_input::OneShotInput;
use crate::plan_methods::delegate_plan;

/// Bytes of a hash table per row, beside the row itself.
const HASH_TABLE_ROW_BYTES: usize = 32;

/// Replaces each `HashJoinExec` that can become a sort-merge join.
#[derive(Debug)]
pub(crate) struct SpillingJoins;

impl PhysicalOptimizerRule for SpillingJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let replaced = plan.transform_up(|plan| match plan.downcast_ref::<HashJoinExec>() {
            Some(join) if can_merge(join)? => {
                let filter = match is_filter_read_below(join)? {
                    true => BuildSideFilter::of(join),
                    false => None,
                };
                let join = Arc::new(join.builder().build()?);
                Ok(Transformed::yes(Arc::new(SpillingJoinExec::new(join, filter))))
            }
            _ => Ok(Transformed::no(plan)),
        });
        Ok(replaced?.data)
    }

    fn name(&self) -> &'static str {
        "spilling_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether a sort-merge join of single partitions can take the join's place:
///
/// - each partition of the output needs one partition of each input;
/// - no operator above relies on the order of the probe side's rows;
/// - the keys have types that the sort-merge join compares. Floating-point keys are not among them: its comparison
///   fails for NaN;
/// - the join is not that of `NOT IN`, for which NULL keys have a meaning of their own.
fn can_merge(join: &HashJoinExec) -> Result<bool> {
    let is_by_partition = match join.partition_mode() {
        PartitionMode::Partitioned => true,
        PartitionMode::CollectLeft => join.right().output_partitioning().partition_count() == 1,
        PartitionMode::Auto => false,
    };
    if !is_by_partition || join.null_aware || join.properties().output_ordering().is_some() {
        return Ok(false);
    }
    let schema = join.left().schema();
    for (left, _) in join.on() {
        if !is_mergeable(&left.data_type(&schema)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_mergeable(key: &DataType) -> bool {
    key.is_integer()
        || matches!(
            key,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Decimal128(..)
                | DataType::Date32
                | DataType::Date64
                | DataType::Timestamp(_, None)
        )
}

/// Whether an operator of the probe side reads the filter that the join makes of its build side.
fn is_filter_read_below(join: &HashJoinExec) -> Result<bool> {
    let produced: Vec<_> = join.dynamic_expressions_produced();
    let ids: Vec<u64> = produced.iter().filter_map(|filter| filter.expression_id()).collect();
    join.right().exists(|plan| {
        let mut found = false;
        plan.apply_expressions(&mut |root| {
            found |= root.exists(|expr| Ok(expr.expression_id().is_some_and(|id| ids.contains(&id))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// A hash join of partitions that fit in memory, and a sort-merge join of the others.
#[derive(Debug)]
pub(super) struct SpillingJoinExec {
    join: Arc<HashJoinExec>,
    /// The join's dynamic filter, if a scan reads it.
    filter: Option<Arc<BuildSideFilter>>,
    metrics: ExecutionPlanMetricsSet,
    /// The operators that have run in the place of `join`.
    ran: Arc<Mutex<Vec<Arc<dyn ExecutionPlan>>>>,
}

impl SpillingJoinExec {
    fn new(join: Arc<HashJoinExec>, filter: Option<Arc<BuildSideFilter>>) -> Self {
        Self {
            join,
            filter,
            metrics: ExecutionPlanMetricsSet::new(),
            ran: Arc::default(),
        }
    }
}

/// Shown as the `HashJoinExec` that it is for most partitions.
impl DisplayAs for SpillingJoinExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.join.fmt_as(format, f)
    }
}

impl ExecutionPlan for SpillingJoinExec {
    delegate_plan!(join);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.join.children()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().recompute_properties();
        let join = Arc::new(join.with_new_children(children)?.build()?);
        let filter = self.filter.as_ref().and_then(|_| BuildSideFilter::of(&join));
        Ok(Arc::new(Self::new(join, filter)))
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.join.dynamic_expressions_produced()
    }

    /// The join without what earlier executions left: its dynamic filter too, which the scans below lose as well.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let join = self.join.builder().reset_state().build()?;
        Ok(Arc::new(Self::new(Arc::new(join), None)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if matches!(context.memory_pool().memory_limit(), MemoryLimit::Infinite) {
            return self.join.execute(partition, context); // every build side fits
        }
        let partitions = self.join.right().output_partitioning().partition_count();
        let partition_join = PartitionJoin {
            left: self.join.left().execute(partition, Arc::clone(&context))?,
            right: self.join.right().execute(partition, Arc::clone(&context))?,
            join: Arc::clone(&self.join),
            reporter: self
                .filter
                .as_ref()
                .map(|filter| filter.begin(partition, context.memory_pool())),
            reservation: MemoryConsumer::new(format!("SpillingJoin[{partition}]"))
                .with_can_spill(true)
                .register(context.memory_pool()),
            partitions,
            context,
            merged: MetricBuilder::new(&self.metrics).counter("merged_partitions", partition),
            ran: Arc::clone(&self.ran),
        };
        let rows = futures::stream::once(partition_join.start()).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.join.schema(), rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let ran = lock(&self.ran);
        for metric in self.join.metrics().iter().flat_map(MetricsSet::iter) {
            metrics.push(Arc::clone(metric));
        }
        for plan in ran.iter() {
            for metric in plan.metrics().iter().flat_map(MetricsSet::iter) {
                metrics.push(Arc::clone(metric));
            }
        }
        Some(metrics)
    }
}

/// The join of one partition.
struct PartitionJoin {
    join: Arc<HashJoinExec>,
    left: SendableRecordBatchStream,
    right: SendableRecordBatchStream,
    /// Makes the dynamic filter.
    reporter: Option<Reporter>,
    /// The build side, while it is read.
    reservation: MemoryReservation,
    /// Partitions that build at the same time.
    partitions: usize,
    context: Arc<TaskContext>,
    /// Partitions that a sort-merge join joined.
    merged: Count,
    ran: Arc<Mutex<Vec<Arc<dyn ExecutionPlan>>>>,
}

/// A batch of the build side, and the bytes that it adds to the batches before it.
type SizedBatch = (RecordBatch, usize);

impl PartitionJoin {
    /// Reads the build side, chooses the join and starts it.
    async fn start(mut self) -> Result<SendableRecordBatchStream> {
        let (batches, fits) = self.read_build_side().await?;
        let left_schema = self.left.schema();
        let reporter = self.reporter.take();
        if !fits {
            drop(reporter); // the other partitions do not wait for this one
            let left = Box::pin(RecordBatchStreamAdapter::new(
                left_schema,
                released(batches, self.reservation).chain(self.left),
            ));
            return merge(&self.join, left, self.right, &self.context, &self.merged, &self.ran);
        }
        // They are kept until the hash join's table is made, which is when it reads the probe side.
        let kept: Vec<RecordBatch> = batches.into_iter().map(|(batch, _)| batch).collect();
        if let Some(reporter) = reporter {
            reporter.report(&kept, &left_schema).await;
        }
        self.reservation.free(); // the hash join reserves the batches again
        let build = in_memory(&left_schema, kept.clone());
        let kept = Arc::new(Mutex::new(kept));
        let right = OneShotInput::new(releasing(&kept, self.right));
        let hash_join = run_hash_join(&self.join, OneShotInput::new(build), &right)?;
        let mut rows = hash_join.execute(0, Arc::clone(&self.context))?;
        match rows.next().await {
            Some(Err(error)) if is_exhausted(&error) => {
                let batches = std::mem::take(&mut *lock(&kept));
                let Some(right) = right.take() else {
                    return Err(error);
                };
                let left = in_memory(&left_schema, batches);
                merge(&self.join, left, right, &self.context, &self.merged, &self.ran)
            }
            first => {
                lock(&self.ran).push(hash_join);
                let rows = futures::stream::iter(first).chain(rows);
                Ok(Box::pin(RecordBatchStreamAdapter::new(self.join.schema(), rows)))
            }
        }
    }

    /// Reads the build side. False if it does not fit: its last batches are then not read.
    async fn read_build_side(&mut self) -> Result<(Vec<SizedBatch>, bool)> {
        let mut batches = Vec::new();
        let mut counter = RecordBatchMemoryCounter::new();
        let mut table_bytes = 0;
        while let Some(batch) = self.left.next().await.transpose()? {
            let bytes = counter.count_batch(&batch);
            table_bytes += batch.num_rows() * HASH_TABLE_ROW_BYTES;
            let wanted = self.reservation.size() + bytes + table_bytes;
            let fits = wanted <= self.share() && self.reservation.try_grow(bytes).is_ok();
            batches.push((batch, if fits { bytes } else { 0 }));
            if !fits {
                return Ok((batches, false));
            }
        }
        Ok((batches, true))
    }

    /// A third of the memory that other operators leave, divided by the partitions. So a build side leaves memory for
    /// the joins and sorts above it.
    fn share(&self) -> usize {
        let pool: &dyn MemoryPool = self.context.memory_pool().as_ref();
        let MemoryLimit::Finite(limit) = pool.memory_limit() else {
            return usize::MAX;
        };
        let others = pool.reserved().saturating_sub(self.reservation.size());
        limit.saturating_sub(others) / 3 / self.partitions.max(1)
    }
}

fn is_exhausted(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

fn in_memory(schema: &SchemaRef, batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let batches = futures::stream::iter(batches.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches))
}

/// The probe side, whose first poll drops the batches in `kept`.
fn releasing(kept: &Arc<Mutex<Vec<RecordBatch>>>, right: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let (kept, schema) = (Arc::clone(kept), right.schema());
    let rows = futures::stream::once(async move {
        lock(&kept).clear();
        Ok::<_, DataFusionError>(right)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows.try_flatten()))
}

/// The batches, each released from the reservation when it is passed on.
fn released(
    batches: Vec<SizedBatch>,
    reservation: MemoryReservation,
) -> impl futures::Stream<Item = Result<RecordBatch>> + Send {
    futures::stream::iter(batches).map(move |(batch, bytes)| {
        reservation.try_shrink(bytes)?;
        Ok(batch)
    })
}

/// The hash join over these inputs of one partition.
fn run_hash_join(join: &HashJoinExec, left: OneShotInput, right: &OneShotInput) -> Result<Arc<dyn ExecutionPlan>> {
    let builder = join.builder().reset_state().recompute_properties();
    let builder = builder.with_new_children(vec![left.plan()?, right.plan()?])?;
    builder.with_partition_mode(PartitionMode::Partitioned).build_exec()
}

/// Starts the sort-merge join over these inputs of one partition.
fn merge(
    join: &HashJoinExec,
    left: SendableRecordBatchStream,
    right: SendableRecordBatchStream,
    context: &Arc<TaskContext>,
    merged: &Count,
    ran: &Mutex<Vec<Arc<dyn ExecutionPlan>>>,
) -> Result<SendableRecordBatchStream> {
    merged.add(1);
    let (left_keys, right_keys) = join.on().iter().cloned().unzip();
    let sorted_left = sorted(OneShotInput::new(left), left_keys)?;
    let sorted_right = sorted(OneShotInput::new(right), right_keys)?;
    let plan = Arc::new(SortMergeJoinExec::try_new(
        sorted_left,
        sorted_right,
        join.on().to_vec(),
        join.filter().cloned(),
        *join.join_type(),
        vec![SortOptions::default(); join.on().len()],
        join.null_equality(),
    )?);
    let rows = plan.execute(0, Arc::clone(context))?;
    lock(ran).push(plan);
    let (schema, projection) = (join.schema(), join.projection.clone());
    let mut remaining = join.fetch().unwrap_or(usize::MAX);
    let out_schema = Arc::clone(&schema);
    let rows = rows.map(move |batch| {
        let batch = batch?;
        let rows = batch.num_rows().min(remaining);
        remaining -= rows;
        let columns = match projection.as_deref() {
            Some(columns) => columns
                .iter()
                .map(|&column| batch.column(column).slice(0, rows))
                .collect(),
            None => batch.columns().iter().map(|column| column.slice(0, rows)).collect(),
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&out_schema), columns, &options)?;
        Ok((batch, remaining == 0))
    });
    // The batch that reaches the limit is the last one.
    let mut is_over = false;
    let rows = rows.take_while(move |batch| {
        let was_over = is_over;
        is_over |= matches!(batch, Ok((_, true)));
        futures::future::ready(!was_over)
    });
    let rows = rows.map_ok(|(batch, _)| batch);
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
}

/// The input sorted by its join keys.
fn sorted(input: OneShotInput, keys: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = keys
        .into_iter()
        .map(|key| PhysicalSortExpr::new(key, SortOptions::default()));
    match LexOrdering::new(keys) {
        Some(order) => Ok(Arc::new(SortExec::new(order, input.plan()?))),
        None => internal_err!("a hash join has no keys"),
    }
}

/// Locks a mutex. Holders leave whole values.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
