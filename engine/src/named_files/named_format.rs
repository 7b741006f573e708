//! [`NamedFormatFactory`]: a format of DataFusion whose errors name the file.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{GetExt, Statistics};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, FileSinkConfig, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::{LexOrdering, LexRequirement};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::file_format::FileMeta;
use object_store::{ObjectMeta, ObjectStore};

use super::common_schema::{common_schema, without_claims};
use super::file_error::FileName;
use super::headings;
use super::leading_zeros;
use super::named_source::NamedSource;
use super::repeated_names::numbered_columns;
use crate::output::held_sink::{HeldSink, SinkPlace};

/// A factory of DataFusion. Everything is the inner factory's, except that errors name the
/// file, and that files appear when a statement has written all of them.
#[derive(Debug)]
pub(crate) struct NamedFormatFactory {
    pub(crate) inner: Arc<dyn FileFormatFactory>,
}

impl FileFormatFactory for NamedFormatFactory {
    fn create(&self, state: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let inner = self.inner.create(state, options)?;
        Ok(Arc::new(NamedFormat { inner }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let inner = self.inner.default();
        Arc::new(NamedFormat { inner })
    }
}

impl GetExt for NamedFormatFactory {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }
}

#[derive(Debug)]
struct NamedFormat {
    inner: Arc<dyn FileFormat>,
}

impl NamedFormat {
    /// The file's name. The store of local files calls itself `LocalFileSystem(file:///)`.
    fn file_name(&self, store: &Arc<dyn ObjectStore>, object: &ObjectMeta) -> FileName {
        let store = store.to_string();
        let url = if store.starts_with("LocalFileSystem") {
            "file://"
        } else {
            &store
        };
        FileName::new(url, &object.location, &self.inner.get_ext())
    }

    /// The error with the file's name.
    fn name(&self, store: &Arc<dyn ObjectStore>, object: &ObjectMeta, error: DataFusionError) -> DataFusionError {
        self.file_name(store, object).name(error)
    }

    /// The inferred schema of CSV files with text for numbers with leading zeros; any other schema as it is.
    async fn with_texts(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
        schema: SchemaRef,
    ) -> Result<SchemaRef> {
        let Some(csv) = self.inner.downcast_ref::<CsvFormat>() else {
            return Ok(schema);
        };
        let has_header = csv.has_header().unwrap_or(state.config_options().catalog.has_header);
        if has_header && objects.len() > 1 {
            let name = |object: &ObjectMeta| self.file_name(store, object).file;
            headings::check(csv, state, store, objects, name).await?;
        }
        leading_zeros::with_texts(csv, has_header, store, objects, schema).await
    }

    /// The columns of the files.
    async fn schema_of(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        if let Some(csv) = self.inner.downcast_ref::<CsvFormat>()
            && let Ok(Some(schema)) = numbered_columns(csv, state, store, objects).await
        {
            return self.with_texts(state, store, objects, schema).await;
        }
        let failed = match self.inner.infer_schema(state, store, objects).await {
            Ok(schema) => return self.with_texts(state, store, objects, schema).await,
            Err(error) => error,
        };
        // One of the files, or their types differ: each is tried alone.
        let mut alone = Vec::with_capacity(objects.len());
        let mut in_order: Vec<&ObjectMeta> = objects.iter().collect();
        in_order.sort_unstable_by(|one, other| one.location.cmp(&other.location));
        for object in in_order {
            let inferred = self
                .inner
                .infer_schema(state, store, std::slice::from_ref(object))
                .await;
            let inferred = inferred.map_err(|error| self.name(store, object, error))?;
            alone.push((self.file_name(store, object).file, inferred));
        }
        match alone.len() {
            0 | 1 => Err(failed),
            _ => Ok(Arc::new(common_schema(&alone)?)),
        }
    }
}

#[async_trait]
impl FileFormat for NamedFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let schema = self.schema_of(state, store, objects).await?;
        Ok(Arc::new(without_claims(&schema)))
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let found = self.inner.infer_stats(state, store, schema, object).await;
        found.map_err(|error| self.name(store, object, error))
    }

    async fn infer_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Option<LexOrdering>> {
        let found = self.inner.infer_ordering(state, store, schema, object).await;
        found.map_err(|error| self.name(store, object, error))
    }

    async fn infer_stats_and_ordering(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<FileMeta> {
        let found = self.inner.infer_stats_and_ordering(state, store, schema, object).await;
        found.map_err(|error| self.name(store, object, error))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = self.inner.create_physical_plan(state, config).await?;
        let source = plan.downcast_ref::<DataSourceExec>().map(DataSourceExec::data_source);
        let Some(config) = source.and_then(|source| source.downcast_ref::<FileScanConfig>()) else {
            return Ok(plan);
        };
        let named = NamedSource::of(Arc::clone(config.file_source()));
        let config = FileScanConfigBuilder::from(config.clone()).with_source(named).build();
        Ok(DataSourceExec::from_data_source(config))
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        state: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let place = SinkPlace::of(&config, &self.inner.get_ext());
        let plan = self.inner.create_writer_physical_plan(input, state, config, order);
        Ok(HeldSink::plan(plan.await?, place))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        self.inner.file_source(schema)
    }
}
