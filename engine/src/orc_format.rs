//! [`OrcFormatFactory`]: ORC as a file format of DataFusion: for `COPY … TO 'x.orc'`, `COPY … STORED AS ORC`, and for
//! the `ListingTable` of a program or catalog.
//!
//! Grampus itself makes [`OrcTable`](crate::OrcTable)s, whose scan prunes by filters when it is planned. A
//! `ListingTable` shows its format no filters, so its scan takes them when it runs.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::stats::Precision;
use datafusion::common::{GetExt, Statistics, not_impl_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::{FileFormat, FileFormatFactory};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSinkConfig, FileSource};
use datafusion::datasource::sink::DataSinkExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::ExecutionPlan;
use grampus_orc_layout::write::WriterProperties;
use object_store::{ObjectMeta, ObjectStore};

use crate::listed_scan::{file_statistics, listed_scan, open_objects};
use crate::orc_source::OrcSource;
use crate::output::orc_sink::OrcSink;
use crate::output::write_options::writer_options;
use crate::table::folder_files::FolderFiles;
use crate::table::opened_files::columns_of;

/// Makes formats of the OPTIONS that a statement names.
#[derive(Debug, Default)]
pub(crate) struct OrcFormatFactory;

impl FileFormatFactory for OrcFormatFactory {
    fn create(&self, _: &dyn Session, options: &HashMap<String, String>) -> Result<Arc<dyn FileFormat>> {
        Ok(Arc::new(OrcFormat::with_options(options)?))
    }

    fn default(&self) -> Arc<dyn FileFormat> {
        Arc::new(OrcFormat::default())
    }
}

impl GetExt for OrcFormatFactory {
    fn get_ext(&self) -> String {
        "orc".to_owned()
    }
}

/// ORC as a file format of DataFusion: for a `ListingTable`, and for `COPY`. A session with Grampus has it by the name
/// `orc`; any other session can use it too.
///
/// Statistics of files and columns are those of the files' footers. Values that a footer gives as mere bounds are
/// inexact.
#[derive(Debug, Default)]
pub struct OrcFormat {
    options: WriterProperties,
}

impl OrcFormat {
    /// The format of these OPTIONS.
    ///
    /// # Errors
    /// As [`writer_options`].
    pub(crate) fn with_options(options: &HashMap<String, String>) -> Result<Self> {
        let options = writer_options(options)?;
        Ok(Self { options })
    }

    /// The plan that writes the rows of `input`, over the files of `replaced` if the statement replaces files.
    ///
    /// # Errors
    /// If files cannot be replaced there.
    pub(crate) fn sink(
        &self,
        input: Arc<dyn ExecutionPlan>,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
        replaced: Option<Arc<FolderFiles>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        refuse_replacement(&config)?;
        let sink = OrcSink {
            config,
            options: self.options.clone(),
            replaced,
        };
        Ok(Arc::new(DataSinkExec::new(input, Arc::new(sink), order)))
    }
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

    async fn infer_schema(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        objects: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let files = open_objects(state, store, objects.iter()).await?;
        columns_of(state, &files, &[])
    }

    async fn infer_stats(
        &self,
        state: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        object: &ObjectMeta,
    ) -> Result<Statistics> {
        let files = open_objects(state, store, std::iter::once(object)).await?;
        let size = Precision::Inexact(usize::try_from(object.size).unwrap_or(usize::MAX));
        Ok(file_statistics(state, files, &schema)?.with_total_byte_size(size))
    }

    async fn create_physical_plan(
        &self,
        state: &dyn Session,
        config: FileScanConfig,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        listed_scan(state, &config).await
    }

    async fn create_writer_physical_plan(
        &self,
        input: Arc<dyn ExecutionPlan>,
        _: &dyn Session,
        config: FileSinkConfig,
        order: Option<LexRequirement>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        refuse_replacement(&config)?;
        let replaced = match (config.insert_op, config.table_paths.first()) {
            (InsertOp::Overwrite, Some(folder)) => Some(Arc::new(FolderFiles::of_url(folder)?)),
            _ => None,
        };
        self.sink(input, config, order, replaced)
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        Arc::new(OrcSource::new(schema))
    }
}
