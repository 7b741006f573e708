//! [`CaughtPanic`]: a panic in the work on a statement, as an error that names the statement.
//!
//! A function of DataFusion's, or a fault here, may panic in any task of a query. The query ends in this error at the
//! statement's border, and the session goes on: [`caught`] is the border of a call, [`caught_in`] of a future, and
//! [`caught_stream`] of a stream. Locks that the panic has poisoned stay usable, because their holders replace whole
//! values.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt};
use tokio::task::JoinError;

use crate::redaction::without_passwords;

/// Characters of a statement in an error.
const MAX_SHOWN_CHARS: usize = 100;

/// A panic while a statement was planned or executed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("a fault of the program ended {statement}: {words}")]
pub struct CaughtPanic {
    /// The statement's beginning in quotation marks, on one line and without secrets.
    statement: String,
    /// The panic's message.
    words: String,
}

impl CaughtPanic {
    fn error(statement: &str, words: String) -> DataFusionError {
        DataFusionError::External(Box::new(Self {
            statement: shown(statement),
            words,
        }))
    }

    fn of_payload(statement: &str, payload: &(dyn Any + Send)) -> DataFusionError {
        let words = payload.downcast_ref::<&str>().map(|words| (*words).to_owned());
        let words = words.or_else(|| payload.downcast_ref::<String>().cloned());
        Self::error(statement, words.unwrap_or_else(|| "a panic without words".to_owned()))
    }
}

/// The statement's beginning. OPTIONS may hold secrets.
fn shown(statement: &str) -> String {
    let words = statement.split_whitespace().collect::<Vec<_>>().join(" ");
    let words = without_passwords(&words);
    let secret = words.to_ascii_uppercase().find("OPTIONS");
    let open = &words[..secret.unwrap_or(words.len())];
    let mut beginning: String = open.chars().take(MAX_SHOWN_CHARS).collect();
    if beginning.len() < words.len() {
        beginning.push('…');
    }
    match beginning.is_empty() {
        true => "the statement".to_owned(),
        false => format!("`{beginning}`"),
    }
}

/// The error, in this form if a task's panic is behind it.
fn named(error: DataFusionError, statement: &str) -> DataFusionError {
    let mut behind: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(cause) = behind {
        // Operators that pass an error on to several others share it.
        let shared = || cause.downcast_ref::<Arc<JoinError>>().map(AsRef::as_ref);
        let join = cause.downcast_ref::<JoinError>().or_else(shared);
        if let Some(join) = join.filter(|join| join.is_panic()) {
            return CaughtPanic::error(statement, join.to_string());
        }
        behind = cause.source();
    }
    error
}

/// The result of `work`, which belongs to `statement`.
///
/// # Errors
/// Those of `work`, and [`CaughtPanic`].
pub fn caught<T>(statement: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(|error| named(error, statement)),
        Err(payload) => Err(CaughtPanic::of_payload(statement, payload.as_ref())),
    }
}

/// The result of the future `work`, which belongs to `statement`.
///
/// # Errors
/// Those of `work`, and [`CaughtPanic`].
pub async fn caught_in<T>(statement: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(done) => done.map_err(|error| named(error, statement)),
        Err(payload) => Err(CaughtPanic::of_payload(statement, payload.as_ref())),
    }
}

/// The stream of a plan of `statement`, which ends in [`CaughtPanic`] if a poll panics.
pub fn caught_stream(statement: &str, stream: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let (schema, statement) = (stream.schema(), statement.to_owned());
    let batches = AssertUnwindSafe(stream).catch_unwind().map(move |polled| match polled {
        Ok(batch) => batch.map_err(|error| named(error, &statement)),
        Err(payload) => Err(CaughtPanic::of_payload(&statement, payload.as_ref())),
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

#[cfg(test)]
mod tests {
    use datafusion::common::exec_err;

    use super::*;

    #[test]
    fn panics_are_errors_that_name_the_statement() {
        let error = caught::<()>("SELECT  f(a)\nFROM t", || panic!("index {} of 0", 3)).unwrap_err();
        assert_eq!(
            crate::error::message(&error),
            "a fault of the program ended `SELECT f(a) FROM t`: index 3 of 0"
        );
        let error = caught::<()>("", || panic!("static words")).unwrap_err();
        assert_eq!(
            crate::error::message(&error),
            "a fault of the program ended the statement: static words"
        );
        let error = caught::<()>("SELECT 1", || exec_err!("an error")).unwrap_err();
        assert!(crate::error::message(&error).ends_with("an error"), "{error}");
        assert_eq!(caught("SELECT 1", || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn statements_are_shown_without_secrets_and_end() {
        let shown = |text: &str| super::shown(text);
        assert_eq!(
            shown("COPY t TO 's3://u:pw@b/t' OPTIONS ('aws.secret_access_key' 'X')"),
            "`COPY t TO 's3://u:***@b/t' …`"
        );
        assert_eq!(shown("SELECT options, 'pw' FROM t"), "`SELECT …`");
        assert_eq!(shown(&"é".repeat(101)), format!("`{}…`", "é".repeat(100)));
    }

    #[tokio::test]
    async fn panics_of_tasks_and_of_futures_are_errors() {
        let of_task = caught_in("SELECT 1", async {
            let joined = tokio::spawn(async { panic!("in a task") }).await;
            let joined: Result<(), JoinError> = joined;
            joined.map_err(|join| {
                let inner = DataFusionError::ExecutionJoin(Box::new(join));
                DataFusionError::Context("Join Error".to_owned(), Box::new(inner))
            })
        });
        let words = crate::error::message(&of_task.await.unwrap_err());
        assert!(
            words.starts_with("a fault of the program ended `SELECT 1`: task "),
            "{words}"
        );
        assert!(words.contains("in a task"), "{words}");
        // As an operator passes it to several others.
        let shared = caught_in("SELECT 3", async {
            let joined: Result<(), JoinError> = tokio::spawn(async { panic!("in a shared task") }).await;
            joined.map_err(|join| {
                let inner = DataFusionError::External(Box::new(Arc::new(join)));
                DataFusionError::Context("Join Error".to_owned(), Box::new(inner))
            })
        });
        let words = crate::error::message(&shared.await.unwrap_err());
        assert!(
            words.starts_with("a fault of the program ended `SELECT 3`: task "),
            "{words}"
        );
        let of_future = caught_in::<()>("SELECT 2", async { panic!("in a future") });
        let words = crate::error::message(&of_future.await.unwrap_err());
        assert_eq!(words, "a fault of the program ended `SELECT 2`: in a future");
    }
}
