//! `BuildSideFilter`: the dynamic filter of a join that reads its build side partition by partition.
//!
//! Each partition reports the keys of its build side. When all have reported, the filter becomes the bounds of all keys
//! and, if they are few, the keys themselves. Of more keys it has a set of bits. A partition whose build side does not
//! fit in memory, or that is dropped, reports nothing known, and the filter stays true. So does it if a key cannot be
//! evaluated: the join itself says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::{NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};
use tokio::sync::Notify;

use super::key_set::{BYTES_PER_KEY, KeySet, KeySetExpr, Keys, MAX_KEYS};

/// Maximum keys of a build side that the filter compares one by one.
const MAX_LISTED_KEYS: usize = 16_384;

/// The filter of one join operator.
#[derive(Debug)]
pub(super) struct BuildSideFilter {
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The join's keys, of the build side and of the probe side.
    keys: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    probe_schema: SchemaRef,
    reports: Mutex<Vec<Report>>,
    /// Told when all partitions have reported.
    complete: Notify,
}

/// What is known of the build side of a partition.
#[derive(Debug)]
enum Report {
    /// The partition is not executed yet.
    NotBegun,
    /// The partition reads its build side.
    Pending,
    /// All keys of the partition.
    Keys(BuildKeys),
    /// It may have any keys.
    Unknown,
}

impl BuildSideFilter {
    /// The filter that `join` makes. `None`: it makes none, or the filter would have to let NULL pass.
    pub(super) fn of(join: &HashJoinExec) -> Option<Arc<Self>> {
        let produced = join.dynamic_expressions_produced().into_iter().next()?;
        let filter = Arc::downcast::<DynamicFilterPhysicalExpr>(produced).ok()?;
        if join.null_equality() != NullEquality::NullEqualsNothing {
            return None;
        }
        let partitions = join.left().output_partitioning().partition_count();
        Some(Arc::new(Self {
            filter,
            keys: join.on().to_vec(),
            probe_schema: join.right().schema(),
            reports: Mutex::new((0..partitions).map(|_| Report::NotBegun).collect()),
            complete: Notify::new(),
        }))
    }

    /// Begins a partition, which has to report.
    pub(super) fn begin(self: &Arc<Self>, partition: usize, pool: &Arc<dyn MemoryPool>) -> Reporter {
        if let Some(report @ Report::NotBegun) = self.lock().get_mut(partition) {
            *report = Report::Pending;
        }
        Reporter {
            filter: Arc::clone(self),
            partition,
            pool: Arc::clone(pool),
        }
    }

    /// Waits until each partition that has begun has reported. A partition that is never executed is not waited for.
    pub(super) async fn wait(&self) {
        loop {
            let told = self.complete.notified();
            if !self.lock().iter().any(|report| matches!(report, Report::Pending)) {
                return;
            }
            told.await;
        }
    }

    /// Locks the reports. Holders leave whole values.
    fn lock(&self) -> MutexGuard<'_, Vec<Report>> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the report of a partition. Later executions of the partition find the same rows, so the first report
    /// stays. The last report makes the filter.
    fn report(&self, partition: usize, report: Report, pool: &Arc<dyn MemoryPool>) {
        let mut reports = self.lock();
        match reports.get_mut(partition) {
            Some(pending @ Report::Pending) => *pending = report,
            _ => return,
        }
        self.make_if_complete(&mut reports, pool);
        drop(reports);
        self.complete.notify_waiters();
    }

    fn make_if_complete(&self, reports: &mut [Report], pool: &Arc<dyn MemoryPool>) {
        let is_open = |report: &Report| matches!(report, Report::NotBegun | Report::Pending);
        if reports.iter().any(is_open) {
            return;
        }
        let known = reports.iter().map(|report| match report {
            Report::Keys(keys) => Some(keys),
            _ => None,
        });
        let known: Option<Vec<&BuildKeys>> = known.collect();
        if let Some(Ok(made)) = known.map(|known| self.make(&known, pool)) {
            // Without the update, the filter lets all rows pass.
            let _ = self.filter.update(made);
        }
        // The keys are in the filter now.
        reports.fill_with(|| Report::Unknown);
        self.filter.mark_complete();
    }

    /// The filter of the keys of all partitions.
    fn make(&self, known: &[&BuildKeys], pool: &Arc<dyn MemoryPool>) -> Result<Arc<dyn PhysicalExpr>> {
        let rows: usize = known.iter().map(|keys| keys.rows).sum();
        if rows == 0 {
            return Ok(lit(false));
        }
        let mut parts = Vec::new();
        for (at, (_, probe)) in self.keys.iter().enumerate() {
            let bounds = known.iter().filter_map(|keys| keys.bounds.get(at));
            parts.extend(between(bounds, probe)?);
            if rows <= MAX_LISTED_KEYS {
                let listed = known.iter().filter_map(|keys| keys.listed.get(at));
                let listed: Vec<&dyn Array> = listed.map(AsRef::as_ref).collect();
                let any =
                    InListExpr::try_new_from_array(Arc::clone(probe), concat(&listed)?, false, &self.probe_schema)?;
                parts.push(Arc::new(any));
            } else if rows <= MAX_KEYS
                && let Some(keys) = known.iter().map(|keys| keys.values.get(at)).collect::<Option<Vec<_>>>()
                && let Some(keys) = KeySet::new(&keys, pool)
            {
                parts.push(Arc::new(KeySetExpr {
                    value: Arc::clone(probe),
                    keys: Arc::new(keys),
                }));
            }
        }
        Ok(conjunction(parts))
    }
}

