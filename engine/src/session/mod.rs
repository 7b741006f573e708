//! DataFusion sessions with ORC tables, the `grampus.*` settings and the GPU rule.
//!
//! ```text
//! plan_cache         the optimized logical plan of each statement text
//! path_tables        tables named by a path: SELECT … FROM 'data/trips.orc'
//! cooperative_joins  an optimizer rule that makes joins yield to other tasks
//! ```

mod cooperative_joins;
mod path_tables;
pub mod plan_cache;

use std::num::NonZeroUsize;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::config::{GrampusConfig, GrampusOptions};
use crate::file::file_cache::FileCache;
use crate::gpu::offload_rule::OffloadRule;
use crate::gpu::session::GpuSession;
use crate::orc_table::{OrcTable, OrcTableFactory};
use cooperative_joins::CooperativeJoins;
use path_tables::with_tables_by_path;
use plan_cache::PlanCache;

/// The number of largest consumers that an out-of-memory error names.
const NAMED_CONSUMERS: NonZeroUsize = NonZeroUsize::new(3).unwrap();

/// A session with these settings.
///
/// # Errors
/// If the runtime cannot be set up (no temporary folder, say).
pub fn context(config: GrampusConfig) -> Result<SessionContext> {
    let mut session = SessionConfig::new().with_information_schema(true);
    if let Some(partitions) = config.target_partitions {
        session = session.with_target_partitions(partitions.max(1));
    }
    if let Some(rows) = config.batch_rows {
        session = session.with_batch_size(rows.max(1));
    }
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(limit) = config.memory_limit_bytes {
        let pool = TrackConsumersPool::new(FairSpillPool::new(limit), NAMED_CONSUMERS);
        runtime = runtime.with_memory_pool(Arc::new(pool));
    }
    let state = SessionStateBuilder::new()
        .with_config(session)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features();
    let state = register(state, config.options).build();
    Ok(with_tables_by_path(SessionContext::new_with_state(state)))
}

/// Adds Grampus to a session that an embedding program sets up: ORC tables (`STORED AS ORC`, [`register_orc`]), the
/// `grampus.*` settings and the GPU rule. Memory, partitions and catalogs stay as the program sets them.
///
/// ```
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionContext;
/// use grampus::GrampusOptions;
///
/// let builder = SessionStateBuilder::new().with_default_features();
/// let state = grampus::register(builder, GrampusOptions::default()).build();
/// let context = SessionContext::new_with_state(state);
/// ```
pub fn register(builder: SessionStateBuilder, options: GrampusOptions) -> SessionStateBuilder {
    register_with(builder, options, Arc::default())
}

/// Like [`register`], with the given GPU state.
pub(crate) fn register_with(
    mut builder: SessionStateBuilder,
    options: GrampusOptions,
    gpu: Arc<GpuSession>,
) -> SessionStateBuilder {
    let session = builder.config().take().unwrap_or_default();
    let session = session
        .with_extension(Arc::new(FileCache::default()))
        .with_extension(Arc::new(PlanCache::default()))
        .with_extension(Arc::clone(&gpu))
        .with_option_extension(options);
    builder
        .with_config(session)
        .with_physical_optimizer_rule(Arc::new(CooperativeJoins))
        // Last: the rule replaces operators of the plan as it will run.
        .with_physical_optimizer_rule(Arc::new(OffloadRule::new(gpu)))
        .with_table_factory("ORC".to_owned(), Arc::new(OrcTableFactory))
}

/// Registers the ORC files at `location` (file, folder, glob or URL) as table `name`.
///
/// # Errors
/// As [`OrcTable::open`], and if the name is taken.
pub async fn register_orc(context: &SessionContext, name: &str, location: &str) -> Result<()> {
    let table = OrcTable::open(&context.state(), &[location.to_owned()]).await?;
    context.register_table(TableReference::bare(name), Arc::new(table))?;
    Ok(())
}
