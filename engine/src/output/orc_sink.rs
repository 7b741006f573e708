//! `OrcSink`: rows to ORC files.
//!
//! 1. DataFusion divides the rows into files: one file, several in a folder, or one folder per partition value. Rows of
//!    many partitions come in their order ([`gathered`]).
//! 2. Each file is written by a task of its own, hidden ([`NewFiles`]), and all within the memory pool ([`OrcFiles`]).
//! 3. If all rows have been written, all files are published. If anything fails before, none is.
//! 4. `INSERT OVERWRITE` publishes them in a folder that replaces the table's ([`ReplacedFolder`]).
//!
//! **Invariant:** every visible file is complete. A kill in step 3, or a failed upload, can leave some of several files
//! unpublished.

use std::fmt;
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
use datafusion::physical_plan::{DisplayAs, DisplayFormatType};
use grampus_orc_layout::write::{WriterProperties, stored_schema};
use object_store::ObjectStore;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::new_files::NewFiles;
use super::orc_files::{OrcFiles, unwritable};
use super::partition_order::gathered;
use super::partition_values::{named, without_nulls};
use super::replaced_folder::ReplacedFolder;
use crate::redaction::without_passwords;
use crate::table::folder_files::FolderFiles;

/// Writes the rows of one statement.
#[derive(Debug)]
pub(crate) struct OrcSink {
    pub(crate) config: FileSinkConfig,
    pub(crate) options: WriterProperties,
    /// The files that the new ones replace, if they replace any.
    pub(crate) replaced: Option<Arc<FolderFiles>>,
}

#[async_trait]
impl FileSink for OrcSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux_task: SpawnedTask<Result<()>>,
        mut file_stream_rx: DemuxedStreamReceiver,
        object_store: Arc<dyn ObjectStore>,
    ) -> Result<u64> {
        let incoming = get_writer_schema(&self.config);
        let stored = stored_schema(&incoming)
            .map_err(|error| unwritable(&without_passwords(&self.config.original_url), error))?;
        let mut without_rows = None;
        // The files stay here, not with the tasks: if this statement is cancelled, they are gone at once.
        let mut places = match &self.replaced {
            Some(replaced) => {
                let folder = ReplacedFolder::create(&self.config, Arc::clone(replaced))?;
                without_rows = Some(folder.place_without_rows(&self.config));
                NewFiles::replacing(folder)
            }
            None => NewFiles::create(&self.config, &object_store)?,
        };
        let files = Arc::new(OrcFiles::new(stored, self.options.clone(), context));
        let mut tasks = JoinSet::new();
        while let Some((path, rows)) = file_stream_rx.recv().await {
            without_rows = None;
            let (name, place) = places.add(&path)?;
            tasks.spawn(write(Arc::clone(&files), files.add(name, place)?, rows));
        }
        let mut written = 0;
        while let Some(finished) = tasks.join_next().await {
            match finished
                .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))
                .flatten()
            {
                Ok(rows) => written += rows,
                Err(error) => {
                    // The memory of the other files is free when the statement ends.
                    tasks.shutdown().await;
                    return Err(error);
                }
            }
        }
        let demuxed = demux_task.join_unwind().await;
        demuxed.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        if let Some(path) = without_rows {
            // So that the table keeps its columns.
            let (name, place) = places.add(&path)?;
            files.finish(files.add(name, place)?)?;
        }
        places.publish().await?;
        Ok(written)
    }
}

/// Writes all rows of a file, and returns their number.
async fn write(files: Arc<OrcFiles>, number: usize, mut rows: Receiver<RecordBatch>) -> Result<u64> {
    while let Some(batch) = rows.recv().await {
        files.write(number, &batch)?;
    }
    files.finish(number)
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
        FileSink::write_all(self, gathered(rows, columns, context)?, context).await
    }
}

impl DisplayAs for OrcSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrcSink: {}", without_passwords(&self.config.original_url))
    }
}
