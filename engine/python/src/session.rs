//! [`Session`]: one DataFusion session, over a runtime and worker threads that sessions share.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{ParamValues, TableReference};
use datafusion::config::{ConfigEntry, ExtensionOptions};
use datafusion::datasource::{MemTable, provider_as_source};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use grampus::caught_panic::{caught, caught_in};
use grampus::session::logical_plan::logical_plan;
use grampus::session::statement_parser::parse_statements;
use grampus::{Grampus, GrampusConfig, MemoryLimit, OrcTable};
use pyo3::prelude::*;

use crate::capsules::stream_of;
use crate::error::{self, error, query_error};
use crate::parameters::parameters;
use crate::query::Query;
use crate::threads::{TICK, Threads};

/// A session, its runtime and its workers.
#[pyclass(frozen, module = "grampus._grampus")]
pub(crate) struct Session {
    grampus: Grampus,
    context: SessionContext,
    threads: Arc<Threads>,
}

/// A query that is not executed yet. `None`: the statement has no result, such as SET, and was executed.
type BoundQuery = Option<(LogicalPlan, Option<(String, Statement)>)>;

/// A new session of the runtime.
fn context_of(grampus: &Grampus) -> PyResult<SessionContext> {
    let context = grampus.context().map_err(|failure| query_error(&failure))?;
    #[cfg(feature = "as-tested")]
    crate::panicking_functions::register(&context);
    Ok(context)
}

#[pymethods]
impl Session {
    /// A session. `memory_limit_bytes` 0 is no limit; `None` is most of the machine's memory.
    #[new]
    fn new(
        settings: HashMap<String, String>,
        memory_limit_bytes: Option<usize>,
        threads: Option<usize>,
        batch_rows: Option<usize>,
    ) -> PyResult<Self> {
        let mut config = GrampusConfig {
            target_partitions: threads,
            memory_limit: match memory_limit_bytes {
                None => MemoryLimit::Machine,
                Some(0) => MemoryLimit::Unlimited,
                Some(bytes) => MemoryLimit::Bytes(bytes),
            },
            batch_rows,
            ..GrampusConfig::default()
        };
        // The other sessions of the runtime start with these settings too.
        for (name, value) in &settings {
            if let Some(name) = name.strip_prefix("grampus.") {
                let set = config.options.set(name, value);
                set.map_err(|failure| query_error(&failure))?;
            }
        }
        let grampus = Grampus::builder().config(config).build();
        let grampus = grampus.map_err(|failure| query_error(&failure))?;
        let context = context_of(&grampus)?;
        let workers = Threads::start(threads);
        let session = Self {
            grampus,
            context,
            threads: Arc::new(workers.map_err(|failure| error(format!("cannot start threads: {failure}")))?),
        };
        for (name, value) in settings {
            session.set(&name, &value)?;
        }
        Ok(session)
    }

    /// Another session over the same runtime and workers, with tables and settings of its own.
    fn another(&self) -> PyResult<Self> {
        Ok(Self {
            grampus: self.grampus.clone(),
            context: context_of(&self.grampus)?,
            threads: Arc::clone(&self.threads),
        })
    }

    /// Binds a statement, or executes it if it is no query. Of several statements, the last one counts.
    #[pyo3(signature = (text, values=None))]
    fn sql(&self, py: Python<'_>, text: String, values: Option<Bound<'_, PyAny>>) -> PyResult<Option<Query>> {
        let values = values.as_ref().map(parameters).transpose()?;
        let (state, shown) = (self.context.state(), text.clone());
        // The stack of a worker is large enough for deep statements.
        let parsed = self
            .threads
            .wait(py, async move { caught(&shown, || parse_statements(&state, &shown)) })?;
        let statements = parsed.map_err(|failure| query_error(&failure))?;
        if values.is_some() && statements.len() > 1 {
            return Err(error(
                "parameters belong to one statement: pass the statements one by one",
            ));
        }
        let is_single = statements.len() == 1;
        let mut last = None;
        for statement in statements {
            let shown = text.clone();
            let text = (is_single && values.is_none()).then(|| text.clone());
            let running = run_statement(self.context.clone(), text, statement, values.clone());
            let work = async move { caught_in(&shown, running).await };
            let bound = self.threads.wait(py, work)?.map_err(|failure| query_error(&failure))?;
            last = bound.map(|(plan, statement)| Query::new(&self.context, &self.threads, plan, statement));
        }
        Ok(last)
    }

