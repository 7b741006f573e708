//! Tables, sessions on host threads, and runs of statements, for these tests.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray,
};
use arrow::compute::concat_batches;
use arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use grampus::session;
use grampus_orc_layout::codec::Codec;
use grampus_orc_layout::write::WriterProperties;

use crate::support::{Setting, gpu_runs, write_orc};

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

pub(crate) fn options() -> WriterProperties {
    WriterProperties {
        row_index_stride: 500,
        stripe_rows: 1000,
        ..WriterProperties::default()
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

/// Names and values of all metrics of an executed plan.
pub(crate) fn metrics_of(plan: &Arc<dyn ExecutionPlan>) -> Vec<(String, usize)> {
    let own = plan.metrics().into_iter().flat_map(|set| {
        let metrics: Vec<_> = set
            .iter()
            .map(|m| (m.value().name().to_owned(), m.value().as_usize()))
            .collect();
        metrics
    });
    let below = plan.children().into_iter().flat_map(metrics_of);
    own.chain(below).collect()
}

/// 40,000 rows of columns that are stored in runs. Half of `maybe` is NULL.
pub(crate) fn stored_rows() -> RecordBatch {
    let count = 40_000i64;
    let words = (0..count).map(|row| ["green", "yellow", "purple"].get((row * row) as usize % 5).copied());
    let columns: [(&str, ArrayRef); 5] = [
        (
            "id",
            Arc::new(Int64Array::from_iter_values((0..count).map(|row| row * row))),
        ),
        (
            "maybe",
            Arc::new(Float64Array::from_iter(
                (0..count).map(|row| (row % 2 == 0).then_some(row as f64)),
            )),
        ),
        ("word", Arc::new(StringArray::from_iter(words))),
        (
            "time",
            Arc::new(TimestampNanosecondArray::from_iter_values(
                (0..count).map(|row| (row - 20_000) * 86_399_123_456_789),
            )),
        ),
        (
            "flag",
            Arc::new(BooleanArray::from_iter(
                (0..count).map(|row| (row % 7 > 0).then_some(row % 3 == 0)),
            )),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, array)| (name, array, true))).unwrap()
}

/// Queries files with a damaged byte in two sessions. Their answers or errors are equal: a byte may change a value and
/// no length. After a damaged run, values depend on the row group at which reading begins, so there is one group.
/// Returns the numbers of errors and of answers.
pub(crate) async fn compare_damaged(codec: Codec, contexts: [SessionContext; 2]) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    let rows = stored_rows().slice(0, 3000);
    let sql = "SELECT word, flag, count(*), sum(id), sum(maybe), min(time), max(time) FROM s GROUP BY word, flag \
               ORDER BY word, flag";
    let (mut errors, mut answers) = (0, 0);
    let whole = folder.path().join("whole.orc");
    let options = WriterProperties {
        codec: Some(codec),
        row_index_stride: 3000,
        chunk_size_bytes: 700,
        ..WriterProperties::default()
    };
    write_orc(&whole, rows.schema(), std::slice::from_ref(&rows), options);
    let bytes = std::fs::read(&whole).unwrap();
    for case in 0..40 {
        // Byte 3 begins the indexes, and the last tenth has the footers.
        let at = 3 + case * (bytes.len() * 9 / 10) / 40;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (case % 8);
        let path = folder.path().join(format!("{case}.orc"));
        std::fs::write(&path, &damaged).unwrap();
        let mut outcomes = Vec::new();
        for context in &contexts {
            let location = path.display().to_string();
            let opened = session::register_orc(context, "s", &location).await;
            outcomes.push(match opened {
                Ok(_) => outcome(context, sql).await,
                Err(error) => Err(grampus::error::message(&error)),
            });
            let _ = context.deregister_table("s");
        }
        assert_eq!(outcomes[0], outcomes[1], "{codec:?}, byte {at}");
        *(if outcomes[0].is_ok() { &mut answers } else { &mut errors }) += 1;
    }
    (errors, answers)
}

/// A session with a file or folder as a table.
pub(crate) async fn open_table(setting: &Setting, name: &str, location: &Path) -> SessionContext {
    let context = setting.context();
    let location = location.display().to_string();
    session::register_orc(&context, name, &location).await.unwrap();
    context
}

/// The answer, and the numbers of aggregations that kernels computed, and that fell back.
pub(crate) async fn answer(context: &SessionContext, sql: &str) -> (RecordBatch, (usize, usize)) {
    let frame = context.sql(sql).await.unwrap();
    let task = Arc::new(frame.task_ctx());
    let plan = frame.create_physical_plan().await.unwrap();
    let batches = collect(Arc::clone(&plan), task).await.unwrap();
    (concat_batches(&plan.schema(), &batches).unwrap(), gpu_runs(&plan))
}
