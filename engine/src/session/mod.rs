//! DataFusion sessions with ORC tables, the `grampus.*` settings and the GPU rule.
//!
//! ```text
//! grampus            Grampus, the runtime that sessions share
//! session_change     what a runtime changes in an owner's session, one by one
//! session_memory     the memory limit, and settings that fit it
//! names              unquoted names in any letter case
//! summary            SUMMARIZE: figures of each column
//! column_summaries   the aggregate function of these figures
//! create_table_as    CREATE EXTERNAL TABLE … AS SELECT …
//! new_table          a table that the catalog gets when its rows are complete
//! query_mark         what the parser does not read of a statement, as a mark of its query
//! row_memberships    (a, b) IN (SELECT …)
//! json_forms         operators and paths of JSON
//! macros             functions that are short for expressions
//! select_forms       forms of queries that DataFusion does not plan
//! statement_depth    statements that are too deep for the threads' stacks
//! copy_options       COPY … TO 'file' (format csv), COPY … FROM
//! dialect            the dialect in which they are parsed
//! statement_parser   the statements of a text
//! statement_expressions
//!                    the expressions of a statement
//! long_chains        long chains of AND and OR become balanced trees
//! distinct_from      IS DISTINCT FROM binds tighter than AND and OR
//! statement_text     the tokens of statements, and their places
//! plan_cache         the optimized logical plan of each statement text
//! listed_once        a query planner that lists each ORC table once
//! logical_plan       the plan of a statement that is not executed yet
//! statement_options  OPTIONS of stores and OPTIONS of formats
//! statement_secrets  statements without passwords and keys
//! store_statements   stores of the OPTIONS of CREATE EXTERNAL TABLE and COPY
//! read_functions     read_csv, read_parquet, glob … as names of tables
//! path_tables        tables named by a path: SELECT … FROM 'data/trips.orc'
//! replaced_files     an analyzer rule that lists the files which INSERT OVERWRITE replaces
//! char_literals      an analyzer rule for comparisons of CHAR columns with literals
//! timestamp_literals an analyzer rule for comparisons of timestamps in microseconds with constants
//! comparisons        rewrites of comparisons and of other expressions in plans
//! datafusion_repairs rules and functions in place of DataFusion's faults
//! filter_samples     an optimizer rule that samples the filters of scans below joins
//! cooperative_joins  an optimizer rule that makes joins yield to other tasks
//! large_limits       an optimizer rule that lets the first rows of a sort spill
//! limited_pool       the memory pool of a session with a limit
//! machine_memory     the memory of the machine or of its control group
//! spilling_join      a hash join that becomes a sort-merge join if its build side does not fit
//! build_side_filter  the dynamic filter of such a join
//! key_set            many keys of such a filter, in few bits each
//! spill_safe_repartition, spill_segments
//!                    repartitioning without a deadlock of DataFusion's when it spills
//! ```

mod build_side_filter;
mod char_literals;
mod column_summaries;
mod comparisons;
mod cooperative_joins;
mod copy_options;
mod create_table_as;
mod datafusion_repairs;
mod dialect;
mod distinct_from;
mod filter_samples;
mod grampus;
mod json_forms;
mod key_set;
mod large_limits;
mod limited_pool;
mod listed_once;
pub mod logical_plan;
mod long_chains;
mod machine_memory;
mod macros;
mod names;
mod new_table;
mod path_tables;
pub mod plan_cache;
mod query_mark;
mod read_functions;
mod replaced_files;
mod row_memberships;
mod select_forms;
mod session_change;
mod session_memory;
mod spill_safe_repartition;
mod spill_segments;
mod spilling_join;
mod statement_depth;
mod statement_expressions;
mod statement_options;
pub mod statement_parser;
mod statement_secrets;
mod statement_text;
mod store_statements;
mod summary;
mod timestamp_literals;

use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::memory_pool::MemoryLimit as PoolLimit;
use datafusion::prelude::SessionContext;

use crate::config::{GrampusConfig, GrampusOptions, MemoryLimit};
use crate::file_table;
use crate::orc_table::OrcTable;
pub use grampus::{Grampus, GrampusBuilder};
pub use session_change::SessionChange;

/// A session with these settings, over a runtime of its own.
///
/// # Errors
/// As [`GrampusBuilder::build`] and [`Grampus::context`].
pub fn context(config: GrampusConfig) -> Result<SessionContext> {
    Grampus::builder().config(config).build()?.context()
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
