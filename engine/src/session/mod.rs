//! DataFusion sessions with ORC tables, the `grampus.*` settings and the GPU rule.
//!
//! ```text
//! grampus            Grampus, the runtime that sessions share
//! session_change     what a runtime changes in an owner's session, one by one
//! session_memory     the memory limit, and settings that fit it
//! limited_pool       the memory pool of a session with a limit
//! machine_memory     the memory of the machine or of its control group
//! large_limits       an optimizer rule that lets the first rows of a sort spill
//! path_tables        tables named by a path: SELECT … FROM 'data/trips.orc'
//! ```
//!
//! [`statement_parser`], [`placeholders`], [`logical_plan`] and [`plan_cache`] are the statements of a session.

mod grampus;
mod large_limits;
mod limited_pool;
mod machine_memory;
mod path_tables;
mod session_change;
mod session_memory;

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryLimit as PoolLimit;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;

use crate::config::{GrampusConfig, GrampusOptions, MemoryLimit};
use crate::file_table;
use crate::orc_table::OrcTable;
use crate::statement::confinement;
pub use grampus::{Grampus, GrampusBuilder};
pub use session_change::SessionChange;

pub use crate::statement::{logical_plan, parser as statement_parser, placeholders, plan_cache};

/// A session with these settings, over a runtime of its own.
///
/// # Errors
/// As [`GrampusBuilder::build`] and [`Grampus::context`].
pub fn context(config: GrampusConfig) -> Result<SessionContext> {
    Grampus::builder().config(config).build()?.context()
}

/// Refuses a plan that opens or writes files which a session with [`GrampusConfig::is_confined`] does not. Statements
/// that [`plan_cache`] plans were checked; this is for plans that a program makes itself.
///
/// # Errors
/// If the session is confined and the plan does so.
pub fn check_confined(context: &SessionContext, plan: &LogicalPlan) -> Result<()> {
    confinement::check_plan(&context.state(), plan)
}

/// Adds Grampus to a session that an embedding program sets up, over a runtime of its own: [`Grampus::register`].
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
pub fn register(mut builder: SessionStateBuilder, options: GrampusOptions) -> SessionStateBuilder {
    let runtime = builder.runtime_env().as_ref();
    let memory_limit = match runtime.map(|runtime| runtime.memory_pool.memory_limit()) {
        Some(PoolLimit::Finite(bytes)) => MemoryLimit::Bytes(bytes),
        _ => MemoryLimit::Unlimited,
    };
    let config = GrampusConfig {
        memory_limit,
        options,
        ..GrampusConfig::default()
    };
    Grampus::builder().config(config).assemble().register(builder)
}
/// Registers the files at `location` (file, folder, glob or URL) as table `name`. The end of the location decides the
/// format: `.parquet`, `.csv`, `.tsv`, `.json`, `.ndjson`, `.jsonl`, `.arrow`, `.feather`, `.ipc`, and ORC for anything
/// else. Text may be compressed: `.csv.gz`, `.bz2`, `.xz`, `.zst`.
///
/// # Errors
/// As [`OrcTable::open`]; if the session does not read the format, and if the name is taken.
pub async fn register_files(context: &SessionContext, name: &str, location: &str) -> Result<()> {
    let table = file_table::open(&context.state(), location).await?;
    context.register_table(TableReference::bare(name), table)?;
    Ok(())
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
