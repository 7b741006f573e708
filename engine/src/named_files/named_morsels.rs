//! The steps of reading one file, with the file's name in their errors: [`NamedMorselizer`].
//!
//! DataFusion plans a file in steps and decodes it in morsels. Each step, each morsel and each batch of a morsel can
//! fail.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result;
use datafusion_datasource::morsel::{Morsel, MorselPlan, MorselPlanner, Morselizer};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

use super::file_error::FileName;

/// The entry point of reading files of one store and format.
#[derive(Debug)]
pub(super) struct NamedMorselizer {
    pub(super) inner: Box<dyn Morselizer>,
    pub(super) store_url: String,
    pub(super) format: String,
}

impl Morselizer for NamedMorselizer {
    fn plan_file(&self, file: PartitionedFile) -> Result<Box<dyn MorselPlanner>> {
        let name = FileName::new(&self.store_url, &file.object_meta.location, &self.format);
        let name = Arc::new(name);
        let planner = self.inner.plan_file(file).map_err(|error| name.name(error))?;
        Ok(named_planner(planner, &name))
    }
}

fn named_planner(inner: Box<dyn MorselPlanner>, name: &Arc<FileName>) -> Box<dyn MorselPlanner> {
    let name = Arc::clone(name);
    Box::new(NamedPlanner { inner, name })
}

/// A step before the morsels.
#[derive(Debug)]
struct NamedPlanner {
    inner: Box<dyn MorselPlanner>,
    name: Arc<FileName>,
}

impl MorselPlanner for NamedPlanner {
    fn plan(self: Box<Self>) -> Result<Option<MorselPlan>> {
        let Self { inner, name } = *self;
        let Some(mut plan) = inner.plan().map_err(|error| name.name(error))? else {
            return Ok(None);
        };
        let morsels = plan.take_morsels().into_iter().map(|inner| {
            let name = Arc::clone(&name);
            Box::new(NamedMorsel { inner, name }) as Box<dyn Morsel>
        });
        let planners = plan.take_ready_planners().into_iter();
        let mut named = MorselPlan::new()
            .with_morsels(morsels.collect())
            .with_planners(planners.map(|planner| named_planner(planner, &name)).collect());
        if let Some(pending) = plan.take_pending_planner() {
            named.set_pending_planner(async move {
                let planner = pending.await.map_err(|error| name.name(error))?;
                Ok(named_planner(planner, &name))
            });
        }
        Ok(Some(named))
    }
}

/// Bytes to decode.
#[derive(Debug)]
struct NamedMorsel {
    inner: Box<dyn Morsel>,
    name: Arc<FileName>,
}

impl Morsel for NamedMorsel {
    fn into_stream(self: Box<Self>) -> BoxStream<'static, Result<RecordBatch>> {
        let name = self.name;
        let batches = self.inner.into_stream();
        batches.map_err(move |error| name.name(error)).boxed()
    }
}