/// The keys of one partition's build side.
#[derive(Debug)]
struct BuildKeys {
    rows: usize,
    /// By key: the least and the greatest value. NULL: all values are NULL.
    bounds: Vec<[ScalarValue; 2]>,
    /// By key: the values, if they are at most [`MAX_LISTED_KEYS`].
    listed: Vec<ArrayRef>,
    /// By key: the values in few bytes. Empty: they are too many, or the pool has no memory for them.
    values: Vec<Keys>,
    /// The memory of `values`.
    _reservation: MemoryReservation,
}

impl BuildKeys {
    /// The values of the key expressions `keys` over `batches`, which have `schema`.
    fn of<'a>(
        keys: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>,
        batches: &[RecordBatch],
        schema: &SchemaRef,
        pool: &Arc<dyn MemoryPool>,
    ) -> Result<Self> {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let reservation = MemoryConsumer::new("JoinFilter").register(pool);
        let (mut bounds, mut listed, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let data_type = key.data_type(schema)?;
            let mut least = MinAccumulator::try_new(&data_type)?;
            let mut greatest = MaxAccumulator::try_new(&data_type)?;
            let is_kept = rows <= MAX_KEYS && reservation.try_grow(rows * BYTES_PER_KEY).is_ok();
            let mut kept = is_kept.then(|| Keys::new(&data_type));
            let mut arrays = vec![new_empty_array(&data_type)];
            for batch in batches {
                let array = key.evaluate(batch)?.into_array(batch.num_rows())?;
                least.update_batch(std::slice::from_ref(&array))?;
                greatest.update_batch(std::slice::from_ref(&array))?;
                if let Some(kept) = &mut kept {
                    kept.add(&array)?;
                }
                if rows <= MAX_LISTED_KEYS {
                    arrays.push(array);
                }
            }
            bounds.push([least.evaluate()?, greatest.evaluate()?]);
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            listed.push(concat(&arrays)?);
            values.extend(kept);
        }
        // A key without its values would shift the others.
        if values.len() < listed.len() {
            values.clear();
        }
        Ok(Self {
            rows,
            bounds,
            listed,
            values,
            _reservation: reservation,
        })
    }
}

/// `probe` between the least and the greatest of all bounds, if there is one that is not NULL.
fn between<'a>(
    bounds: impl Iterator<Item = &'a [ScalarValue; 2]>,
    probe: &Arc<dyn PhysicalExpr>,
) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let bounds = bounds.map(|[least, greatest]| (least.clone(), greatest.clone()));
    let (least, greatest): (Vec<_>, Vec<_>) = bounds.unzip();
    let (least, greatest) = (
        ScalarValue::iter_to_array(least)?,
        ScalarValue::iter_to_array(greatest)?,
    );
    let mut first = MinAccumulator::try_new(least.data_type())?;
    let mut last = MaxAccumulator::try_new(greatest.data_type())?;
    first.update_batch(&[least])?;
    last.update_batch(&[greatest])?;
    let bounds = [(Operator::GtEq, first.evaluate()?), (Operator::LtEq, last.evaluate()?)];
    let known = bounds.into_iter().filter(|(_, bound)| !bound.is_null());
    let compare = |(operator, bound)| -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::clone(probe), operator, lit::<ScalarValue>(bound)))
    };
    Ok(known.map(compare).collect())
}

/// The duty of one partition to report. A reporter that is dropped reports that nothing is known.
pub(super) struct Reporter {
    filter: Arc<BuildSideFilter>,
    partition: usize,
    /// The pool of the partition's execution.
    pool: Arc<dyn MemoryPool>,
}

impl Reporter {
    /// Reports the whole build side of the partition, `batches` of `schema`, and waits for the other partitions.
    pub(super) async fn report(self, batches: &[RecordBatch], schema: &SchemaRef) {
        let keys = self.filter.keys.iter().map(|(build, _)| build);
        let report = BuildKeys::of(keys, batches, schema, &self.pool).map_or(Report::Unknown, Report::Keys);
        let filter = Arc::clone(&self.filter);
        filter.report(self.partition, report, &self.pool);
        filter.wait().await;
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // After `report`, this changes nothing.
        self.filter.report(self.partition, Report::Unknown, &self.pool);
    }
}