    /// ORC files as one table: paths, folders, patterns, URLs.
    fn read_orc(&self, py: Python<'_>, locations: Vec<String>) -> PyResult<Query> {
        let context = self.context.clone();
        let work = async move {
            let table = OrcTable::open(&context.state(), &locations).await?;
            LogicalPlanBuilder::scan("orc", provider_as_source(Arc::new(table)), None)?.build()
        };
        let plan = self.threads.wait(py, work)?.map_err(|failure| query_error(&failure))?;
        Ok(Query::new(&self.context, &self.threads, plan, None))
    }

    /// Registers the batches of an object's Arrow stream as a table. Returns the number of rows.
    fn register_stream(&self, py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut reader = stream_of(object)?;
        let schema = reader.schema();
        let rows_per_batch = self.context.copied_config().batch_size();
        let read = move || -> PyResult<Vec<RecordBatch>> {
            let mut batches = Vec::new();
            let mut looked = std::time::Instant::now();
            while let Some(batch) = reader.next_batch().map_err(|failure| error(failure.to_string()))? {
                // Slices share the producer's memory, and let partitions divide the work.
                let starts = (0..batch.num_rows()).step_by(rows_per_batch.max(1));
                batches.extend(starts.map(|at| batch.slice(at, rows_per_batch.min(batch.num_rows() - at))));
                if looked.elapsed() >= TICK {
                    looked = std::time::Instant::now();
                    Python::attach(|py| py.check_signals())?;
                }
            }
            Ok(batches)
        };
        let batches = py.detach(|| error::caught("register", read))?;
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let table = MemTable::try_new(schema, vec![batches]).map_err(|failure| query_error(&failure))?;
        self.replace(name, Arc::new(table))?;
        Ok(rows)
    }

    /// Registers a query of this session as a table.
    fn register_query(&self, name: &str, query: &Query) -> PyResult<()> {
        if !query.is_of(&self.context) {
            return Err(error(
                "the relation belongs to another connection: register its arrow() table here",
            ));
        }
        self.replace(name, query.table())
    }

    /// Removes a table. False if there is none.
    fn unregister(&self, name: &str) -> PyResult<bool> {
        let removed = self.context.deregister_table(TableReference::bare(name));
        Ok(removed.map_err(|failure| query_error(&failure))?.is_some())
    }

    /// The names of the session's tables, sorted.
    fn tables(&self) -> Vec<String> {
        let catalog = self.context.catalog("datafusion");
        let schema = catalog.and_then(|catalog| catalog.schema("public"));
        let mut names = schema.map(|schema| schema.table_names()).unwrap_or_default();
        names.sort();
        names
    }

    /// Changes a setting.
    fn set(&self, name: &str, value: &str) -> PyResult<()> {
        let state = self.context.state_ref();
        let mut state = state.write();
        let set = state.config_mut().options_mut().set(name, value);
        set.map_err(|failure| query_error(&failure))
    }

    /// Name, value and description of each setting, sorted.
    fn settings(&self) -> Vec<(String, Option<String>, String)> {
        let mut entries: Vec<ConfigEntry> = self.context.copied_config().options().entries();
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        entries
            .into_iter()
            .map(|entry| (entry.key, entry.value, entry.description.to_owned()))
            .collect()
    }
}

impl Session {
    fn replace(&self, name: &str, table: Arc<dyn datafusion::catalog::TableProvider>) -> PyResult<()> {
        let replaced = self
            .context
            .deregister_table(TableReference::bare(name))
            .and_then(|_| self.context.register_table(TableReference::bare(name), table));
        replaced.map(drop).map_err(|failure| query_error(&failure))
    }
}

async fn run_statement(
    context: SessionContext,
    text: Option<String>,
    statement: Statement,
    values: Option<ParamValues>,
) -> Result<BoundQuery> {
    let mut plan = logical_plan(&context, statement.clone()).await?;
    if let Some(values) = values {
        plan = plan.with_param_values(values)?;
    }
    match &plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            let frame = context.execute_logical_plan(plan).await?;
            match frame.schema().fields().is_empty() {
                true => Ok(None),
                false => Ok(Some((frame.into_unoptimized_plan(), None))),
            }
        }
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => {
            let frame = context.execute_logical_plan(plan).await?;
            let counts = MemTable::try_new(
                Arc::new(frame.schema().as_arrow().clone()),
                vec![frame.collect().await?],
            )?;
            let plan = LogicalPlanBuilder::scan("counts", provider_as_source(Arc::new(counts)), None)?.build()?;
            Ok(Some((plan, None)))
        }
        _ => Ok(Some((plan, text.map(|text| (text, statement))))),
    }
}
