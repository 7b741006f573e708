//! `OneShotInput`: a stream as the input of an operator that is made while a query runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::TryStreamExt;

/// A stream that is taken at the first poll of its reader. Until then it can be taken back. Clones share the stream.
#[derive(Clone)]
pub(crate) struct OneShotInput {
    schema: SchemaRef,
    stream: Arc<Mutex<Option<SendableRecordBatchStream>>>,
}

impl OneShotInput {
    pub(crate) fn new(stream: SendableRecordBatchStream) -> Self {
        Self {
            schema: stream.schema(),
            stream: Arc::new(Mutex::new(Some(stream))),
        }
    }

    /// The stream, unless it is taken.
    pub(crate) fn take(&self) -> Option<SendableRecordBatchStream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An operator of one partition that returns the stream.
    pub(crate) fn plan(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::clone(&self.schema);
        let plan = StreamingTableExec::try_new(schema, vec![Arc::new(self.clone())], None, [], false, None)?;
        Ok(Arc::new(plan))
    }
}

impl fmt::Debug for OneShotInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneShotInput")
    }
}

impl PartitionStream for OneShotInput {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let input = self.clone();
        let taken = futures::stream::once(async move {
            match input.take() {
                Some(stream) => Ok(stream),
                None => internal_err!("the input of an operator is read twice"),
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            taken.try_flatten(),
        ))
    }
}
