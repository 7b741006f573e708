//! [`HeldSink`]: a sink of DataFusion whose files appear together, when all rows are written.
//!
//! DataFusion's own sinks end the files of a failed statement as if they were whole, and drop the store's reason if it
//! refuses the end of a file. So they write into a [`HeldStore`].

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use object_store::ObjectStore;
use url::Url;

use super::held_store::HeldStore;
use super::partition_values::without_nulls;

/// The sink of `inner`, over a store that holds its files back.
#[derive(Debug)]
pub(crate) struct HeldSink {
    inner: Arc<dyn ExecutionPlan>,
    schema: SchemaRef,
    place: ListingTableUrl,
    partition_columns: Vec<(String, DataType)>,
}

impl HeldSink {
    /// The plan with such a sink, if it ends in a sink.
    pub(crate) fn plan(
        inner: Arc<dyn ExecutionPlan>,
        place: Option<ListingTableUrl>,
        partition_columns: Vec<(String, DataType)>,
    ) -> Arc<dyn ExecutionPlan> {
        let (Some(written), Some(place)) = (inner.downcast_ref::<DataSinkExec>(), place) else {
            return inner;
        };
        let (input, order) = (Arc::clone(written.input()), written.sort_order().clone());
        let schema = Arc::clone(written.sink().schema());
        let held = Self {
            inner,
            schema,
            place,
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
        let runtime = context.runtime_env();
        let store = HeldStore::new(runtime.object_store(&self.place)?);
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
                let published = store.publish().await;
                published.map_err(|error| DataFusionError::ObjectStore(Box::new(error)))?;
                Ok(rows)
            }
            Err(error) => {
                store.discard().await;
                Err(error)
            }
        }
    }
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
