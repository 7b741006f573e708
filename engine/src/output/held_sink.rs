//! [`HeldSink`]: a sink of DataFusion whose files appear together, when all rows are written.
//!
//! DataFusion's own sinks end the files of a failed statement as if they were whole, and drop the store's reason if it
//! refuses the end of a file. So they write into a [`HeldStore`].

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileSinkConfig;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use object_store::ObjectStore;
use url::Url;

use super::held_store::HeldStore;
use super::new_files::{is_local, is_single, staged_files};
use super::partition_values::without_nulls;
use crate::printable::verify;

/// Where a sink writes.
#[derive(Debug)]
pub(crate) struct SinkPlace {
    place: Option<ListingTableUrl>,
    is_single: bool,
    /// Whether values are written as texts.
    is_text: bool,
    partition_columns: Vec<(String, DataType)>,
}

impl SinkPlace {
    /// The place of a sink of a format (`csv`) that is not made yet.
    pub(crate) fn of(config: &FileSinkConfig, format: &str) -> Self {
        Self {
            place: config.table_paths.first().cloned(),
            is_single: is_single(config),
            is_text: ["csv", "json"].contains(&format),
            partition_columns: config.table_partition_cols.clone(),
        }
    }
}

/// The sink of `inner`, over a store that holds its files back.
#[derive(Debug)]
pub(crate) struct HeldSink {
    inner: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    place: ListingTableUrl,
    /// Whether the sink writes one file, at `place`.
    is_single: bool,
    is_text: bool,
    partition_columns: Vec<(String, DataType)>,
}

impl HeldSink {
    /// The plan with such a sink, if it ends in a sink.
    pub(crate) fn plan(inner: Arc<dyn ExecutionPlan>, config: SinkPlace) -> Arc<dyn ExecutionPlan> {
        let SinkPlace {
            place,
            is_single,
            is_text,
            partition_columns,
        } = config;
        let (Some(written), Some(place)) = (inner.downcast_ref::<DataSinkExec>(), place) else {
            return inner;
        };
        let (input, order) = (Arc::clone(written.input()), written.sort_order().clone());
        let schema = Arc::clone(written.sink().schema());
        let held = Self {
            inner,
            schema,
            place,
            is_single,
            is_text,
            partition_columns,
        };
        Arc::new(DataSinkExec::new(input, Arc::new(held), order))
    }

    /// The sink within the inner plan.
    fn sink(&self) -> Result<&dyn DataSink> {
        let exec = self.inner.downcast_ref::<DataSinkExec>().map(DataSinkExec::sink);
        exec.ok_or_else(|| DataFusionError::Internal("a sink was replaced".to_owned()))
    }
}

#[async_trait]
impl DataSink for HeldSink {
    fn metrics(&self) -> Option<MetricsSet> {
        self.sink().ok()?.metrics()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(&self, data: SendableRecordBatchStream, context: &Arc<TaskContext>) -> Result<u64> {
        let data = without_nulls(data, &self.partition_columns);
        let data = match self.is_text {
            true => printable(data),
            false => data,
        };
        let runtime = context.runtime_env();
        let files = match is_local(&self.place) {
            true => Some(staged_files(&self.place, self.is_single)?),
            false => None,
        };
        let store = HeldStore::new(runtime.object_store(&self.place)?, files);
        let registry = HeldRegistry {
            stores: Arc::clone(&runtime.object_store_registry),
            held: Arc::new(store.clone()),
        };
        let runtime = RuntimeEnv {
            object_store_registry: Arc::new(registry),
            ..runtime.as_ref().clone()
        };
        match self.sink()?.write_all(data, &with_runtime(context, runtime)).await {
            Ok(rows) => {
                store.publish().await?;
                Ok(rows)
            }
            Err(error) => Err(store.discard().await.unwrap_or(error)),
        }
    }
}

/// The rows, up to the first batch with a value that has no text, which is an error.
fn printable(rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = rows.map(|batch| {
        let batch = batch?;
        verify(&batch)?;
        Ok(batch)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

fn with_runtime(context: &TaskContext, runtime: RuntimeEnv) -> Arc<TaskContext> {
    Arc::new(TaskContext::new(
        context.task_id(),
        context.session_id(),
        context.session_config().clone(),
        context.scalar_functions().clone(),
        context.higher_order_functions().clone(),
        context.aggregate_functions().clone(),
        context.window_functions().clone(),
        Arc::new(runtime),
    ))
}

impl DisplayAs for HeldSink {
    fn fmt_as(&self, display: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.sink() {
            Ok(sink) => sink.fmt_as(display, f),
            Err(_) => Ok(()),
        }
    }
}

/// A registry that gives the sink its held store. A sink writes to one store.
#[derive(Debug)]
struct HeldRegistry {
    stores: Arc<dyn ObjectStoreRegistry>,
    held: Arc<HeldStore>,
}

impl ObjectStoreRegistry for HeldRegistry {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.stores.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.stores.deregister_store(url)
    }

    fn get_store(&self, _: &Url) -> Result<Arc<dyn ObjectStore>> {
        Ok(Arc::clone(&self.held) as Arc<dyn ObjectStore>)
    }
}
