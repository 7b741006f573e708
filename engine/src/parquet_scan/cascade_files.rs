//! [`CascadeFiles`]: the opening of files for the cascade.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, ParquetFileReaderFactory, ParquetRowSelection,
    apply_file_schema_type_coercions,
};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::arrow::async_reader::AsyncFileReader;
use datafusion::parquet::basic::Type;
use datafusion::parquet::file::metadata::PageIndexPolicy;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::{CaseExpr, Column, Literal};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::utils::{collect_columns, conjunction, reassign_expr_columns};
use datafusion::physical_expr_adapter::rewrite::rewrite_input_file_name_in_projection;
use datafusion::physical_expr_adapter::{PhysicalExprAdapterFactory, replace_columns_with_literals};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;

use super::file_filter::FileFilter;
use super::file_scan::{FileScan, ScanCounts, ScanState};
use super::group_columns::leaves;
use super::group_pruning::{GroupPruning, PruningSettings, all_groups, in_order};
use crate::scan::predicate_cascade::ColumnCost;

/// A conjunct of the scan's filter over the table's columns.
#[derive(Debug)]
pub(super) struct FilterPart {
    pub(super) expr: Arc<dyn PhysicalExpr>,
    /// Statistics may not decide it.
    is_hidden: bool,
}

impl FilterPart {
    pub(super) fn of(part: &Arc<dyn PhysicalExpr>) -> Self {
        match revealed(part) {
            Some(expr) => Self { expr, is_hidden: true },
            None => Self {
                expr: Arc::clone(part),
                is_hidden: false,
            },
        }
    }
}

/// The condition in `CASE WHEN condition THEN true ELSE false END`, by which `ParquetFilters` hides it from statistics.
fn revealed(part: &Arc<dyn PhysicalExpr>) -> Option<Arc<dyn PhysicalExpr>> {
    let case = part.downcast_ref::<CaseExpr>()?;
    let [(condition, then)] = case.when_then_expr() else {
        return None;
    };
    let is_literal = |expr: &Arc<dyn PhysicalExpr>, value| {
        let literal = expr.downcast_ref::<Literal>();
        literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(value)))
    };
    let is_hiding = case.expr().is_none()
        && is_literal(then, true)
        && case.else_expr().is_some_and(|other| is_literal(other, false));
    is_hiding.then(|| Arc::clone(condition))
}

/// What all files of a partition share.
#[derive(Debug)]
pub(super) struct CascadeFiles {
    pub(super) partition: usize,
    pub(super) batch_size: usize,
    pub(super) parts: Vec<FilterPart>,
    pub(super) projection: ProjectionExprs,
    pub(super) order: Option<LexOrdering>,
    pub(super) table: TableSchema,
    pub(super) readers: Arc<dyn ParquetFileReaderFactory>,
    pub(super) adapters: Arc<dyn PhysicalExprAdapterFactory>,
    pub(super) metrics: ExecutionPlanMetricsSet,
    pub(super) metadata_size_hint: Option<usize>,
    pub(super) pruning: PruningSettings,
    pub(super) counts: ScanCounts,
}

