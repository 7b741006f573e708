//! `BuildSideFilter`: the dynamic filter of a join that reads its build side partition by partition.
//!
//! Each partition reports the keys of its build side. When all have reported, the filter becomes the bounds of all keys
//! and, if they are few, the keys themselves. A partition whose build side does not fit in memory, or that is dropped,
//! reports nothing known, and the filter stays true.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat;
use arrow::datatypes::SchemaRef;
use datafusion::common::{NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::conjunction;
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, InListExpr, lit};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PhysicalExpr};
use tokio::sync::Notify;

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
enum Report {
    /// The partition is not executed yet.
    NotBegun,
    /// The partition reads its build side.
    Pending,
    /// The values of each key.
    Keys(Vec<ArrayRef>),
    /// It may have any keys.
    Unknown,
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotBegun => "NotBegun",
            Self::Pending => "Pending",
            Self::Keys(_) => "Keys",
            Self::Unknown => "Unknown",
        })
    }
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
    pub(super) fn begin(self: &Arc<Self>, partition: usize) -> Reporter {
        if let Some(report @ Report::NotBegun) = self.lock().get_mut(partition) {
            *report = Report::Pending;
        }
        Reporter {
            filter: Arc::clone(self),
            partition,
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
    fn report(&self, partition: usize, report: Report) -> Result<()> {
        let mut reports = self.lock();
        match reports.get_mut(partition) {
            Some(pending @ Report::Pending) => *pending = report,
            _ => return Ok(()),
        }
        let made = self.make_if_complete(&mut reports);
        drop(reports);
        self.complete.notify_waiters();
        made
    }

    fn make_if_complete(&self, reports: &mut [Report]) -> Result<()> {
        if reports
            .iter()
            .any(|report| matches!(report, Report::NotBegun | Report::Pending))
        {
            return Ok(());
        }
        let known: Vec<&[ArrayRef]> = reports
            .iter()
            .filter_map(|report| match report {
                Report::Keys(keys) => Some(keys.as_slice()),
                _ => None,
            })
            .collect();
        let made = match known.len() == reports.len() {
            true => self.make(&known).and_then(|made| self.filter.update(made)),
            false => Ok(()),
        };
        // The keys are in the filter now.
        reports.fill_with(|| Report::Unknown);
        self.filter.mark_complete();
        made
    }

    /// The filter of these keys, by partition and key.
    fn make(&self, known: &[&[ArrayRef]]) -> Result<Arc<dyn PhysicalExpr>> {
        let rows: usize = known.iter().filter_map(|keys| keys.first()).map(|key| key.len()).sum();
        if rows == 0 {
            return Ok(lit(false));
        }
        let mut parts = Vec::new();
        for (at, (_, probe)) in self.keys.iter().enumerate() {
            let arrays: Vec<&ArrayRef> = known.iter().filter_map(|keys| keys.get(at)).collect();
            parts.extend(bounds(&arrays, probe)?);
            if rows <= MAX_LISTED_KEYS {
                let arrays: Vec<&dyn Array> = arrays.iter().map(|array| array.as_ref()).collect();
                let listed =
                    InListExpr::try_new_from_array(Arc::clone(probe), concat(&arrays)?, false, &self.probe_schema)?;
                parts.push(Arc::new(listed));
            }
        }
        Ok(conjunction(parts))
    }
}

/// `probe` between the least and the greatest of the values, if there is one that is not NULL.
fn bounds(values: &[&ArrayRef], probe: &Arc<dyn PhysicalExpr>) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let Some(first) = values.first() else {
        return Ok(Vec::new());
    };
    let mut least = MinAccumulator::try_new(first.data_type())?;
    let mut greatest = MaxAccumulator::try_new(first.data_type())?;
    for &array in values {
        least.update_batch(std::slice::from_ref(array))?;
        greatest.update_batch(std::slice::from_ref(array))?;
    }
    let bounds = [
        (Operator::GtEq, least.evaluate()?),
        (Operator::LtEq, greatest.evaluate()?),
    ];
    let compare = |(operator, bound)| -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::clone(probe), operator, lit(bound)))
    };
    let known = bounds
        .into_iter()
        .filter(|(_, bound): &(_, ScalarValue)| !bound.is_null());
    Ok(known.map(compare).collect())
}

/// The duty of one partition to report. A reporter that is dropped reports that nothing is known.
pub(super) struct Reporter {
    filter: Arc<BuildSideFilter>,
    partition: usize,
}

impl Reporter {
    /// Reports the whole build side of the partition, and waits for the other partitions.
    ///
    /// # Errors
    /// If a key cannot be evaluated.
    pub(super) async fn report(self, batches: &[RecordBatch], schema: &SchemaRef) -> Result<()> {
        let whole = arrow::compute::concat_batches;
        let mut keys = Vec::with_capacity(self.filter.keys.len());
        for (build, _) in &self.filter.keys {
            let mut parts = Vec::with_capacity(batches.len());
            for batch in batches {
                parts.push(build.evaluate(batch)?.into_array(batch.num_rows())?);
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            keys.push(match parts.is_empty() {
                true => build.evaluate(&whole(schema, [])?)?.into_array(0)?,
                false => concat(&parts)?,
            });
        }
        let filter = Arc::clone(&self.filter);
        filter.report(self.partition, Report::Keys(keys))?;
        filter.wait().await;
        Ok(())
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // After `report`, this changes nothing.
        let _ = self.filter.report(self.partition, Report::Unknown);
    }
}
