//! Work stealing between partitions: each execution of a plan reads every row once, in one partition or another.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Int64Type;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, collect};
use futures::TryStreamExt;
use grampus_orc_layout::write::WriterProperties;
use tempfile::TempDir;

use crate::common::{context_with, register, write_orc};

const FILES: i64 = 6;
const ROWS: i64 = 20_000;

/// Files of 20,000 rows that hold each number once.
fn files() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        let x = Int64Array::from_iter_values(file * ROWS..(file + 1) * ROWS);
        let batch = RecordBatch::try_from_iter([("x", Arc::new(x) as _)]).unwrap();
        write_orc(
            &folder.path().join(format!("{file}.orc")),
            &[batch],
            WriterProperties::default(),
        );
    }
    folder
}

/// A scan of all rows in two partitions, and the task context to execute it with.
async fn scan(folder: &TempDir, settings: &[(&str, &str)]) -> (Arc<dyn ExecutionPlan>, Arc<TaskContext>) {
    let context = context_with(2, settings).await;
    register(&context, "t", folder.path()).await;
    let frame = context.sql("SELECT x FROM t WHERE x >= 0").await.unwrap();
    let plan = frame.create_physical_plan().await.unwrap();
    assert_eq!(plan.output_partitioning().partition_count(), 2);
    (plan, context.task_ctx())
}

fn values(batches: &[RecordBatch]) -> Vec<i64> {
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>());
    let mut values: Vec<i64> = columns.flat_map(|column| column.values().to_vec()).collect();
    values.sort_unstable();
    values
}

/// The values of both partitions. The first partition is polled only after the second has ended.
async fn second_first(plan: &Arc<dyn ExecutionPlan>, task: &Arc<TaskContext>) -> [Vec<i64>; 2] {
    let first = plan.execute(0, Arc::clone(task)).unwrap();
    let second = plan.execute(1, Arc::clone(task)).unwrap();
    let second: Vec<RecordBatch> = second.try_collect().await.unwrap();
    let first: Vec<RecordBatch> = first.try_collect().await.unwrap();
    [values(&first), values(&second)]
}

#[tokio::test]
async fn idle_partition_takes_ranges_of_a_waiting_one() {
    let folder = files();
    let (plan, task) = scan(&folder, &[]).await;
    let [first, second] = second_first(&plan, &task).await;
    assert_eq!((first.len(), second), (0, (0..FILES * ROWS).collect()));
}

#[tokio::test]
async fn setting_turns_work_stealing_off() {
    let folder = files();
    let setting = ("datafusion.execution.enable_file_stream_work_stealing", "false");
    let (plan, task) = scan(&folder, &[setting]).await;
    let half = FILES * ROWS / 2;
    assert_eq!(
        second_first(&plan, &task).await,
        [(0..half).collect::<Vec<_>>(), (half..2 * half).collect()]
    );
}

#[tokio::test]
async fn dropped_partition_is_not_read() {
    let folder = files();
    let (plan, task) = scan(&folder, &[]).await;
    drop(plan.execute(0, Arc::clone(&task)).unwrap());
    let second: Vec<RecordBatch> = plan.execute(1, task).unwrap().try_collect().await.unwrap();
    assert_eq!(values(&second), (FILES * ROWS / 2..FILES * ROWS).collect::<Vec<_>>());
}

#[tokio::test]
async fn plan_returns_all_rows_each_time() {
    let folder = files();
    let (plan, task) = scan(&folder, &[]).await;
    for _ in 0..3 {
        let batches = collect(Arc::clone(&plan), Arc::clone(&task)).await.unwrap();
        assert_eq!(values(&batches), (0..FILES * ROWS).collect::<Vec<_>>());
    }
    // Two executions run at the same time, with two contexts.
    let other = Arc::new(TaskContext::default());
    let both = futures::future::join(collect(Arc::clone(&plan), task), collect(Arc::clone(&plan), other)).await;
    for batches in [both.0, both.1] {
        assert_eq!(values(&batches.unwrap()), (0..FILES * ROWS).collect::<Vec<_>>());
    }
}

/// Two executions of one plan under one context. The second one begins between the partitions of the first one.
#[tokio::test]
async fn interleaved_executions_return_all_rows_each() {
    let folder = files();
    let (plan, task) = scan(&folder, &[]).await;
    let begin = |partition| plan.execute(partition, Arc::clone(&task)).unwrap();
    let (a0, b0, b1, a1) = (begin(0), begin(0), begin(1), begin(1));
    let mut read = Vec::new();
    for stream in [b1, b0, a1, a0] {
        let batches: Vec<RecordBatch> = stream.try_collect().await.unwrap();
        read.push(values(&batches));
    }
    let [b1, b0, a1, a0] = read.try_into().unwrap();
    for (first, second) in [(a0, a1), (b0, b1)] {
        let mut all = [first, second].concat();
        all.sort_unstable();
        assert_eq!(all, (0..FILES * ROWS).collect::<Vec<_>>());
    }
}
