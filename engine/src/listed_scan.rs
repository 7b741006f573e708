//! [`listed_scan`]: the scan of files that DataFusion's `ListingTable` has listed.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{internal_datafusion_err, not_impl_err};
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use object_store::local::LocalFileSystem;
use object_store::{ObjectMeta, ObjectStore};

use crate::config::GrampusOptions;
use crate::file::file_cache::{FileCache, OrcFile};
use crate::file::{Identity, Place};
use crate::scan::planner::{ScanRequest, plan_scan};
use crate::table::files::TableFile;
use crate::table::listing::FoundFile;
use crate::table::opened_files::open_files;
use crate::table::schema::ColumnMaps;

/// How the store of all local files is shown.
const LOCAL_FILES: &str = "LocalFileSystem(file:///)";

/// What DataFusion asks of the files before they are scanned. They are read by the plan of [`listed_scan`].
#[derive(Debug, Clone)]
pub(crate) struct ListedFiles {
    schema: TableSchema,
    /// `None`: all columns.
    projection: Option<ProjectionExprs>,
    metrics: ExecutionPlanMetricsSet,
}

impl ListedFiles {
    pub(crate) fn new(schema: TableSchema) -> Self {
        Self {
            schema,
            projection: None,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl FileSource for ListedFiles {
    fn create_file_opener(&self, _: Arc<dyn ObjectStore>, _: &FileScanConfig, _: usize) -> Result<Arc<dyn FileOpener>> {
        not_impl_err!("ORC files are read by the plan that their format makes, not by a DataSourceExec")
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.projection.as_ref()
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = match &self.projection {
            Some(before) => before.try_merge(projection)?,
            None => projection.clone(),
        };
        Ok(Some(Arc::new(Self {
            projection: Some(merged),
            ..self.clone()
        })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "orc"
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for projected in self.projection.iter().flat_map(ProjectionExprs::iter) {
            if f(&projected.expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
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
    if listed.iter().any(|file| file.range.is_some()) {
        return not_impl_err!("a part of an ORC file: its scan divides files itself");
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

/// The expression over the table's columns as one over `columns` of it.
fn over_columns(expr: Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = expr.transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        let at = columns.iter().position(|&at| at == column.index());
        let at = at.ok_or_else(|| internal_datafusion_err!("column {column} is not scanned"))?;
        Ok(Transformed::yes(
            Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>
        ))
    });
    moved.data()
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
    let found = objects.map(|object| found_file(store, object));
    open_files(&cache_of(state), &found.collect::<Result<Vec<_>>>()?).await
}

fn cache_of(state: &dyn Session) -> Arc<FileCache> {
    state.config().get_extension::<FileCache>().unwrap_or_default()
}

fn found_file(store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<FoundFile> {
    let shown = store.to_string();
    let (name, place, identity) = if shown == LOCAL_FILES {
        let path = LocalFileSystem::new().path_to_filesystem(&object.location)?;
        let metadata = std::fs::metadata(&path);
        let metadata = metadata.map_err(|error| DataFusionError::Plan(format!("{}: {error}", path.display())))?;
        let name = path.display().to_string();
        (name, Place::Local(path), Identity::of_local(&metadata))
    } else {
        // Two stores may look alike. The registry keeps its stores, and with them their addresses.
        let place = Place::Remote {
            store: Arc::clone(store),
            url: format!("{shown} {:p}", Arc::as_ptr(store)).into(),
            path: object.location.clone(),
        };
        let name = format!("{shown}/{}", object.location);
        (name, place, Identity::of_object(object))
    };
    Ok(FoundFile {
        name: name.into(),
        place,
        identity,
        folders: Vec::new(),
        is_named: false,
    })
}
