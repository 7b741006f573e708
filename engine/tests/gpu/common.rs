//! A table of 3,000 rows, a session on host threads, and runs of statements, for these tests.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use grampus::session;
use grampus_orc_layout::write::WriterOptions;

use crate::support::{Setting, write_orc};

/// 3,000 rows: `x` counts, `i` counts modulo 7, and `word` is one of three words or NULL.
pub(crate) fn rows() -> RecordBatch {
    let words = (0..3000).map(|row| ["a", "b", "c"].get(row % 4).copied());
    let columns: [(&str, ArrayRef); 3] = [
        ("x", Arc::new(Float64Array::from_iter_values((0..3000).map(f64::from)))),
        (
            "i",
            Arc::new(Int32Array::from_iter_values((0..3000).map(|row| row % 7))),
        ),
        ("word", Arc::new(StringArray::from_iter(words))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

pub(crate) fn options() -> WriterOptions {
    WriterOptions {
        row_index_stride: 500,
        stripe_rows: 1000,
        ..WriterOptions::default()
    }
}

pub(crate) fn write(path: &Path, rows: &RecordBatch) {
    write_orc(path, rows.schema(), std::slice::from_ref(rows), options());
}

/// A session on host threads with [`rows`] as table `t`.
pub(crate) async fn open(folder: &Path, setting: &Setting) -> SessionContext {
    let path = folder.join("t.orc");
    if !path.exists() {
        write(&path, &rows());
    }
    let context = setting.context();
    session::register_orc(&context, "t", &path.display().to_string())
        .await
        .unwrap();
    context
}

pub(crate) async fn set(context: &SessionContext, name: &str, value: &str) {
    context
        .sql(&format!("SET {name} = '{value}'"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
}

pub(crate) async fn text(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

pub(crate) async fn failure(context: &SessionContext, sql: &str) -> String {
    let outcome = async { context.sql(sql).await?.collect().await };
    grampus::error::message(&outcome.await.expect_err(sql))
}

/// The answer as text, or the error's message.
pub(crate) async fn outcome(context: &SessionContext, sql: &str) -> Result<String, String> {
    let batches = async { context.sql(sql).await?.collect().await };
    match batches.await {
        Ok(batches) => Ok(pretty_format_batches(&batches).unwrap().to_string()),
        Err(error) => Err(grampus::error::message(&error)),
    }
}

/// Runs a query. Returns the executed plan and the answer.
pub(crate) async fn ran(context: &SessionContext, sql: &str) -> (Arc<dyn ExecutionPlan>, String) {
    let frame = context.sql(sql).await.unwrap();
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), task).await.unwrap();
    (plan, pretty_format_batches(&batches).unwrap().to_string())
}
