//! `OrcScanExec`: the on-demand scan as a DataFusion operator.

use std::fmt;
use std::sync::Arc;

use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties, ReplaceChildrenOptions,
};

use super::Scan;
use super::metrics::{ScanMetrics, with_amplification};
use super::partition_stream::PartitionStream;
use super::predicate_cascade::PredicateCascade;
use super::scan_ranges::{ScanRange, Skipped};
use super::work_stealing::Executions;

/// A scan of ORC files. Reads only the bytes that the filter and the passing rows need.
#[derive(Debug, Clone)]
pub(crate) struct OrcScanExec {
    scan: Arc<Scan>,
    /// Ranges by partition.
    work: Arc<Vec<Vec<ScanRange>>>,
    executions: Executions,
    limit: Option<usize>,
    skipped: Skipped,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// The reason why the GPU does not aggregate the scan's rows, if the session asked for the GPU.
    note: Option<Arc<str>>,
}

impl OrcScanExec {
    pub(super) fn new(
        scan: Scan,
        work: Vec<Vec<ScanRange>>,
        limit: Option<usize>,
        skipped: Skipped,
        statistics: Statistics,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scan.projected)),
            Partitioning::UnknownPartitioning(work.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            scan: Arc::new(scan),
            work: Arc::new(work),
            executions: Executions::default(),
            limit,
            skipped,
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
            note: None,
        }
    }

    /// The same scan. EXPLAIN shows `note`, the reason why the GPU does not aggregate its rows.
    pub(crate) fn with_note(&self, note: Arc<str>) -> Self {
        let mut noted = self.clone();
        noted.note = Some(note);
        noted
    }

    /// Stripes and row groups that planning left out.
    pub(crate) fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// The plan of the scan.
    pub(crate) fn scan(&self) -> &Scan {
        &self.scan
    }

    /// The plan of the scan, for use after the operator is dropped.
    pub(crate) fn shared(&self) -> Arc<Scan> {
        Arc::clone(&self.scan)
    }

    /// The row groups that each partition begins with, before work stealing.
    pub(crate) fn work(&self) -> &[Vec<ScanRange>] {
        &self.work
    }

    /// Maximum rows that a partition emits.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Rows of the row groups of one partition, before work stealing.
    fn partition_rows(&self, partition: usize) -> usize {
        self.work[partition].iter().map(|work| work.rows).sum::<u64>() as usize
    }
}

impl DisplayAs for OrcScanExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name_of = |&column: &usize| self.scan.table.field(column).name();
        let columns: Vec<String> = (self.scan.projection.iter())
            .map(|column| format!("{} ({})", name_of(column), self.scan.cost(*column).word()))
            .collect();
        let filter: Vec<String> = (self.scan.order.iter())
            .map(|&at| {
                let conjunct = &self.scan.conjuncts[at];
                let words = conjunct.columns.iter().map(|&column| self.scan.cost(column).word());
                // The conjunct has the word of its most expensive column.
                let word = words.max_by_key(|word| *word != "direct").unwrap_or("constant");
                format!("{} ({word})", fmt_sql(conjunct.expr.as_ref()))
            })
            .collect();
        let stripes = self.skipped.stripes_total - self.skipped.stripes;
        let files = self.scan.files.len();
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(
                    f,
                    "OrcScanExec: files={files}, stripes={stripes}/{}",
                    self.skipped.stripes_total
                )?;
                write!(f, ", columns=[{}]", columns.join(", "))?;
                if !filter.is_empty() {
                    write!(f, ", filter=[{}]", filter.join(", "))?;
                }
                if let Some(limit) = self.limit {
                    write!(f, ", limit={limit}")?;
                }
                if let Some(note) = &self.note {
                    write!(f, ", not on the GPU: {note}")?;
                }
                Ok(())
            }
            DisplayFormatType::TreeRender => {
                writeln!(f, "files={files}")?;
                writeln!(f, "stripes={stripes}/{}", self.skipped.stripes_total)?;
                writeln!(f, "columns={}", columns.join(", "))?;
                if !filter.is_empty() {
                    writeln!(f, "filter={}", filter.join(", "))?;
                }
                if let Some(limit) = self.limit {
                    writeln!(f, "limit={limit}")?;
                }
                if let Some(note) = &self.note {
                    writeln!(f, "not on the GPU={note}")?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for OrcScanExec {
    fn name(&self) -> &'static str {
        "OrcScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for conjunct in &self.scan.conjuncts {
            if f(&conjunct.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("OrcScanExec has no children"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("OrcScanExec has no children"),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition >= self.work.len() {
            return internal_err!("OrcScanExec has {} partitions, not {partition}", self.work.len());
        }
        let metrics = ScanMetrics::new(&self.metrics, partition);
        if partition == 0 {
            metrics.row_groups_total.add(self.skipped.row_groups_total);
            metrics.row_groups_skipped.add(self.skipped.row_groups);
            metrics.stripes_skipped.add(self.skipped.stripes);
        }
        let consumer = MemoryConsumer::new(format!("OrcScan[{partition}]"));
        let stream = PartitionStream {
            cascade: PredicateCascade::new(&self.scan),
            scan: Arc::clone(&self.scan),
            queues: self.executions.begin(&context, partition, &self.work),
            partition,
            batch_rows: context.session_config().batch_size().max(1),
            remaining: self.limit,
            metrics,
            reservation: Arc::new(consumer.register(context.memory_pool())),
            stripe: None,
            ready: None,
        };
        let schema = Arc::clone(&self.scan.projected);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.into_stream())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(with_amplification(self.metrics.clone_inner()))
    }

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let whole = match args.partition() {
            None => Statistics::clone(&self.statistics),
            Some(partition) => {
                let rows = self.partition_rows(partition);
                let mut part = Statistics::new_unknown(&self.scan.projected);
                part.num_rows = Precision::Inexact(rows);
                part
            }
        };
        match self.limit {
            None => Ok(Arc::new(whole)),
            Some(_) => {
                let partitions = if args.partition().is_some() { 1 } else { self.work.len() };
                Ok(Arc::new(whole.with_fetch(self.limit, 0, partitions)?))
            }
        }
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut limited = self.clone();
        limited.limit = limit;
        Some(Arc::new(limited))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }
}
