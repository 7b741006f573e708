//! ORC files in a bare `FileScanConfig` of DataFusion, as table formats and schedulers build it: a session without
//! Grampus scans a file in two halves.
//!
//!     cargo run -p grampus --example file_scan_config -- trips.orc

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::{ExecutionPlan, collect, displayable};
use datafusion::prelude::SessionContext;
use grampus::{OrcFormat, OrcSource};
use object_store::ObjectStoreExt;
use object_store::path::Path;

/// A plan that scans the file, one partition for each half of its bytes.
pub(crate) async fn halves(session: &SessionContext, file: &str) -> Result<Arc<dyn ExecutionPlan>> {
    let url = ObjectStoreUrl::local_filesystem();
    let store = session.runtime_env().object_store(&url)?;
    let object = store.head(&Path::from_filesystem_path(file)?).await?;

    // A table format knows the columns. Here the file's footer tells them.
    let objects = [object.clone()];
    let columns = OrcFormat::default()
        .infer_schema(&session.state(), &store, &objects)
        .await?;
    let source = OrcSource::new(TableSchema::from(columns));

    let (middle, end) = ((object.size / 2) as i64, object.size as i64);
    let half = |start, end| PartitionedFile::new_from_meta(object.clone()).with_range(start, end);
    let config = FileScanConfigBuilder::new(url, Arc::new(source))
        .with_file(half(0, middle))
        .with_file(half(middle, end))
        .build();
    Ok(DataSourceExec::from_data_source(config))
}

#[tokio::main]
async fn main() -> Result<()> {
    let file = std::env::args().nth(1).expect("an ORC file");
    let session = SessionContext::new();
    let plan = halves(&session, &file).await?;
    println!("{}", displayable(plan.as_ref()).indent(true));
    let batches = collect(plan, session.task_ctx()).await?;
    println!("{}", pretty_format_batches(&batches)?);
    Ok(())
}
