//! [`Session`]: one DataFusion session, over a runtime and worker threads that sessions share.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
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

use crate::error::{error, query_error};
use crate::given_tables::{self, Given};
use crate::memory_table::memory_table;
use crate::parameters::Parameters;
use crate::python_function::PythonFunction;
use crate::query::{Query, StatementResult};
use crate::threads::Threads;

/// A session, its runtime and its workers.
#[pyclass(frozen, module = "grampus._grampus")]
pub(crate) struct Session {
    grampus: Grampus,
    context: SessionContext,
    threads: Arc<Threads>,
}

/// A query that is not executed yet, or the result of a statement that was.
struct BoundStatement {
    plan: LogicalPlan,
    /// The query's text, if it means the same the next time.
    statement: Option<(String, Statement)>,
    result: StatementResult,
}

impl BoundStatement {
    fn of(plan: LogicalPlan, result: StatementResult) -> Self {
        Self {
            plan,
            statement: None,
            result,
        }
    }
}

/// A new session of the runtime.
fn context_of(grampus: &Grampus) -> PyResult<SessionContext> {
    let context = grampus.context().map_err(|failure| query_error(&failure))?;
    // A relation is a subquery of the relations made of it, which keep its order.
    let state = context.state_ref();
    state
        .write()
        .config_mut()
        .options_mut()
        .sql_parser
        .enable_subquery_sort_elimination = false;
    given_tables::allow(&context);
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
    ///
    /// `values`: those of placeholders. `relations`: tables of this statement alone, by name. `look_up`: returns the
    /// variable of a name that no table has.
    #[pyo3(signature = (text, values=None, relations=None, look_up=None))]
    fn sql(
        &self,
        py: Python<'_>,
        text: String,
        values: Option<Bound<'_, PyAny>>,
        relations: Option<HashMap<String, PyRef<'_, Query>>>,
        look_up: Option<Py<PyAny>>,
    ) -> PyResult<Query> {
        let values = values.as_ref().map(Parameters::new).transpose()?;
        let relations = relations.unwrap_or_default().into_iter();
        let relations = relations.map(|(name, query)| Ok((name, self.table_of(&query)?)));
        let given = Given::new(&self.context, relations.collect::<PyResult<_>>()?, look_up);
        let (state, shown) = (self.context.state(), text.clone());
        // The stack of a worker is large enough for deep statements.
        let parsed = self
            .threads
            .wait(py, async move { caught(&shown, || parse_statements(&state, &shown)) })?;
        let mut statements = parsed.map_err(|failure| query_error(&failure))?;
        let is_single = statements.len() == 1;
        if let Some(values) = &values {
            let [statement] = statements.as_mut_slice() else {
                return Err(error(
                    "parameters belong to one statement: pass the statements one by one",
                ));
            };
            values.fill(statement).map_err(|failure| query_error(&failure))?;
        }
        let mut last = None;
        for statement in statements {
            let shown = text.clone();
            // A text that means the same the next time.
            let text = (is_single && values.is_none()).then(|| text.clone());
            let running = run_statement(self.context.clone(), text, statement, Arc::clone(&given));
            let work = async move { caught_in(&shown, running).await };
            let bound = self.threads.wait(py, work)?;
            let bound = bound.map_err(|failure| given.failure().unwrap_or_else(|| query_error(&failure)))?;
            last = Some(match bound.statement {
                Some(statement) => Query::new(&self.context, &self.threads, bound.plan, Some(statement)),
                None => Query::of_statement(&self.context, &self.threads, bound.plan, bound.result),
            });
        }
        match last {
            Some(query) => Ok(query),
            None => {
                let nothing = nothing().map_err(|failure| query_error(&failure))?;
                Ok(Query::of_statement(
                    &self.context,
                    &self.threads,
                    nothing,
                    StatementResult::Nothing,
                ))
            }
        }
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
        let (table, rows) = memory_table(py, &self.context, object)?;
        self.replace(name, table)?;
        Ok(rows)
    }

    /// Registers a query of this session as a table.
    fn register_query(&self, name: &str, query: &Query) -> PyResult<()> {
        self.replace(name, self.table_of(query)?)
    }

    /// Makes a function of Python a scalar function of SQL.
    fn create_function(
        &self,
        name: &str,
        call: Py<PyAny>,
        parameters: &Bound<'_, PyAny>,
        returns: &Bound<'_, PyAny>,
        is_volatile: bool,
    ) -> PyResult<()> {
        PythonFunction::register(&self.context, name, call, parameters, returns, is_volatile)
    }

    /// Removes a function of Python. False if there is none.
    fn remove_function(&self, name: &str) -> bool {
        PythonFunction::remove(&self.context, name)
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
    /// A query of this session as a table.
    fn table_of(&self, query: &Query) -> PyResult<Arc<dyn TableProvider>> {
        match query.is_of(&self.context) {
            true => Ok(query.table()),
            false => Err(error(
                "the relation belongs to another connection: pass its arrow() table, or register that here",
            )),
        }
    }

    fn replace(&self, name: &str, table: Arc<dyn TableProvider>) -> PyResult<()> {
        let replaced = self
            .context
            .deregister_table(TableReference::bare(name))
            .and_then(|_| self.context.register_table(TableReference::bare(name), table));
        replaced.map(drop).map_err(|failure| query_error(&failure))
    }
}

/// The plan of no columns and no rows.
fn nothing() -> Result<LogicalPlan> {
    LogicalPlanBuilder::empty(false).build()
}

async fn run_statement(
    context: SessionContext,
    text: Option<String>,
    statement: Statement,
    given: Arc<Given>,
) -> Result<BoundStatement> {
    let plan = given.during(logical_plan(&context, statement.clone())).await?;
    given.check(&plan)?;
    match &plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => {
            let frame = context.execute_logical_plan(plan).await?;
            match frame.schema().fields().is_empty() {
                true => Ok(BoundStatement::of(nothing()?, StatementResult::Nothing)),
                false => Ok(BoundStatement::of(frame.into_unoptimized_plan(), StatementResult::Rows)),
            }
        }
        LogicalPlan::Dml(_) | LogicalPlan::Copy(_) => {
            let frame = context.execute_logical_plan(plan).await?;
            let counts = MemTable::try_new(
                Arc::new(frame.schema().as_arrow().clone()),
                vec![frame.collect().await?],
            )?;
            let plan = LogicalPlanBuilder::scan("counts", provider_as_source(Arc::new(counts)), None)?.build()?;
            Ok(BoundStatement::of(plan, StatementResult::Count))
        }
        _ => Ok(BoundStatement {
            plan,
            statement: text.filter(|_| !given.has_tables()).map(|text| (text, statement)),
            result: StatementResult::Rows,
        }),
    }
}
