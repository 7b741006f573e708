//! [`OrcOpener`]: the rows of a listed file, or of a part of one.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::exec_datafusion_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_adapter::PhysicalExprAdapterFactory;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Metric, MetricValue, MetricsSet};
use datafusion::prelude::SessionConfig;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::ObjectStore;

use super::OrcSource;
use super::file_expressions::{FileExpressions, over_columns};
use crate::error::message;
use crate::file::file_cache::OrcFile;
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::table::files::TableFile;
use crate::table::opened_files::{columns_with, open_files};
use crate::table::schema::{ColumnMaps, columns_in_file};

/// Opens the files of one partition.
pub(super) struct OrcOpener(Arc<PartitionScan>);

/// What the files of a partition share.
struct PartitionScan {
    source: OrcSource,
    store: Arc<dyn ObjectStore>,
    projection: ProjectionExprs,
    /// The schema of the emitted rows.
    projected: SchemaRef,
    adapters: Option<Arc<dyn PhysicalExprAdapterFactory>>,
    limit: Option<usize>,
    partition: usize,
    context: Arc<TaskContext>,
}

impl OrcOpener {
    /// # Errors
    /// If the projection does not fit the table.
    pub(super) fn new(
        source: OrcSource,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Self> {
        let table = source.schema.table_schema();
        let all = || ProjectionExprs::from_indices(&(0..table.fields().len()).collect::<Vec<_>>(), table);
        let session = SessionConfig::new();
        let batch_rows = source.batch_rows.unwrap_or_else(|| session.batch_size());
        let context = TaskContext::new(
            None,
            String::new(),
            session.with_batch_size(batch_rows),
            Default::default(),
            Default::default(),
            Default::default(),
            Default::default(),
            Arc::clone(&source.surroundings.runtime),
        );
        Ok(Self(Arc::new(PartitionScan {
            projection: source.projection.clone().unwrap_or_else(all),
            projected: config.projected_schema()?,
            adapters: config.expr_adapter_factory.clone(),
            limit: config.limit,
            context: Arc::new(context),
            source,
            store,
            partition,
        })))
    }
}

impl FileOpener for OrcOpener {
    fn open(&self, listed: PartitionedFile) -> Result<FileOpenFuture> {
        let scan = Arc::clone(&self.0);
        Ok(Box::pin(async move { scan.rows(listed).await }))
    }
}

impl PartitionScan {
    /// The rows of the file, or of its part.
    async fn rows(&self, listed: PartitionedFile) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        // Files of 0 bytes have no rows.
        if listed.object_meta.size == 0 {
            return Ok(futures::stream::empty().boxed());
        }
        let (source, surroundings) = (&self.source, &self.source.surroundings);
        let found = source.plan.version(&self.store, &listed.object_meta).await?;
        let opened = open_files(&surroundings.cache, std::slice::from_ref(&found)).await?;
        let part = listed
            .range
            .as_ref()
            .map(|range| range.start.max(0) as u64..range.end.max(0) as u64);
        let is_in_part = |offset| part.as_ref().is_none_or(|part| part.contains(&offset));
        let with_rows = opened.into_iter().find(|file| {
            let mut stripes = file.tail.stripes.iter();
            stripes.any(|stripe| is_in_part(stripe.offset))
        });
        let Some(file) = with_rows else {
            return Ok(futures::stream::empty().boxed());
        };
        let columns = self.columns_of(&file)?;
        let expressions = FileExpressions::new(&source.schema, &listed, &columns, self.adapters.as_ref())?;
        let Some(filters) = expressions.filters(&source.filters)? else {
            return Ok(futures::stream::empty().boxed());
        };
        let projection = expressions.projection(&self.projection, listed.object_meta.location.as_ref())?;
        let dynamic = expressions.dynamic(&source.dynamic)?;
        let emitted = projection.expr_iter().chain(dynamic.iter().cloned());
        let mut emitted: Vec<usize> = emitted
            .flat_map(|expr| collect_columns(&expr))
            .map(|column| column.index())
            .collect();
        emitted.sort_unstable();
        emitted.dedup();
        let projection = projection.try_map_exprs(|expr| over_columns(expr, &emitted))?;
        let dynamic = dynamic.into_iter().map(|filter| over_columns(filter, &emitted));
        let dynamic = dynamic.collect::<Result<Vec<_>>>()?;
        let name = Arc::clone(&file.name);
        let scan = plan_scan(ScanRequest {
            files: vec![TableFile {
                columns: ColumnMaps::default().of(&file, &columns, columns.fields().len())?,
                partition_values: Vec::new(),
                file,
            }],
            table: columns,
            excluded_files: 0,
            part,
            projection: emitted,
            filters,
            limit: self.limit,
            target_partitions: 1,
            default_selectivity: 100,
            options: surroundings.options.clone(),
            cache: Arc::clone(&surroundings.cache),
        })
        .await?
        .with_dynamic_filters(&dynamic)?;
        let rows = scan.execute(0, Arc::clone(&self.context))?;
        self.share_counters(&scan.metrics().unwrap_or_default());
        let (projector, projected) = (projection.make_projector(&rows.schema())?, Arc::clone(&self.projected));
        Ok(rows
            .map(move |batch| {
                let named = |error| with_name(error, &name);
                let batch = projector.project_batch(&batch.map_err(named)?).map_err(named)?;
                with_schema(batch, &projected).map_err(named)
            })
            .boxed())
    }

    /// The columns as which the file is read: its own, if the configuration adapts them to the table's.
    fn columns_of(&self, file: &Arc<OrcFile>) -> Result<SchemaRef> {
        let timestamps = self.source.surroundings.options.timestamp_unit;
        let own = columns_with(timestamps, std::slice::from_ref(file), &[])?;
        match self.adapters {
            Some(_) => Ok(own),
            None => columns_in_file(file, &own, self.source.schema.file_schema()),
        }
    }

    /// Adds the scan's counters to the source's. The stream of files counts rows, batches and times itself.
    fn share_counters(&self, metrics: &MetricsSet) {
        for metric in metrics.iter() {
            if matches!(metric.value(), MetricValue::Count { .. }) {
                let shared = Metric::new(metric.value().clone(), Some(self.partition));
                self.source.metrics.register(Arc::new(shared));
            }
        }
    }
}

/// The batch with the fields of the plan: they may have other metadata, and be less often NULL.
fn with_schema(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &rows)?;
    Ok(batch)
}

/// The error with the file's name: of an expression over its values, or of a NULL that the table excludes. Errors of
/// the file's bytes have it.
fn with_name(error: DataFusionError, name: &str) -> DataFusionError {
    match error.find_root() {
        DataFusionError::ArrowError(..) | DataFusionError::Execution(_) => {
            exec_datafusion_err!("{name}: {}", message(&error))
        }
        _ => error,
    }
}
