//! `OrcScanExec`: the on-demand scan as a DataFusion operator.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};

use super::Scan;
use super::coded_strings::coded_type;
use super::conjunct::Conjunct;
use super::dynamic_filters::{DynamicFilters, is_constant, over_table};
use super::execution_listener::{ExecutionListener, WatchedExecution};
use super::filter_sample::sample;
use super::metrics::{ScanMetrics, with_amplification};
use super::partition_stream::{Demand, PartitionStream, ReadyBatches};
use super::predicate_cascade::PredicateCascade;
use super::scan_memory::ScanMemory;
use super::scan_ranges::{PlannedStripe, ScanRange, Skipped, work_of};
use super::selectivity_estimate::scan_statistics;
use super::table_pruning::filtered;
use super::work_stealing::{ContextQueues, RangeCuts};
use crate::plan_methods::leaf_plan;

/// A scan of ORC files. Reads only the bytes that the filter and the passing rows need.
#[derive(Debug, Clone)]
pub(crate) struct OrcScanExec {
    scan: Arc<Scan>,
    /// Ranges by partition.
    work: Arc<Vec<Vec<ScanRange>>>,
    queues: ContextQueues,
    /// All stripes that may have rows that pass. `work` has the first ones only, if they are enough for the limit.
    stripes: Arc<[PlannedStripe]>,
    limit: Option<usize>,
    /// The scan was planned without the filters of the operators above.
    takes_all_filters: bool,
    skipped: Skipped,
    statistics: Arc<Statistics>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
    /// The reason why the GPU does not aggregate the scan's rows, if the session asked for the GPU.
    note: Option<Arc<str>>,
    /// Told when the scan is executed.
    watched: Option<Arc<WatchedExecution>>,
    /// Filters of operators above.
    dynamic: DynamicFilters,
}

