//! [`listed_scan`]: the scan of files that DataFusion's `ListingTable` has listed.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use object_store::{ObjectMeta, ObjectStore};

use crate::config::GrampusOptions;
use crate::file::file_cache::{FileCache, OrcFile};
use crate::orc_source::{OrcSource, over_columns};
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::table::files::TableFile;
use crate::table::listed_object::found_object;
use crate::table::opened_files::{columns_with, open_files};
use crate::table::schema::{ColumnMaps, columns_in_file};
use crate::table::statistics::of_files;

/// Whether the configuration says which rows come in which partition and order, or how they are read. Then it is
/// executed as it is: an [`OrcScanExec`](crate::scan::orc_scan_exec::OrcScanExec) divides the rows itself.
fn is_binding(config: &FileScanConfig, files: &[&PartitionedFile]) -> bool {
    config.preserve_order
        || config.output_partitioning.is_some()
        || config.expr_adapter_factory.is_some()
        || config.batch_size.is_some()
        || config.file_source().filter().is_some()
        || !config.file_source().table_schema().virtual_columns().is_empty()
        || files.iter().any(|file| file.range.is_some())
}

/// Whether rows have this order if DataFusion finds by the files' bounds that each file's rows follow those of the file
/// before it. Bounds say nothing of NULL, nor, unless they are exact, of NaN.
fn is_sound(order: &LexOrdering, config: &FileScanConfig) -> bool {
    let table = config.file_source().table_schema().table_schema();
    let columns = order.iter().flat_map(|sort| collect_columns(&sort.expr));
    let columns: Vec<Column> = columns.collect();
    let several = config.file_groups.iter().filter(|group| group.len() > 1);
    several.flat_map(|group| group.files()).all(|file| {
        columns.iter().all(|column| {
            let known = file
                .statistics
                .as_ref()
                .and_then(|known| known.column_statistics.get(column.index()));
            known.is_some_and(|known| {
                let is_float = table.field(column.index()).data_type().is_floating();
                let bounds = [&known.min_value, &known.max_value];
                let are_exact = bounds.iter().all(|bound| matches!(bound, Precision::Exact(_)));
                known.null_count == Precision::Exact(0) && (are_exact || !is_float)
            })
        })
    })
}

/// Plans the scan of listed files. The plan has the columns of the configuration's projection.
///
/// # Errors
/// If a file is no ORC file, or does not fit the table's columns.
pub(crate) async fn listed_scan(state: &dyn Session, config: &FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
    let store = state.runtime_env().object_store(&config.object_store_url)?;
    let table = Arc::clone(config.file_source().table_schema().table_schema());
    let listed = config.file_groups.iter().flat_map(|group| group.files());
    // Files of 0 bytes have no rows.
    let listed: Vec<_> = listed.filter(|file| file.object_meta.size > 0).collect();
    if let Some(source) = config
        .file_source()
        .downcast_ref::<OrcSource>()
        .filter(|_| is_binding(config, &listed))
    {
        let source = Arc::new(source.clone().in_session(state));
        let mut config = FileScanConfigBuilder::from(config.clone()).with_source(source).build();
        let orderings = std::mem::take(&mut config.output_ordering);
        config.output_ordering = orderings.into_iter().filter(|order| is_sound(order, &config)).collect();
        return Ok(DataSourceExec::from_data_source(config));
    }
    let opened = open_objects(state, &store, listed.iter().map(|file| &file.object_meta)).await?;
    let file_columns = table.fields().len() - config.table_partition_cols().len();
    let mut maps = ColumnMaps::default();
    let mut files = Vec::with_capacity(opened.len());
    for (file, listed) in opened.into_iter().zip(&listed) {
        files.push(TableFile {
            columns: maps.of(&file, &table, file_columns)?,
            partition_values: listed.partition_values.clone(),
            file,
        });
    }
    let projection = config.file_source().projection();
    let columns = projection.map_or_else(|| (0..table.fields().len()).collect(), ProjectionExprs::column_indices);
    let options = state.config_options().extensions.get::<GrampusOptions>();
    let scan = plan_scan(ScanRequest {
        table,
        files,
        excluded_files: 0,
        part: None,
        projection: columns.clone(),
        filters: Vec::new(),
        limit: config.limit,
        target_partitions: state.config().target_partitions(),
        default_selectivity: state.config_options().optimizer.default_filter_selectivity,
        options: options.cloned().unwrap_or_default(),
        cache: cache_of(state),
    })
    .await?;
    let scan = Arc::new(scan.taking_all_filters());
    let Some(projection) = projection else {
        return Ok(scan);
    };
    let moved = projection.clone().try_map_exprs(|expr| over_columns(expr, &columns))?;
    Ok(Arc::new(ProjectionExec::try_new(moved.iter().cloned(), scan)?))
}

/// Statistics of one listed file, for a table with the columns `table`. Columns whose type the scan casts have none.
///
/// # Errors
/// If the file does not fit the table.
pub(crate) fn file_statistics(state: &dyn Session, file: Vec<Arc<OrcFile>>, table: &SchemaRef) -> Result<Statistics> {
    let options = state.config_options().extensions.get::<GrampusOptions>();
    let options = options.cloned().unwrap_or_default();
    // Files of 0 bytes are not opened.
    let Some(file) = file.into_iter().next() else {
        return Ok(Statistics::new_unknown(table).with_num_rows(Precision::Exact(0)));
    };
    let own = columns_with(options.timestamp_unit, std::slice::from_ref(&file), &[])?;
    let columns = columns_in_file(&file, &own, table)?;
    let types = columns.fields().iter().map(|field| field.data_type().clone());
    let types: Vec<_> = types.enumerate().collect();
    let file = TableFile {
        columns: ColumnMaps::default().of(&file, &columns, columns.fields().len())?,
        partition_values: Vec::new(),
        file,
    };
    let mut statistics = of_files(&[file], &types, options.invalid_utf8);
    let known = statistics.column_statistics.iter_mut().zip(columns.fields());
    for ((known, field), in_table) in known.zip(table.fields()) {
        if field.data_type() != in_table.data_type() {
            *known = ColumnStatistics::new_unknown();
        }
    }
    Ok(statistics)
}

/// Opens the files of listed objects, in their order, without those of 0 bytes.
///
/// # Errors
/// If a file is no ORC file.
pub(crate) async fn open_objects(
    state: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    objects: impl Iterator<Item = &ObjectMeta>,
) -> Result<Vec<Arc<OrcFile>>> {
    let objects = objects.filter(|object| object.size > 0);
    let found = objects.map(|object| found_object(store, object));
    open_files(&cache_of(state), &found.collect::<Result<Vec<_>>>()?).await
}

fn cache_of(state: &dyn Session) -> Arc<FileCache> {
    state.config().get_extension::<FileCache>().unwrap_or_default()
}
