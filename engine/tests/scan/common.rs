//! Sessions, small ORC files and comparisons for the tests of the scan.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use grampus::{GrampusConfig, ScanIo, scan_io, session};
use grampus_orc_layout::write::{ArrowWriter, WriterProperties};

/// A session with this number of partitions.
pub(crate) fn context(partitions: usize) -> SessionContext {
    session::context(GrampusConfig {
        target_partitions: Some(partitions),
        ..GrampusConfig::default()
    })
    .unwrap()
}

/// A session with this number of partitions and these settings.
pub(crate) async fn context_with(partitions: usize, settings: &[(&str, &str)]) -> SessionContext {
    let context = context(partitions);
    for (name, value) in settings {
        run(&context, &format!("SET {name} = '{value}'")).await;
    }
    context
}

/// Runs `sql` and returns its batches.
pub(crate) async fn run(context: &SessionContext, sql: &str) -> Vec<RecordBatch> {
    let frame = context.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    frame.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// Runs `sql` and returns the answer as text, the plan, and the I/O of its scans.
pub(crate) async fn measured(context: &SessionContext, sql: &str) -> (String, Arc<dyn ExecutionPlan>, ScanIo) {
    let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), context.task_ctx()).await.unwrap();
    let io = scan_io(&plan);
    (text(&batches), plan, io)
}

/// The error of `sql`, with the text for people.
pub(crate) async fn failure(context: &SessionContext, sql: &str) -> String {
    let outcome = async { context.sql(sql).await?.collect().await };
    let error = outcome.await.expect_err(sql);
    grampus::error::message(&error)
}

/// Rows as a table of text.
pub(crate) fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

/// The one value of an answer with one row and one column, as text.
pub(crate) async fn value(context: &SessionContext, sql: &str) -> String {
    let batches = run(context, sql).await;
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 1, "{sql}");
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).unwrap();
    arrow::util::display::array_value_to_string(batch.column(0), 0).unwrap()
}

/// Writes `batches` as one ORC file.
pub(crate) fn write_orc(path: &Path, batches: &[RecordBatch], options: WriterProperties) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), batches[0].schema(), Some(options)).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}

/// Registers `path` as table `name`.
pub(crate) async fn register(context: &SessionContext, name: &str, path: &Path) {
    session::register_orc(context, name, path.to_str().unwrap())
        .await
        .unwrap();
}

/// The shared data folder beside the workspace, if this machine has it.
pub(crate) fn shared_data() -> Option<PathBuf> {
    grampus_test_support::data("")
}
