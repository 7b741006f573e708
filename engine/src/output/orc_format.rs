//! [`OrcFormatFactory`]: ORC as a file format of DataFusion, for statements that write: `COPY … TO 'x.orc'`,
//! `COPY … STORED AS ORC`.
//!
//! Tables are read by [`OrcTable`](crate::OrcTable), whose scan DataFusion's `ListingTable` cannot host.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{GetExt, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use grampus_orc_layout::write::WriterProperties;
use object_store::{ObjectMeta, ObjectStore};

use super::orc_sink::OrcSink;
use super::write_options::writer_options;

/// Makes formats of the OPTIONS that a statement names.
#[derive(Debug, Default)]
pub(crate) struct OrcFormatFactory;

impl FileFormatFactory for OrcFormatFactory {
    fn create(&self, _: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        let options = writer_options(options)?;
        Ok(Arc::new(OrcFormat { options }))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        let options = WriterProperties::default();
        Arc::new(OrcFormat { options })
    }
}

impl GetExt for OrcFormatFactory {
    fn get_ext(&self) -> String {
        "orc".to_owned()
    }
}

/// ORC files of these options.
#[derive(Debug)]
pub(crate) struct OrcFormat {
    options: WriterProperties,
}

/// The error of a `ListingTable` over ORC files.
fn read_refused<T>() -> Result<T> {
    not_impl_err!("ListingTable cannot read ORC: use CREATE EXTERNAL TABLE … STORED AS ORC, or grampus::OrcTable")
}

/// Refuses statements that replace what cannot be replaced at once.
fn refuse_replacement(config: &FileSinkConfig) -> Result<()> {
    let url: &url::Url = config.object_store_url.as_ref();
    match config.insert_op {
        InsertOp::Append => Ok(()),
        InsertOp::Replace => not_impl_err!("REPLACE INTO: ORC tables have no keys"),
        InsertOp::Overwrite if url.scheme() != "file" => not_impl_err!(
            "INSERT OVERWRITE in an object store, which cannot replace several files at once: COPY to another folder"
        ),
        InsertOp::Overwrite => Ok(()),
    }
}

#[async_trait]
impl FileFormat for OrcFormat {
    fn get_ext(&self) -> String {
        OrcFormatFactory.get_ext()
    }

    /// Compression is inside of an ORC file, and its name stays.
    fn get_ext_with_compression(&self, _: &FileCompressionType) -> Result<String> {
        Ok(self.get_ext())
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        None
    }

    async fn infer_schema(&self, _: &dyn Session, _: &Arc<dyn ObjectStore>, _: &[ObjectMeta]) -> Result<SchemaRef> {
        read_refused()
    }

    async fn infer_stats(
        &self,
        _: &dyn Session,
        _: &Arc<dyn ObjectStore>,
        _: SchemaRef,
        _: &ObjectMeta,
    ) -> Result<Statistics> {
        read_refused()
    }

    async fn create_physical_plan(&self, _: &dyn Session, _: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        read_refused()
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        refuse_replacement(&config)?;
        let sink = OrcSink {
            config,
            options: self.options.clone(),
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(RefusedSource {
            schema,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

/// The source of a `ListingTable` that was given a schema. Reading it is an error.
#[derive(Debug, Clone)]
struct RefusedSource {
    schema: TableSchema,
    metrics: ExecutionPlanMetricsSet,
}

impl FileSource for RefusedSource {
    fn create_file_opener(&self, _: Arc<dyn ObjectStore>, _: &FileScanConfig, _: usize) -> Result<Arc<dyn FileOpener>> {
        read_refused()
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "orc"
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
