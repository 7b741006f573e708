//! [`CascadeSource`]: the source of Parquet files whose filters are evaluated by the cascade.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::common::config::{ConfigOptions, TableParquetOptions};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::DefaultParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{EquivalenceProperties, LexOrdering, PhysicalSortExpr};
use datafusion::physical_expr_adapter::DefaultPhysicalExprAdapterFactory;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, PhysicalExpr, SortOrderPushdownResult};
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;

use super::cascade_files::{CascadeFiles, CascadeMorselizer, FilterPart};
use super::file_scan::ScanCounts;
use super::group_pruning::PruningSettings;
use crate::scan::dynamic_filters::FirstExecution;
use crate::scan::fallible::is_fallible;

/// A source of Parquet files in place of DataFusion's. Everything but the reading of files is the inner source's.
#[derive(Clone)]
pub(crate) struct CascadeSource {
    inner: Arc<dyn FileSource>,
    /// The order that a sort above the scan would like.
    order: Option<LexOrdering>,
    batch_size: usize,
    execution: Arc<FirstExecution>,
}

impl CascadeSource {
    /// The source in place of `inner`. `None`: DataFusion's source is needed, for columns that no file stores.
    pub(crate) fn of(inner: &ParquetSource) -> Option<Self> {
        if !inner.table_schema().virtual_columns().is_empty() {
            return None;
        }
        let options = inner.table_parquet_options();
        if options.crypto != TableParquetOptions::default().crypto {
            return None;
        }
        let inner = inner.clone().with_pushdown_filters(true);
        Some(Self::around(Arc::new(inner), None))
    }

    fn around(inner: Arc<dyn FileSource>, order: Option<LexOrdering>) -> Self {
        Self {
            inner,
            order,
            batch_size: 0,
            execution: Arc::default(),
        }
    }

    /// DataFusion's source in `source`, if `source` is of this type; else `source` itself.
    pub(crate) fn inner(source: &Arc<dyn FileSource>) -> &Arc<dyn FileSource> {
        source.downcast_ref::<Self>().map_or(source, |cascade| &cascade.inner)
    }

    /// `changed` in place of DataFusion's source in `source`: by the cascade if `source` is.
    pub(crate) fn in_place_of(source: &Arc<dyn FileSource>, changed: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        match source.downcast_ref::<Self>() {
            Some(cascade) => Arc::new(Self::around(changed, cascade.order.clone())),
            None => changed,
        }
    }

    /// The source with another one inside; that one itself if it has come to need columns that no file stores.
    fn with_inner(&self, inner: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        match inner.table_schema().virtual_columns().is_empty() {
            true => Arc::new(Self::around(inner, self.order.clone())),
            false => inner,
        }
    }

    fn parquet(&self) -> Result<&ParquetSource> {
        self.inner.downcast_ref::<ParquetSource>().ok_or_else(|| {
            DataFusionError::Internal("the cascade is over another source than of Parquet files".to_owned())
        })
    }
}

impl FileSource for CascadeSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner.create_file_opener(store, config, partition)
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let parquet = self.parquet()?;
        let inner = self.inner.create_morselizer(Arc::clone(&store), config, partition)?;
        let uses_dynamic = self.execution.begin(partition);
        let table = self.inner.table_schema();
        let filter = self.inner.filter();
        let parts = filter.iter().flat_map(split_conjunction);
        let parts = parts.map(FilterPart::of);
        let parts = parts.filter(|part| uses_dynamic || !part.expr.is::<DynamicFilterPhysicalExpr>());
        let options = &parquet.table_parquet_options().global;
        let projection = match self.inner.projection() {
            Some(projection) => projection.clone(),
            None => {
                let columns: Vec<usize> = (0..table.table_schema().fields().len()).collect();
                ProjectionExprs::from_indices(&columns, table.table_schema())
            }
        };
        let adapters = config.expr_adapter_factory.clone();
        let readers = parquet.parquet_file_reader_factory().cloned();
        let counter = |name: &'static str| MetricBuilder::new(self.inner.metrics()).counter(name, partition);
        let files = CascadeFiles {
            partition,
            batch_size: self.batch_size,
            parts: parts.collect(),
            projection,
            order: self.order.clone(),
            table: table.clone(),
            readers: readers.unwrap_or_else(|| Arc::new(DefaultParquetFileReaderFactory::new(store))),
            adapters: adapters.unwrap_or_else(|| Arc::new(DefaultPhysicalExprAdapterFactory)),
            metrics: self.inner.metrics().clone(),
            metadata_size_hint: options.metadata_size_hint,
            pruning: PruningSettings {
                by_statistics: options.pruning,
                by_bloom_filters: options.bloom_filter_on_read,
                by_pages: options.enable_page_index,
                max_in_list_size: options.max_in_list_size,
            },
            counts: ScanCounts {
                rows_scanned: counter("rows_scanned"),
                rows_passed: counter("rows_passed"),
                groups_excluded: counter("row_groups_pruned_dynamic"),
            },
        };
        Ok(Box::new(CascadeMorselizer {
            inner: Arc::from(inner),
            files: Arc::new(files),
        }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            inner: self.inner.with_batch_size(batch_size),
            batch_size,
            ..self.clone()
        })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, display: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        self.inner.fmt_extra(display, f)?;
        match display {
            DisplayFormatType::TreeRender => writeln!(f, "filter_by=cascade"),
            _ => f.write_str(", filter_by=cascade"),
        }
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn repartitioned(
        &self,
        target_partitions: usize,
        min_bytes: usize,
        ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        self.inner.repartitioned(target_partitions, min_bytes, ordering, config)
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let table = Arc::clone(self.inner.table_schema().table_schema());
        let mut answers = vec![PushedDown::No; filters.len()];
        let mut source = None;
        let mut is_guard_left = false;
        for (filter, answer) in filters.into_iter().zip(&mut answers) {
            // A condition that may fail is evaluated after those before it, which an operator above would evaluate.
            let may_fail = is_guard_left && is_fallible(filter.as_ref(), &table);
            if !is_volatile(&filter) && !may_fail {
                let inner = source.as_ref().unwrap_or(&self.inner);
                let pushed = inner.try_pushdown_filters(vec![filter], config)?;
                if let (Some(PushedDown::Yes), Some(updated)) = (pushed.filters.first(), pushed.updated_node) {
                    *answer = PushedDown::Yes;
                    source = Some(updated);
                }
            }
            is_guard_left |= matches!(answer, PushedDown::No);
        }
        let pushed = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(match source {
            Some(source) => pushed.with_updated_node(self.with_inner(source)),
            None => pushed,
        })
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        let wanted = LexOrdering::new(order.to_vec());
        Ok(match self.inner.try_pushdown_sort(order, properties)? {
            SortOrderPushdownResult::Inexact { inner } => SortOrderPushdownResult::Inexact {
                inner: Arc::new(Self::around(inner, wanted)),
            },
            other => other.map(|inner| self.with_inner(inner)),
        })
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let pushed = self.inner.try_pushdown_projection(projection)?;
        Ok(pushed.map(|inner| self.with_inner(inner)))
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(visit)
    }

    #[cfg(feature = "proto")]
    fn try_to_proto(
        &self,
        config: &FileScanConfig,
        context: &datafusion::physical_plan::proto::ExecutionPlanEncodeCtx<'_>,
    ) -> Result<Option<datafusion_proto::protobuf::PhysicalPlanNode>> {
        self.inner.try_to_proto(config, context)
    }
}
