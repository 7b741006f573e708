//! [`Query`]: a bound query that is not executed yet.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::source_as_provider;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionContext, ident};
use datafusion::sql::parser::Statement;
use grampus::caught_panic::{caught, caught_in};
use grampus::session::plan_cache::plan_statement;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsules::schema_capsule;
use crate::error::query_error;
use crate::foreign_table::{ForeignTable, table_capsule};
use crate::run::Run;
use crate::threads::Threads;

/// A bound query. Each execution plans from the files as they are then.
#[pyclass(frozen, module = "grampus._grampus")]
pub(crate) struct Query {
    context: SessionContext,
    threads: Arc<Threads>,
    plan: LogicalPlan,
    /// The statement and its text, with which the plan cache serves repeated texts.
    statement: Option<(String, Statement)>,
    schema: SchemaRef,
    result: StatementResult,
}

/// What a statement has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StatementResult {
    /// Rows, when the query is executed.
    Rows,
    /// The number of rows that it changed.
    Count,
    /// Nothing.
    Nothing,
}

impl Query {
    pub(crate) fn new(
        context: &SessionContext,
        threads: &Arc<Threads>,
        plan: LogicalPlan,
        statement: Option<(String, Statement)>,
    ) -> Self {
        Self {
            context: context.clone(),
            threads: Arc::clone(threads),
            schema: Arc::new(Schema::clone(plan.schema().as_arrow())),
            plan,
            statement,
            result: StatementResult::Rows,
        }
    }

    /// The result of a statement that was executed.
    pub(crate) fn of_statement(
        context: &SessionContext,
        threads: &Arc<Threads>,
        plan: LogicalPlan,
        result: StatementResult,
    ) -> Self {
        Self {
            result,
            ..Self::new(context, threads, plan, None)
        }
    }

    /// The query as a table of its own session. A table as a whole is the table itself, whose plans can be kept.
    pub(crate) fn table(&self) -> Arc<dyn TableProvider> {
        let whole = match &self.plan {
            LogicalPlan::TableScan(scan)
                if scan.projection.is_none() && scan.filters.is_empty() && scan.fetch.is_none() =>
            {
                source_as_provider(&scan.source).ok()
            }
            _ => None,
        };
        whole.unwrap_or_else(|| self.frame().into_view())
    }

    /// Whether the query belongs to a session.
    pub(crate) fn is_of(&self, context: &SessionContext) -> bool {
        self.context.session_id() == context.session_id()
    }

    fn frame(&self) -> DataFrame {
        DataFrame::new(self.context.state(), self.plan.clone())
    }

    fn derived(&self, change: impl FnOnce(DataFrame) -> Result<DataFrame>) -> PyResult<Self> {
        let frame = caught(self.text(), || change(self.frame()));
        let plan = frame.map_err(|failure| query_error(&failure))?.into_unoptimized_plan();
        Ok(Self::new(&self.context, &self.threads, plan, None))
    }

    /// The statement's text, if the query was made by one.
    fn text(&self) -> &str {
        self.statement.as_ref().map_or("", |(text, _)| text.as_str())
    }
}

#[pymethods]
impl Query {
    /// Plans and starts to execute the query.
    #[pyo3(signature = (draw=None, repeats_interrupt=true))]
    fn start(&self, py: Python<'_>, draw: Option<Py<PyAny>>, repeats_interrupt: bool) -> PyResult<Run> {
        let planning = physical_plan(self.context.clone(), self.plan.clone(), self.statement.clone());
        let text = self.text().to_owned();
        let planned = self.threads.wait(py, async move { caught_in(&text, planning).await })?;
        let planned = planned.map_err(|failure| query_error(&failure))?;
        Run::start(py, &self.threads, self.text(), planned, draw, repeats_interrupt)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema)
    }

    /// The query as a table of the package `datafusion`: its `register_table` calls this.
    #[pyo3(signature = (session=None))]
    fn __datafusion_table_provider__<'py>(
        &self,
        py: Python<'py>,
        session: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let table = ForeignTable {
            table: self.table(),
            context: self.context.clone(),
            threads: Arc::clone(&self.threads),
        };
        table_capsule(py, session.as_ref(), table)
    }

    /// What the statement has returned: "rows", "count" or "nothing".
    #[getter]
    fn result(&self) -> &'static str {
        match self.result {
            StatementResult::Rows => "rows",
            StatementResult::Count => "count",
            StatementResult::Nothing => "nothing",
        }
    }

    /// Names and types of the columns.
    fn columns(&self) -> Vec<(String, String)> {
        let fields = self.schema.fields().iter();
        fields
            .map(|field| (field.name().clone(), field.data_type().to_string()))
            .collect()
    }

    /// The query of EXPLAIN.
    fn explain(&self, verbose: bool, analyze: bool) -> PyResult<Self> {
        self.derived(|frame| frame.explain(verbose, analyze))
    }

    /// Columns by their exact names.
    fn project(&self, names: Vec<String>) -> PyResult<Self> {
        self.derived(|frame| frame.select(names.into_iter().map(ident).collect::<Vec<_>>()))
    }

    /// At most `rows` rows.
    fn limit(&self, rows: usize, offset: usize) -> PyResult<Self> {
        self.derived(|frame| frame.limit(offset, Some(rows)))
    }
}

/// Plans the query from the files as they are now.
async fn physical_plan(
    context: SessionContext,
    plan: LogicalPlan,
    statement: Option<(String, Statement)>,
) -> Result<(Arc<dyn ExecutionPlan>, Arc<TaskContext>)> {
    if let Some((text, statement)) = statement {
        return plan_statement(&context, &text, statement).await;
    }
    let frame = DataFrame::new(context.state(), plan);
    let task = Arc::new(frame.task_ctx());
    Ok((frame.create_physical_plan().await?, task))
}
