//! [`OrcSource`]: ORC files in a `FileScanConfig`, for programs that list files themselves.
//!
//! ```text
//! file_expressions  projection and filters of the table as those of one file
//! file_rows         OrcOpener: the rows of one file, or of a part of one
//! ```
//!
//! A file, or a part of one, is scanned by an [`OrcScanExec`](crate::scan::orc_scan_exec::OrcScanExec) of its own.

mod file_expressions;
mod file_rows;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::catalog::Session;
use datafusion::common::config::ConfigOptions;
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
#[cfg(feature = "proto")]
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{conjunction_opt, split_conjunction};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, PhysicalExpr};
use object_store::{ObjectMeta, ObjectStore};

use crate::config::GrampusOptions;
#[cfg(feature = "proto")]
use crate::config::InvalidUtf8;
use crate::file::file_cache::FileCache;
use crate::scan::dynamic_filters::{FirstExecution, is_constant, is_dynamic};
use crate::table::listed_object::named_object;
use crate::table::listing::FoundFile;
use file_expressions::names_file;
pub(crate) use file_expressions::over_columns;
use file_rows::OrcOpener;

/// ORC files for a [`FileScanConfig`], as `ParquetSource` is for Parquet files: for table formats, catalogs and
/// schedulers that list, divide and assign files themselves.
///
/// - Filters are evaluated by the scan, which excludes stripes and row groups by statistics and bloom filters. A limit
///   of the configuration counts rows that have passed.
/// - Projections may be computed, and may name partition columns.
/// - A part of a file ([`FileRange`](datafusion::datasource::listing::FileRange)) has the stripes that begin there. So
///   parts that cover a file have each row once.
/// - Files fit the table's columns as those of an [`OrcTable`](crate::OrcTable) do: by name, a missing column is NULL,
///   and narrower types are widened. Other types are cast as DataFusion casts them. If the configuration has a
///   `PhysicalExprAdapterFactory`, it decides instead.
/// - A plan reads one version of each file, the one that it has opened first.
///
/// [`in_session`](Self::in_session) lets it use a session's open files, settings and memory limit. The GPU computes
/// nothing over it.
///
/// ```
/// # use std::sync::Arc;
/// # use datafusion::arrow::datatypes::{DataType, Field, Schema};
/// # use datafusion::datasource::listing::PartitionedFile;
/// # use datafusion::datasource::physical_plan::FileScanConfigBuilder;
/// # use datafusion::datasource::source::DataSourceExec;
/// # use datafusion::datasource::table_schema::TableSchema;
/// # use datafusion::execution::object_store::ObjectStoreUrl;
/// # use grampus::OrcSource;
/// let columns = Schema::new(vec![Field::new("id", DataType::Int64, true)]);
/// let source = OrcSource::new(TableSchema::from(Arc::new(columns)));
/// let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), Arc::new(source))
///     .with_file(PartitionedFile::new("data/trips.orc", 4096))
///     .build();
/// let plan = DataSourceExec::from_data_source(config);
/// ```
#[derive(Debug, Clone)]
pub struct OrcSource {
    schema: TableSchema,
    /// `None`: all columns.
    projection: Option<ProjectionExprs>,
    /// Filters that the scan evaluates, over the table's columns.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Filters of operators above, which exclude the same rows again.
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    batch_rows: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
    surroundings: Surroundings,
    plan: Arc<PlanState>,
}

/// What a scan uses of a session.
#[derive(Debug, Clone, Default)]
struct Surroundings {
    cache: Arc<FileCache>,
    options: GrampusOptions,
    runtime: Arc<RuntimeEnv>,
}

/// What the partitions of one plan share.
#[derive(Debug, Default)]
struct PlanState {
    versions: Mutex<HashMap<FileKey, FoundFile>>,
    execution: FirstExecution,
}

/// A file as it was listed: path, length, time and tag.
type FileKey = (object_store::path::Path, u64, i64, Option<String>);

