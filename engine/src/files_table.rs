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
use crate::table::partition_filter;

/// Objects that are asked for at once.
const REQUESTS: usize = 32;
/// The column of `filename`.
const FILENAME: &str = "filename";

/// The table.
#[derive(Debug)]
pub(crate) struct FilesTable {
    format: Arc<dyn FileFormat>,
    store: ObjectStoreUrl,
    /// With the values of the partition columns.
    files: Vec<PartitionedFile>,
    columns: TableSchema,
    partitions: Vec<Field>,
}

impl FilesTable {
    /// The table of these files. With `has_names`, the column `filename` has each row's file.
    ///
    /// # Errors
    /// If the files lie in different stores, their folders have different keys, a file cannot be read, or the files'
    /// columns of one name have types that do not fit.
    pub(crate) async fn open(
        state: &dyn Session,
        format: Arc<dyn FileFormat>,
        found: Vec<FoundFile>,
        has_names: bool,
    ) -> Result<Self> {
        let Some(first) = found.first() else {
            return plan_err!("a table of no files");
        };
        let url = store_of(first)?;
        for file in &found {
            if store_of(file)? != url {
                return plan_err!(
                    "{} and {} lie in different stores: make two tables",
                    first.name,
                    file.name
                );
            }
        }
        let store = state.runtime_env().object_store(&url)?;
        let mut partitions = hive_partitions::columns_of(&found, &[])?;
        let mut files = Vec::with_capacity(found.len());
        let objects: Vec<ObjectMeta> = stream::iter(found.clone())
            .map(|file| object(Arc::clone(&store), file))
            .buffered(REQUESTS)
            .try_collect()
            .await?;
        let inner = format.infer_schema(state, &store, &objects).await?;
        // A column that the files have too is theirs.
        let is_own = |field: &Field| inner.field_with_name(field.name()).is_err();
        let kept: Vec<bool> = partitions.iter().map(&is_own).collect();
        for (file, object) in found.iter().zip(objects) {
            let values = hive_partitions::values(file, &partitions, PartitionTypes::Inferred)?;
            let mut values: Vec<ScalarValue> = values
                .into_iter()
                .zip(&kept)
                .filter(|(_, kept)| **kept)
                .map(|(value, _)| value)
                .collect();
            if has_names {
                values.push(ScalarValue::from(file.name.as_ref()));
            }
            files.push(PartitionedFile::new_from_meta(object).with_partition_values(values));
        }
        partitions.retain(|field| is_own(field));
        if has_names {
            if !is_own(&Field::new(FILENAME, DataType::Utf8, false)) {
                return plan_err!("{}: the file has a column filename itself", first.name);
            }
            partitions.push(Field::new(FILENAME, DataType::Utf8, false));
        }
        let fields: Vec<FieldRef> = partitions.iter().cloned().map(Arc::new).collect();
        Ok(Self {
            format,
            store: url,
            files,
            columns: TableSchema::builder(inner).with_table_partition_cols(fields).build(),
            partitions,
        })
    }

    /// The files whose partition values pass the filters.
    fn matching(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let schema = DFSchema::try_from(self.schema())?;
        let filters = (filters.iter())
            .map(|filter| state.create_physical_expr(filter.clone(), &schema))
            .collect::<Result<Vec<_>>>()?;
        let (filters, _) = partition_filter::split(&filters, self.columns.file_schema().fields().len());
        let values: Vec<_> = self.files.iter().map(|file| file.partition_values.clone()).collect();
        let keep = partition_filter::matching(&filters, &self.partitions, &values)?;
        Ok(self
            .files
            .iter()
            .zip(keep)
            .filter(|(_, keep)| *keep)
            .map(|(file, _)| file.clone())
            .collect())
    }
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
        let files = self.matching(state, filters)?;
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
