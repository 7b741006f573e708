//! [`FilesTable`]: files of one format in folders, by globs or by a list, with columns of their folders and names.
//!
//! DataFusion's `ListingTable` takes a file, or the files of one folder. This table has any files: of nested folders
//! and Hive partitions, of several locations, of globs over folders. Its columns are those of all files, by name; a
//! file without a column has NULL there.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, ScalarValue, Statistics, plan_err};
use datafusion::datasource::TableType;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_datasource::compute_all_files_statistics;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

use crate::file::Place;
use crate::table::hive_partitions::{self, PartitionTypes};
use crate::table::listing::FoundFile;
use crate::table::listings::{Freshness, files_at};
use crate::table::partition_filter;

/// Objects that are asked for at once.
const REQUESTS: usize = 32;
/// The column of `filename`.
const FILENAME: &str = "filename";

/// Where a table's files are, and which of them are its.
#[derive(Debug, Clone)]
pub(crate) struct FileChooser {
    pub(crate) locations: Vec<String>,
    /// The format's name.
    pub(crate) format: &'static str,
    /// Whether a file of this name has a format.
    pub(crate) has_format: fn(&str, &str) -> bool,
}

impl FileChooser {
    /// The files that are there now. A file that is named itself may have any name.
    ///
    /// # Errors
    /// As [`files_at`].
    pub(crate) async fn files(&self, state: &dyn Session) -> Result<Vec<FoundFile>> {
        let found = files_at(state, &self.locations, true, Freshness::OfStatement).await?;
        let is_chosen = |file: &&FoundFile| file.is_named || (self.has_format)(&file.name, self.format);
        Ok(found.iter().filter(is_chosen).cloned().collect())
    }
}

/// The table. Each scan lists the files anew; the columns are those of the files that were there first.
#[derive(Debug)]
pub(crate) struct FilesTable {
    format: Arc<dyn FileFormat>,
    chooser: FileChooser,
    store: ObjectStoreUrl,
    columns: TableSchema,
    /// The columns of the folders.
    folders: Vec<Field>,
    /// The columns of the table that are not in files: those of folders that no file has itself, and `filename`.
    partitions: Vec<Field>,
}

impl FilesTable {
    /// The table of these files, of which there is at least one. With `has_names`, the column `filename` has each
    /// row's file.
    ///
    /// # Errors
    /// If the files lie in different stores, their folders have different keys, a file cannot be read, or the files'
    /// columns of one name have types that do not fit.
    pub(crate) async fn open(
        state: &dyn Session,
        format: Arc<dyn FileFormat>,
        chooser: FileChooser,
        has_names: bool,
    ) -> Result<Self> {
        let found = chooser.files(state).await?;
        let Some(first) = found.first() else {
            return plan_err!("a table of no files");
        };
        let url = store_of(first)?;
        let store = state.runtime_env().object_store(&url)?;
        let folders = hive_partitions::columns_of(&found, &[])?;
        let objects = objects(&store, &url, &found).await?;
        let inner = format.infer_schema(state, &store, &objects).await?;
        // A column that the files have too is theirs.
        let is_own = |field: &Field| inner.field_with_name(field.name()).is_err();
        let mut partitions: Vec<Field> = folders.iter().filter(|field| is_own(field)).cloned().collect();
        if has_names {
            let names = Field::new(FILENAME, DataType::Utf8, false);
            if !is_own(&names) {
                return plan_err!("{}: the file has a column filename itself", first.name);
            }
            partitions.push(names);
        }
        let fields: Vec<FieldRef> = partitions.iter().cloned().map(Arc::new).collect();
        Ok(Self {
            format,
            chooser,
            store: url,
            columns: TableSchema::builder(inner).with_table_partition_cols(fields).build(),
            folders,
            partitions,
        })
    }

    /// The values of a file's partition columns.
    fn values(&self, file: &FoundFile) -> Result<Vec<ScalarValue>> {
        let found = hive_partitions::values(file, &self.folders, PartitionTypes::Inferred)?;
        let value = |partition: &Field| {
            let at = self.folders.iter().position(|folder| folder == partition);
            at.map_or_else(|| ScalarValue::from(file.name.as_ref()), |at| found[at].clone())
        };
        Ok(self.partitions.iter().map(value).collect())
    }

