//! `OrcSink`: rows to ORC files.
//!
//! 1. DataFusion divides the rows into files: one file, several in a folder, or one folder per partition value.
//! 2. Each file is written by a task of its own into a [`StagedFile`].
//! 3. If all rows have been written, all files are published. If anything fails before, none is.
//! 4. `INSERT OVERWRITE` publishes them in a folder that replaces the table's ([`ReplacedFolder`]).
//!
//! **Invariant:** every visible file is complete. A failure in step 3 can leave some of several files unpublished.

use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::common::runtime::SpawnedTask;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::get_writer_schema;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::DataSink;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use grampus_orc_layout::LayoutError;
use grampus_orc_layout::write::{ArrowWriter, WriterProperties, stored_schema, to_stored};
use object_store::ObjectStore;
use tokio::sync::mpsc::{self, Receiver};
use tokio::task::JoinSet;

use super::partition_values::{named, without_nulls};
use super::replaced_folder::ReplacedFolder;
use super::staged_file::{StagedFile, local_folder, remove_leftovers};
use crate::redaction::without_passwords;

/// Writes the rows of one statement.
#[derive(Debug)]
pub(crate) struct OrcSink {
    pub(crate) config: FileSinkConfig,
    pub(crate) options: WriterProperties,
}

#[async_trait]
impl FileSink for OrcSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        _: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        mut file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let url: &url::Url = self.config.object_store_url.as_ref();
        let is_local = url.scheme() == "file";
        let incoming = get_writer_schema(&self.config);
        let stored = stored_schema(&incoming)
            .map_err(|error| unwritable(&without_passwords(&self.config.original_url), error))?;
        let replaced = match self.config.insert_op {
            InsertOp::Overwrite => Some(ReplacedFolder::create(&self.config)?),
            _ => None,
        };
        // The files stay here, not with the tasks: if this statement is cancelled, they are gone at once.
        let mut files = Vec::new();
        let mut folders = HashSet::new();
        let mut tasks = JoinSet::new();
        while let Some((path, rows)) = file_stream_rx.recv().await {
            let place = replaced
                .as_ref()
                .map_or(Ok(path.clone()), |folder| folder.new_place(&path))?;
            if is_local {
                let folder = local_folder(&place)?;
                if folders.insert(folder.clone()) {
                    remove_leftovers(&folder);
                }
            }
            let staged = StagedFile::create(&object_store, place, is_local)?;
            let (name, writer) = (staged.name(), staged.writer()?);
            files.push(staged);
            tasks.spawn(write(name, writer, rows, Arc::clone(&stored), self.options.clone()));
        }
        let mut written = 0;
        while let Some(finished) = tasks.join_next().await {
            written += finished.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        }
        let demuxed = demux_task.join_unwind().await;
        demuxed.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        if let (Some(folder), true) = (&replaced, files.is_empty()) {
            files.push(self.without_rows(folder, &object_store, stored).await?);
        }
        for staged in &files {
            staged.sync()?;
        }
        for staged in files {
            staged.publish().await?;
        }
        if let Some(folder) = replaced {
            folder.publish()?;
        }
        Ok(written)
    }
}

impl OrcSink {
    /// A file without rows, so that the table keeps its columns.
    async fn without_rows(
        &self,
        folder: &ReplacedFolder,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
    ) -> Result<StagedFile> {
        let place = folder.place_without_rows(&self.config)?;
        let staged = StagedFile::create(store, place, true)?;
        let (_, no_rows) = mpsc::channel(1);
        write(staged.name(), staged.writer()?, no_rows, schema, self.options.clone()).await?;
        Ok(staged)
    }
}

/// Writes all rows of the file `name`, and returns their number.
async fn write(
    name: String,
    writer: BufWriter<File>,
    mut rows: Receiver<RecordBatch>,
    schema: SchemaRef,
    options: WriterProperties,
) -> Result<u64> {
    let failed = |error| unwritable(&name, error);
    let mut writer = ArrowWriter::try_new(writer, Arc::clone(&schema), Some(options)).map_err(failed)?;
    while let Some(batch) = rows.recv().await {
        let batch = to_stored(&batch, &schema).map_err(failed)?;
        writer.write(&batch).map_err(failed)?;
    }
    let count = writer.rows();
    writer.close().map_err(failed)?;
    Ok(count)
}

/// The error of a file that cannot be written.
fn unwritable(file: &str, error: LayoutError) -> DataFusionError {
    let reason = match error {
        LayoutError::Write(reason) | LayoutError::Sink { reason, .. } => reason,
        other => other.to_string(),
    };
    DataFusionError::Execution(format!("cannot write {file}: {reason}"))
}

#[async_trait]
impl DataSink for OrcSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let columns = &self.config.table_partition_cols;
        let rows = match self.config.keep_partition_by_columns {
            true => without_nulls(data, columns), // files have the columns as they are
            false => named(data, columns),
        };
        FileSink::write_all(self, rows, context).await
    }
}

impl DisplayAs for OrcSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrcSink: {}", without_passwords(&self.config.original_url))
    }
}