impl CascadeFiles {
    /// The file's batches. `None`: DataFusion's source reads the file.
    async fn open(&self, file: PartitionedFile) -> Result<Option<BoxStream<'static, Result<RecordBatch>>>> {
        let name = file.object_meta.location.to_string();
        let file_metrics = ParquetFileMetrics::new(self.partition, &name, &self.metrics);
        let hint = file.metadata_size_hint.or(self.metadata_size_hint);
        let reader = || -> Result<Box<dyn AsyncFileReader>> {
            let reader = self
                .readers
                .create_reader(self.partition, file.clone(), hint, &self.metrics)?;
            Ok(reader)
        };
        let mut first_reader = reader()?;
        let mut options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Skip);
        if let Some(schema) = &file.arrow_schema {
            options = options.with_schema(Arc::clone(schema));
        }
        let mut metadata = ArrowReaderMetadata::load_async(&mut first_reader, options.clone()).await?;
        let logical = self.table.file_schema();
        if let Some(schema) = apply_file_schema_type_coercions(logical, metadata.schema()) {
            options = options.with_schema(Arc::new(schema));
            metadata = ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options.clone())?;
        }
        let schema = Arc::clone(metadata.schema());

        // Expressions over the columns of this file.
        let fields = self.table.table_partition_cols().iter();
        let values = fields
            .map(|field| field.name().clone())
            .zip(file.partition_values.clone());
        let constants = values.collect();
        let adapter = self.adapters.create(Arc::clone(logical), Arc::clone(&schema))?;
        let simplifier = PhysicalExprSimplifier::new(&schema);
        let adapted = |expr: Arc<dyn PhysicalExpr>| {
            let expr = replace_columns_with_literals(expr, &constants)?;
            simplifier.simplify(adapter.rewrite(expr)?)
        };
        let output = Arc::new(self.projection.project_schema(self.table.table_schema())?);
        let projection = rewrite_input_file_name_in_projection(self.projection.clone(), &name)?;
        let projection = projection.try_map_exprs(adapted)?;
        let mut filters = Vec::with_capacity(self.parts.len());
        let mut for_statistics = Vec::new();
        for part in &self.parts {
            let expr = adapted(Arc::clone(&part.expr))?;
            if is_literal_false(&expr) {
                return Ok(Some(Box::pin(futures::stream::empty())));
            }
            if !part.is_hidden {
                for_statistics.push(Arc::clone(&expr));
            }
            filters.push(expr);
        }
        let mut emitted: Vec<usize> = projection.expr_iter().flat_map(|expr| columns_of(&expr)).collect();
        emitted.sort_unstable();
        emitted.dedup();
        let filtered = filters.iter().flat_map(columns_of);
        if filtered
            .chain(emitted.iter().copied())
            .any(|column| !is_plain(&metadata, column))
        {
            return Ok(None);
        }

        let settings = self.pruning.clone();
        let statistics = (!for_statistics.is_empty()).then(|| conjunction(for_statistics));
        let mut pruning = statistics.map(|filter| GroupPruning::new(filter, Arc::clone(&schema), settings));
        let groups = match &mut pruning {
            Some(pruning) => {
                let groups = pruning.plan(&file, &mut metadata, options, reader()?, &file_metrics);
                groups.await?
            }
            None => all_groups(&file, &metadata),
        };
        let groups = match &self.order {
            Some(order) => in_order(groups, order, &schema, &metadata),
            None => groups,
        };
        let emitted_schema = schema.project(&emitted)?;
        let projection = projection.try_map_exprs(|expr| reassign_expr_columns(expr, &emitted_schema))?;
        let scan = FileScan {
            filter: FileFilter::new(&filters, &schema, column_costs(&metadata))?,
            projector: projection.make_projector(&emitted_schema)?,
            reader: first_reader,
            metadata,
            schema,
            pruning,
            emitted,
            output,
            batch_size: self.batch_size,
            groups,
            counts: self.counts.clone(),
            state: ScanState::default(),
        };
        Ok(Some(scan.into_stream()))
    }
}

fn columns_of(expr: &Arc<dyn PhysicalExpr>) -> Vec<usize> {
    collect_columns(expr).iter().map(Column::index).collect()
}

fn is_literal_false(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|literal| matches!(literal.value(), ScalarValue::Boolean(Some(false) | None)))
}

/// Whether the column is one stored column, of a type that needs no setting.
pub(super) fn is_plain(metadata: &ArrowReaderMetadata, column: usize) -> bool {
    let schema = metadata.parquet_schema();
    let is_nested = match metadata.schema().fields().get(column) {
        Some(field) => field.data_type().is_nested(),
        None => true,
    };
    !is_nested && leaves(metadata, column).all(|leaf| schema.column(leaf).physical_type() != Type::INT96)
}

/// The cost of reading each column of the file, by its bytes.
fn column_costs(metadata: &ArrowReaderMetadata) -> Vec<ColumnCost> {
    let stored = metadata.metadata();
    let rows = stored.file_metadata().num_rows().max(1) as f64;
    let columns = 0..metadata.schema().fields().len();
    let bytes = columns.map(|column| {
        let chunks =
            leaves(metadata, column).flat_map(|leaf| stored.row_groups().iter().map(move |group| group.column(leaf)));
        chunks.map(|chunk| chunk.uncompressed_size().max(0) as f64).sum::<f64>()
    });
    bytes.map(|bytes| ColumnCost::Decoded(bytes / rows)).collect()
}

/// The entry point of reading files.
#[derive(Debug)]
pub(super) struct CascadeMorselizer {
    /// DataFusion's.
    pub(super) inner: Arc<dyn Morselizer>,
    pub(super) files: Arc<CascadeFiles>,
}

impl Morselizer for CascadeMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let has_rows = file.extensions.get::<ParquetAccessPlan>().is_some()
            || file.extensions.get::<ParquetRowSelection>().is_some();
        if has_rows {
            return self.inner.plan_file(file);
        }
        Ok(Box::new(UnopenedFile {
            inner: Arc::clone(&self.inner),
            files: Arc::clone(&self.files),
            file,
        }))
    }
}

/// A file before its footer was read.
#[derive(Debug)]
struct UnopenedFile {
    inner: Arc<dyn Morselizer>,
    files: Arc<CascadeFiles>,
    file: PartitionedFile,
}

impl MorselPlanner for UnopenedFile {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, files, file } = *self;
        Ok(Some(MorselPlan::new().with_pending_planner(async move {
            match files.open(file.clone()).await? {
                Some(stream) => Ok(Box::new(OpenFile(stream)) as Box<dyn MorselPlanner>),
                None => inner.plan_file(file),
            }
        })))
    }
}

/// A file whose batches are to be read.
struct OpenFile(BoxStream<'static, Result<RecordBatch>>);

impl Debug for OpenFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("OpenFile")
    }
}

impl MorselPlanner for OpenFile {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        Ok(Some(MorselPlan::new().with_morsels(vec![self])))
    }
}

impl Morsel for OpenFile {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        self.0
    }
}