    /// The files that are there now and whose partition values pass the filters, with these values.
    async fn matching(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let schema = DFSchema::try_from(self.schema())?;
        let filters = (filters.iter())
            .map(|filter| state.create_physical_expr(filter.clone(), &schema))
            .collect::<Result<Vec<_>>>()?;
        let (filters, _) = partition_filter::split(&filters, self.columns.file_schema().fields().len());
        let mut found = self.chooser.files(state).await?;
        let mut values = found.iter().map(|file| self.values(file)).collect::<Result<Vec<_>>>()?;
        let mut keep = partition_filter::matching(&filters, &self.partitions, &values)?.into_iter();
        let mut is_kept = keep.clone();
        found.retain(|_| keep.next().unwrap_or_default());
        values.retain(|_| is_kept.next().unwrap_or_default());
        let store = state.runtime_env().object_store(&self.store)?;
        let objects = objects(&store, &self.store, &found).await?;
        let file = |(object, values)| PartitionedFile::new_from_meta(object).with_partition_values(values);
        Ok(objects.into_iter().zip(values).map(file).collect())
    }
}

/// The files as their store knows them.
///
/// # Errors
/// If a file lies in another store, or is gone.
async fn objects(store: &Arc<dyn ObjectStore>, url: &ObjectStoreUrl, found: &[FoundFile]) -> Result<Vec<ObjectMeta>> {
    for file in found {
        if store_of(file)? != *url {
            let first = &found[0].name;
            return plan_err!("{first} and {} lie in different stores: make two tables", file.name);
        }
    }
    let objects = stream::iter(found.to_vec()).map(|file| object(Arc::clone(store), file));
    objects.buffered(REQUESTS).try_collect().await
}

/// The URL of a file's store.
fn store_of(file: &FoundFile) -> Result<ObjectStoreUrl> {
    match &file.place {
        Place::Local(_) => Ok(ObjectStoreUrl::local_filesystem()),
        Place::Remote { url, .. } => ObjectStoreUrl::parse(url.as_ref()),
    }
}

/// The file as its store knows it.
async fn object(store: Arc<dyn ObjectStore>, file: FoundFile) -> Result<ObjectMeta> {
    let path = match &file.place {
        Place::Local(path) => ListingTableUrl::parse(path.to_string_lossy())?.prefix().clone(),
        Place::Remote { path, .. } => path.clone(),
    };
    let found = store.head(&path).await;
    found.map_err(|error| DataFusionError::Plan(format!("{}: {error}", file.name)))
}

#[async_trait]
impl TableProvider for FilesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let files = self.matching(state, filters).await?;
        if files.is_empty() {
            let schema = match projection {
                Some(columns) => Arc::new(Schema::clone(&self.schema()).project(columns)?),
                None => self.schema(),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let has_statistics = state.config().collect_statistics();
        let store = state.runtime_env().object_store(&self.store)?;
        let (format, inner, store) = (&self.format, self.columns.file_schema(), &store);
        let files: Vec<PartitionedFile> = stream::iter(files)
            .map(|file| async move {
                let statistics = match has_statistics {
                    true => {
                        format
                            .infer_stats(state, store, Arc::clone(inner), &file.object_meta)
                            .await?
                    }
                    false => Statistics::new_unknown(inner),
                };
                Ok::<_, DataFusionError>(file.with_statistics(Arc::new(statistics)))
            })
            .buffered(REQUESTS)
            .try_collect()
            .await?;
        let groups = FileGroup::new(files).split_files(state.config().target_partitions());
        let (groups, statistics) = compute_all_files_statistics(groups, self.schema(), has_statistics, false)?;
        let source = self.format.file_source(self.columns.clone());
        let config = FileScanConfigBuilder::new(self.store.clone(), source)
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .build();
        self.format.create_physical_plan(state, config).await
    }
}
