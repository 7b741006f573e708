//! [`statement_events`]: a statement's execution on a worker, and what it tells the thread that shows the result, as
//! [`StatementEvent`]s.
//!
//! The thread that shows the result prints, draws the progress and listens for Ctrl-C meanwhile. A few batches at most
//! wait for it. When it drops the receiver, the statement ends.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::caught_panic::caught_in;

/// Batches that may wait to be taken.
const MAX_QUEUED_BATCHES: usize = 4;

/// A message of the running statement.
#[derive(Debug)]
pub enum StatementEvent {
    /// The plan runs.
    Started(PlannedStatement),
    /// The next rows.
    Rows(RecordBatch),
    /// All rows were sent. The last message.
    Done,
    /// The statement ended in an error, which may be a [`CaughtPanic`](crate::caught_panic::CaughtPanic). The last
    /// message.
    Failed(Box<DataFusionError>),
}

/// A plan to execute.
#[derive(Debug)]
pub struct PlannedStatement {
    /// The columns under the names that the result has.
    pub schema: SchemaRef,
    /// The plan.
    pub plan: Arc<dyn ExecutionPlan>,
    /// What it is executed in.
    pub context: Arc<TaskContext>,
}

/// Work for a worker: to plan the statement `text` by `planned` and to execute it. Beside it, the messages. Without a
/// plan, the statement is done. A receiver that ends without a last message belongs to work that was stopped.
pub fn statement_events(
    text: String,
    planned: impl Future<Output = Result<Option<PlannedStatement>>> + Send + 'static,
) -> (
    impl Future<Output = ()> + Send + 'static,
    mpsc::Receiver<StatementEvent>,
) {
    let (events, receiver) = mpsc::channel(MAX_QUEUED_BATCHES);
    let work = async move {
        let last = match caught_in(&text, send_rows(planned, &events)).await {
            Ok(()) => StatementEvent::Done,
            Err(error) => StatementEvent::Failed(Box::new(error)),
        };
        let _ = events.send(last).await;
    };
    (work, receiver)
}

async fn send_rows(
    planned: impl Future<Output = Result<Option<PlannedStatement>>>,
    events: &mpsc::Sender<StatementEvent>,
) -> Result<()> {
    let Some(planned) = planned.await? else {
        return Ok(());
    };
    let mut stream = execute_stream(Arc::clone(&planned.plan), Arc::clone(&planned.context))?;
    if events.send(StatementEvent::Started(planned)).await.is_err() {
        return Ok(());
    }
    while let Some(batch) = stream.next().await {
        if events.send(StatementEvent::Rows(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The messages of a statement, in words.
    async fn told(sql: &'static str) -> Vec<String> {
        let session = SessionContext::new();
        let panics = |arguments: &[ColumnarValue]| -> Result<ColumnarValue> {
            let numbers = ColumnarValue::values_to_arrays(arguments)?;
            panic!("no number of {}", numbers[0].len())
        };
        let function = create_udf(
            "panics",
            vec![DataType::Int64],
            DataType::Int64,
            Volatility::Volatile,
            Arc::new(panics),
        );
        session.register_udf(function);
        let (work, mut events) = statement_events(sql.to_owned(), async move {
            if sql.is_empty() {
                return Ok(None);
            }
            let plan = session.sql(sql).await?.create_physical_plan().await?;
            let (schema, context) = (plan.schema(), session.task_ctx());
            Ok(Some(PlannedStatement { schema, plan, context }))
        });
        tokio::spawn(work);
        let mut words = Vec::new();
        while let Some(event) = events.recv().await {
            words.push(match event {
                StatementEvent::Started(planned) => format!("columns {}", planned.schema.fields().len()),
                StatementEvent::Rows(rows) => {
                    let numbers: &Int64Array = arrow::array::AsArray::as_primitive(rows.column(0));
                    format!("rows {:?}", numbers.values().to_vec())
                }
                StatementEvent::Done => "done".to_owned(),
                StatementEvent::Failed(error) => crate::error::message(&error),
            });
        }
        words
    }

    #[tokio::test]
    async fn events_tell_columns_rows_and_the_end() {
        assert_eq!(told("SELECT 7 AS a, 8 AS b").await, ["columns 2", "rows [7]", "done"]);
        assert_eq!(told("").await, ["done"]);
        assert_eq!(
            told("SELECT panics(1)").await,
            [
                "columns 1",
                "a fault of the program ended `SELECT panics(1)`: no number of 1"
            ]
        );
        let planning = told("SELECT no_such_column").await;
        assert_eq!(planning.len(), 1, "{planning:?}");
    }

    #[tokio::test]
    async fn dropped_receiver_ends_the_statement() {
        let session = SessionContext::new();
        let sql = "SELECT * FROM generate_series(1, 1000000000000)";
        let (work, mut events) = statement_events(sql.to_owned(), async move {
            let plan = session.sql(sql).await?.create_physical_plan().await?;
            let (schema, context) = (plan.schema(), session.task_ctx());
            Ok(Some(PlannedStatement { schema, plan, context }))
        });
        let work = tokio::spawn(work);
        assert!(matches!(events.recv().await, Some(StatementEvent::Started(_))));
        assert!(matches!(events.recv().await, Some(StatementEvent::Rows(_))));
        drop(events);
        work.await.unwrap();
    }
}