impl OrcScanExec {
    pub(super) fn new(
        scan: Scan,
        stripes: Vec<PlannedStripe>,
        target_partitions: usize,
        limit: Option<usize>,
        skipped: Skipped,
        statistics: Statistics,
    ) -> Self {
        let work = work_of(&scan, &stripes, target_partitions, limit);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scan.projected)),
            Partitioning::UnknownPartitioning(work.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            scan: Arc::new(scan),
            work: Arc::new(work),
            queues: ContextQueues::default(),
            stripes: stripes.into(),
            limit,
            takes_all_filters: false,
            skipped,
            statistics: Arc::new(statistics),
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
            note: None,
            watched: None,
            dynamic: DynamicFilters::default(),
        }
    }

    /// The same scan, which emits the strings of `columns` as dictionaries ([`coded_type`]). `columns` are places among
    /// the emitted columns.
    pub(crate) fn with_coded(&self, columns: &[usize]) -> Result<Self> {
        let mut scan = Scan::clone(&self.scan);
        let mut fields = scan.projected.fields().to_vec();
        for &at in columns {
            scan.coded.push(scan.projection[at]);
            fields[at] = Arc::new(fields[at].as_ref().clone().with_data_type(coded_type()));
        }
        scan.projected = Arc::new(Schema::new_with_metadata(fields, scan.projected.metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&scan.projected)),
            self.properties.partitioning.clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Self {
            scan: Arc::new(scan),
            properties: Arc::new(properties),
            ..self.clone()
        })
    }

    /// Whether strings of an emitted column come from dictionaries, as far as the first stripe tells. A filter column's
    /// values are expanded when they pass.
    pub(crate) fn may_be_coded(&self, column: usize) -> bool {
        let Some(&of_table) = self.scan.projection.get(column) else {
            return false;
        };
        *self.scan.table.field(of_table).data_type() == DataType::Utf8
            && self.scan.distinct.iter().any(|(known, _)| *known == of_table)
            && !self
                .scan
                .conjuncts
                .iter()
                .any(|conjunct| conjunct.columns.contains(&of_table))
    }

    /// The same scan, which evaluates filters of the operators above in their stead.
    pub(crate) fn taking_all_filters(mut self) -> Self {
        self.takes_all_filters = true;
        self
    }

    /// The same scan, which has no limit, with the dynamic ones of `filters` over the emitted columns.
    pub(crate) fn with_dynamic_filters(mut self, filters: &[Arc<dyn PhysicalExpr>]) -> Result<Self> {
        self.dynamic = DynamicFilters::of(filters.iter(), &self.scan)?;
        Ok(self)
    }

    /// The same scan, which emits only rows that pass `filters` over the emitted columns. It has no limit. The
    /// operators above rely on the number of partitions.
    fn with_filters(&self, filters: &[&Arc<dyn PhysicalExpr>], default_selectivity: u8) -> Result<Self> {
        let conjuncts = filters
            .iter()
            .map(|filter| Conjunct::new(over_table(filter, &self.scan)?, &self.scan.table));
        let conjuncts = conjuncts.collect::<Result<_>>()?;
        let (scan, stripes, skipped) = filtered(&self.scan, &self.stripes, self.skipped, conjuncts);
        let statistics = scan_statistics(&scan, &stripes, default_selectivity, None)?;
        let mut work = work_of(&scan, &stripes, self.work.len(), None);
        work.resize_with(self.work.len(), Vec::new);
        Ok(Self {
            scan: Arc::new(scan),
            work: Arc::new(work),
            stripes: stripes.into(),
            skipped,
            statistics: Arc::new(statistics),
            ..self.clone()
        })
    }

    /// The same scan. EXPLAIN shows `note`, the reason why the GPU does not aggregate its rows. `listener` is told of
    /// the end of each execution.
    pub(crate) fn with_note(&self, note: Arc<str>, listener: Option<Arc<dyn ExecutionListener>>) -> Self {
        let mut noted = self.clone();
        noted.note = Some(note);
        noted.watched = listener.map(WatchedExecution::new);
        noted
    }

    /// The same scan, whose number of rows is estimated from a sample of the files. `None`: the sample says nothing.
    /// `default_selectivity` is as in [`scan_statistics`].
    pub(crate) fn with_sample(&self, default_selectivity: u8) -> Option<Self> {
        // The scan reports what is wrong with the files.
        let sample = sample(&self.scan, &self.stripes).ok()??;
        let statistics = scan_statistics(&self.scan, &self.stripes, default_selectivity, Some(sample)).ok()?;
        Some(Self {
            statistics: Arc::new(statistics),
            ..self.clone()
        })
    }

    /// The reason why the GPU does not aggregate the scan's rows, if planning gave one.
    pub(crate) fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Stripes that statistics exclude show that a filter follows the order of rows: the others have few rows that
    /// pass, next to each other.
    fn range_cuts(&self) -> RangeCuts {
        RangeCuts {
            min_half_rows: self.scan.options.min_half_rows(),
            are_early: self.skipped.stripes > 0,
        }
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

    /// As [`work`](Self::work), for use after the operator is dropped.
    pub(crate) fn shared_work(&self) -> Arc<Vec<Vec<ScanRange>>> {
        Arc::clone(&self.work)
    }

    /// Maximum rows that a partition emits.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// Rows of the row groups of one partition, before work stealing.
    fn partition_rows(&self, partition: usize) -> usize {
        let work = self.work.get(partition).map_or(&[][..], Vec::as_slice);
        work.iter().map(|work| work.rows).sum::<u64>() as usize
    }

    /// The share of one partition in the rows without the limit, before work stealing.
    fn part_of(&self, partition: usize) -> Precision<usize> {
        let total: u64 = self.stripes.iter().map(|stripe| stripe.rows).sum();
        match self.statistics.num_rows.get_value() {
            Some(&rows) => {
                let part = rows as u128 * self.partition_rows(partition) as u128 / u128::from(total.max(1));
                Precision::Inexact(part as usize)
            }
            None => Precision::Absent,
        }
    }

    /// The number of rows that all partitions emit, or one of them. `rows` is the number without the limit.
    ///
    /// Each partition stops at the limit by itself, and work stealing decides which partition has how many rows. So the
    /// number is exact if no partition can reach the limit, or if there is only one.
    fn limited_rows(&self, rows: Precision<usize>, partition: Option<usize>) -> Precision<usize> {
        let Some(limit) = self.limit else { return rows };
        let is_whole = partition.is_none() || self.work.len() == 1;
        match rows {
            Precision::Exact(rows) if is_whole && rows <= limit => Precision::Exact(rows),
            Precision::Exact(rows) if is_whole && self.work.len() == 1 => Precision::Exact(rows.min(limit)),
            Precision::Exact(rows) if is_whole => {
                let parts = (0..self.work.len()).map(|partition| self.partition_rows(partition).min(limit));
                Precision::Inexact(parts.sum::<usize>().min(rows))
            }
            rows => {
                let partitions = if partition.is_some() { 1 } else { self.work.len() };
                rows.to_inexact()
                    .min(&Precision::Inexact(limit.saturating_mul(partitions)))
            }
        }
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
        // A dynamic filter has no text before the query runs.
        let dynamic: Vec<String> = (self.dynamic.conjuncts().iter())
            .flat_map(|filter| &filter.columns)
            .map(|column| format!("{} ({})", name_of(column), self.scan.cost(*column).word()))
            .collect();
        let stripes = self.skipped.stripes_total - self.skipped.stripes;
        let files = match self.skipped.files {
            0 => self.scan.files.len().to_string(),
            _ => format!("{}/{}", self.scan.files.len(), self.skipped.files_total),
        };
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
                if !dynamic.is_empty() {
                    write!(f, ", dynamic_filter=[{}]", dynamic.join(", "))?;
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
                if !dynamic.is_empty() {
                    writeln!(f, "dynamic_filter={}", dynamic.join(", "))?;
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

    leaf_plan!();

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // A join makes its filter only if it finds the filter here.
        for conjunct in self.scan.conjuncts.iter().chain(self.dynamic.conjuncts()) {
            if f(&conjunct.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
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
        let stream = PartitionStream {
            cascade: PredicateCascade::new(&self.scan, self.dynamic.begin(&context, partition)),
            scan: Arc::clone(&self.scan),
            work: self.queues.begin(&context, partition, &self.work, self.range_cuts()),
            batch_rows: context.session_config().batch_size().max(1),
            remaining: self.limit,
            metrics: Arc::new(metrics),
            memory: ScanMemory::new(context.memory_pool(), partition, self.work.len()),
            stripe: None,
            next: None,
            demand: Demand::default(),
            ready: ReadyBatches::default(),
            _watched: self.watched.as_ref().map(WatchedExecution::stream),
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
        let mut statistics = match args.partition() {
            None => Statistics::clone(&self.statistics),
            Some(partition) => {
                let mut part = Statistics::new_unknown(&self.scan.projected);
                part.num_rows = self.part_of(partition);
                part
            }
        };
        let rows = self.limited_rows(statistics.num_rows, args.partition());
        if self.limit.is_some() {
            let partitions = if args.partition().is_some() { 1 } else { self.work.len() };
            statistics = statistics.with_fetch(self.limit, 0, partitions)?;
        }
        statistics.num_rows = rows;
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if !self.dynamic.is_empty() {
            return None; // the first rows of the scan would be other ones
        }
        let mut limited = self.clone();
        limited.limit = limit;
        let is_raised = limit.unwrap_or(usize::MAX) > self.limit.unwrap_or(usize::MAX);
        if is_raised && self.scan.conjuncts.is_empty() {
            // The ranges were enough for the old limit. The operators above rely on the number of partitions.
            let partitions = self.work.len();
            let mut work = work_of(&self.scan, &self.stripes, partitions, limit);
            work.resize_with(partitions, Vec::new);
            limited.work = Arc::new(work);
        }
        Some(Arc::new(limited))
    }

    /// Takes filters, unless the scan has a limit: the filters would exclude rows before it. A scan that was planned
    /// without filters evaluates the constant ones for each row, and no operator does so again. The operators that make
    /// dynamic filters exclude the same rows again, so the answer is that these are not supported.
    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        filters: ChildPushdownResult,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let parents = || filters.parent_filters.iter().map(|filter| &filter.filter);
        if self.limit.is_none() && self.takes_all_filters && matches!(phase, FilterPushdownPhase::Pre) {
            let constant: Vec<_> = parents().filter(|filter| is_constant(filter)).collect();
            if !constant.is_empty() {
                let filtered = self.with_filters(&constant, config.optimizer.default_filter_selectivity)?;
                let answers = parents().map(|filter| match is_constant(filter) {
                    true => PushedDown::Yes,
                    false => PushedDown::No,
                });
                let answer = FilterPushdownPropagation::with_parent_pushdown_result(answers.collect());
                return Ok(answer.with_updated_node(Arc::new(filtered)));
            }
        }
        let taken = match phase {
            FilterPushdownPhase::Post if self.limit.is_none() => DynamicFilters::of(parents(), &self.scan)?,
            _ => DynamicFilters::default(),
        };
        let answer = FilterPushdownPropagation::all_unsupported(filters);
        if taken.is_empty() {
            return Ok(answer);
        }
        let (dynamic, scan) = (taken, self.clone());
        Ok(answer.with_updated_node(Arc::new(Self { dynamic, ..scan })))
    }

    /// The same scan without its dynamic filters: the operators above make new ones.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (dynamic, scan) = (DynamicFilters::default(), Self::clone(&self));
        Ok(Arc::new(Self { dynamic, ..scan }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }
}
