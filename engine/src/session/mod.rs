//! DataFusion sessions with ORC tables, the `grampus.*` settings and the GPU rule.
//!
//! ```text
//! names              unquoted names in any letter case
//! plan_cache         the optimized logical plan of each statement text
//! path_tables        tables named by a path: SELECT … FROM 'data/trips.orc'
//! char_literals      an analyzer rule for comparisons of CHAR columns with literals
//! timestamp_literals an analyzer rule for comparisons of timestamps in microseconds with constants
//! comparisons        rewrites of comparisons in plans
//! cooperative_joins  an optimizer rule that makes joins yield to other tasks
//! large_limits       an optimizer rule that lets the first rows of a sort spill
//! limited_pool       the memory pool of a session with a limit
//! machine_memory     the memory of the machine or of its control group
//! spilling_join, one_shot_input
//!                    a hash join that becomes a sort-merge join if its build side does not fit
//! spill_safe_repartition, spill_segments
//!                    repartitioning without a deadlock of DataFusion's when it spills
//! ```

mod char_literals;
mod comparisons;
mod cooperative_joins;
mod large_limits;
mod limited_pool;
mod machine_memory;
mod names;
mod one_shot_input;
mod path_tables;
pub mod plan_cache;
mod spill_safe_repartition;
mod spill_segments;
mod spilling_join;
mod timestamp_literals;

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryLimit as PoolLimit;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::config::{GrampusConfig, GrampusOptions, MemoryLimit};
use crate::file::file_cache::FileCache;
use crate::gpu::offload_rule::OffloadRule;
use crate::gpu::session::GpuSession;
use crate::orc_table::{OrcTable, OrcTableFactory};
use char_literals::CharLiterals;
use cooperative_joins::CooperativeJoins;
use large_limits::LargeLimits;
use limited_pool::{LimitedPool, minimum_bytes};
use machine_memory::machine_memory_bytes;
use path_tables::with_tables_by_path;
use plan_cache::PlanCache;
use spill_safe_repartition::SpillSafeRepartitions;
use spilling_join::SpillingJoins;
use timestamp_literals::TimestampLiterals;

/// Rows per batch of a session, if neither a setting nor its memory limit says otherwise.
const BATCH_ROWS: usize = 8192;
/// Minimum rows per batch at a low memory limit.
const MIN_BATCH_ROWS: usize = 128;
/// A batch has at most one row for each of these bytes of a partition's memory, so that a sort of rows of 100 bytes has
/// memory for some hundred batches.
const PARTITION_BYTES_PER_BATCH_ROW: usize = 16 << 10;
/// A sort keeps its first rows in memory if a partition's memory has so many bytes for each of them.
const PARTITION_BYTES_PER_FIRST_ROW: usize = 1 << 10;
/// Estimated bytes per row of a build side that all partitions share.
const SHARED_BUILD_ROW_BYTES: usize = 128;

/// A session with these settings.
///
/// # Errors
/// If the runtime cannot be set up (no temporary folder, say).
pub fn context(config: GrampusConfig) -> Result<SessionContext> {
    let mut session = SessionConfig::new().with_information_schema(true);
    if let Some(partitions) = config.target_partitions {
        session = session.with_target_partitions(partitions.max(1));
    }
    let limit = limit_bytes(config.memory_limit);
    if let Some(limit) = limit {
        session = fit_to_memory(session, limit);
    }
    if let Some(rows) = config.batch_rows {
        session = session.with_batch_size(rows.max(1));
    }
    let mut runtime = RuntimeEnvBuilder::new();
    let mut first_rows = usize::MAX;
    if let Some(limit) = limit {
        first_rows = limit / session.target_partitions().max(1) / PARTITION_BYTES_PER_FIRST_ROW;
        let pool = LimitedPool::new(limit, session.target_partitions());
        runtime = runtime.with_memory_pool(Arc::new(pool));
    }
    let state = SessionStateBuilder::new()
        .with_config(session)
        .with_runtime_env(runtime.build_arc()?)
        .with_default_features()
        .with_physical_optimizer_rule(Arc::new(LargeLimits { rows: first_rows }));
    let state = register(state, config.options).build();
    Ok(with_tables_by_path(SessionContext::new_with_state(state)))
}

/// The limit in bytes; `None`: no limit, or the machine does not say how much memory it has.
fn limit_bytes(limit: MemoryLimit) -> Option<usize> {
    match limit {
        MemoryLimit::Bytes(bytes) => Some(bytes),
        MemoryLimit::Unlimited => None,
        MemoryLimit::Machine => {
            let bytes = machine_memory_bytes()? / 10 * 8;
            Some(usize::try_from(bytes).unwrap_or(usize::MAX))
        }
    }
}

/// Settings with which queries run in `limit` bytes: small batches and small merge buffers, if the limit is low.
fn fit_to_memory(session: SessionConfig, limit: usize) -> SessionConfig {
    let partitions = session.target_partitions().max(1);
    let rows = limit / partitions / PARTITION_BYTES_PER_BATCH_ROW;
    let minimum = minimum_bytes(limit, partitions);
    let mut session = session.with_batch_size(rows.clamp(MIN_BATCH_ROWS, BATCH_ROWS));
    let execution = &mut session.options_mut().execution;
    execution.sort_spill_reservation_bytes = execution.sort_spill_reservation_bytes.min(minimum);
    execution.sort_in_place_threshold_bytes = execution.sort_in_place_threshold_bytes.min(minimum);
    // A build side that all partitions share cannot spill. It must be small.
    let optimizer = &mut session.options_mut().optimizer;
    let (bytes, rows) = (
        &mut optimizer.hash_join_single_partition_threshold,
        &mut optimizer.hash_join_single_partition_threshold_rows,
    );
    *bytes = (*bytes).min(limit / 16);
    *rows = (*rows).min(limit / 16 / SHARED_BUILD_ROW_BYTES);
    session
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
    let memory_limit = match builder
        .runtime_env()
        .as_ref()
        .map(|runtime| runtime.memory_pool.memory_limit())
    {
        Some(PoolLimit::Finite(bytes)) => bytes,
        _ => usize::MAX,
    };
    let session = session
        .with_extension(Arc::new(FileCache::within(memory_limit)))
        .with_extension(Arc::new(PlanCache::default()))
        .with_extension(Arc::clone(&gpu))
        .with_option_extension(options);
    builder
        .with_config(session)
        .with_analyzer_rule(Arc::new(CharLiterals))
        .with_analyzer_rule(Arc::new(TimestampLiterals))
        // Before the rules whose operators hide an aggregation's input from it.
        .with_physical_optimizer_rule(Arc::new(OffloadRule::new(gpu)))
        .with_physical_optimizer_rule(Arc::new(SpillSafeRepartitions))
        .with_physical_optimizer_rule(Arc::new(SpillingJoins))
        .with_physical_optimizer_rule(Arc::new(CooperativeJoins))
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