impl PlanState {
    /// The version of a listed file that this plan reads.
    async fn version(&self, store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> Result<FoundFile> {
        let time = object.last_modified.timestamp_nanos_opt().unwrap_or_default();
        let key = (object.location.clone(), object.size, time, object.e_tag.clone());
        if let Some(known) = self.versions().get(&key) {
            return Ok(known.clone());
        }
        let found = named_object(store, object).await?;
        // Another partition may have been faster.
        Ok(self.versions().entry(key).or_insert(found).clone())
    }

    fn versions(&self) -> std::sync::MutexGuard<'_, HashMap<FileKey, FoundFile>> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrcSource {
    /// Files with these columns, and partition columns.
    pub fn new(schema: impl Into<TableSchema>) -> Self {
        Self {
            schema: schema.into(),
            projection: None,
            filters: Vec::new(),
            dynamic: Vec::new(),
            batch_rows: None,
            metrics: ExecutionPlanMetricsSet::new(),
            surroundings: Surroundings::default(),
            plan: Arc::default(),
        }
    }

    /// The same files, read with the session's settings, within its memory limit. A session over a
    /// [`Grampus`](crate::Grampus) also lends its open files and their metadata.
    #[must_use]
    pub fn in_session(mut self, session: &dyn Session) -> Self {
        let options = session.config_options().extensions.get::<GrampusOptions>();
        self.surroundings = Surroundings {
            cache: session.config().get_extension::<FileCache>().unwrap_or_default(),
            options: options.cloned().unwrap_or_default(),
            runtime: Arc::clone(session.runtime_env()),
        };
        self
    }

    /// The same files, read with the settings of a task's session but for this one.
    #[cfg(feature = "proto")]
    pub(crate) fn in_task(mut self, task: &TaskContext, invalid_utf8: InvalidUtf8) -> Self {
        let config = task.session_config();
        let options = config.options().extensions.get::<GrampusOptions>();
        self.surroundings = Surroundings {
            cache: config.get_extension::<FileCache>().unwrap_or_default(),
            options: GrampusOptions {
                invalid_utf8,
                ..options.cloned().unwrap_or_default()
            },
            runtime: task.runtime_env(),
        };
        self
    }

    /// The filters that the scan evaluates.
    #[cfg(feature = "proto")]
    pub(crate) fn constant_filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// How text that is not UTF-8 is read.
    #[cfg(feature = "proto")]
    pub(crate) fn invalid_utf8(&self) -> InvalidUtf8 {
        self.surroundings.options.invalid_utf8
    }

    /// The same files, of which only rows that pass `predicate` are read. `predicate` is over the table's columns.
    #[must_use]
    pub fn with_predicate(mut self, predicate: Arc<dyn PhysicalExpr>) -> Self {
        self.add_filters(split_conjunction(&predicate).into_iter());
        self
    }

    fn add_filters<'a>(&mut self, filters: impl Iterator<Item = &'a Arc<dyn PhysicalExpr>>) {
        for filter in filters {
            let known = match is_dynamic(filter) {
                true => &mut self.dynamic,
                false => &mut self.filters,
            };
            if !known.contains(filter) {
                known.push(Arc::clone(filter));
            }
        }
        self.plan = Arc::default();
    }
}

impl FileSource for OrcSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        if let Some(column) = self.schema.virtual_columns().first() {
            return not_impl_err!("the virtual column {} of ORC files", column.name());
        }
        let mut source = self.clone();
        // The first rows of the scan would be other ones.
        if !self.plan.execution.begin(partition) || config.limit.is_some() {
            source.dynamic.clear();
        }
        Ok(Arc::new(OrcOpener::new(source, store, config, partition)?))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            batch_rows: Some(rows),
            ..self.clone()
        })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        conjunction_opt(self.filters.iter().chain(&self.dynamic).cloned())
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
            plan: Arc::default(),
            ..self.clone()
        })))
    }

    /// Takes the constant filters. It takes dynamic ones too, and leaves them to the operators that make them.
    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let is_taken = |filter: &Arc<dyn PhysicalExpr>| is_constant(filter) && !names_file(filter);
        let answers = filters.iter().map(|filter| match is_taken(filter) {
            true => PushedDown::Yes,
            false => PushedDown::No,
        });
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answers.collect());
        let mut taken = filters
            .iter()
            .filter(|filter| is_taken(filter) || is_dynamic(filter))
            .peekable();
        if taken.peek().is_none() {
            return Ok(answer);
        }
        let mut source = self.clone();
        source.add_filters(taken);
        Ok(answer.with_updated_node(Arc::new(source)))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "orc"
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let shown = |filters: &[Arc<dyn PhysicalExpr>]| {
            let filters = filters.iter().map(|filter| fmt_sql(filter.as_ref()).to_string());
            filters.collect::<Vec<_>>().join(", ")
        };
        for (name, filters) in [("filter", &self.filters), ("dynamic_filter", &self.dynamic)] {
            match format {
                _ if filters.is_empty() => {}
                DisplayFormatType::TreeRender => writeln!(f, "{name}={}", shown(filters))?,
                DisplayFormatType::Default | DisplayFormatType::Verbose => {
                    write!(f, ", {name}=[{}]", shown(filters))?;
                }
            }
        }
        Ok(())
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.iter().flat_map(ProjectionExprs::iter);
        let projected = projected.map(|projected| &projected.expr);
        for expr in projected.chain(&self.filters).chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
