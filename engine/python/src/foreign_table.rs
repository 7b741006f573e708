//! [`table_capsule`]: a query as a table of the package `datafusion`, by DataFusion's foreign function interface.
//!
//! The other session hands over columns, conditions and a limit. The query's own session plans and executes them, so
//! its rules, its memory bound and its GPU serve the scan. The other session's operators stay outside: an aggregation
//! there is not lowered to the GPU.

use std::ffi::CStr;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PhysicalExpr, PlanProperties, Statistics, displayable,
};
use datafusion::prelude::SessionContext;
use datafusion_ffi::table_provider::FFI_TableProvider;
use grampus::caught_panic::{caught, caught_in, caught_stream};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::capsules::codec_of;
use crate::error::error;
use crate::threads::Threads;

const TABLE: &CStr = c"datafusion_table_provider";

/// A capsule of a table, for a session of the package `datafusion`.
///
/// # Errors
/// If the installed package has another major version: the structs of the interface change with it.
pub(crate) fn table_capsule<'py>(
    py: Python<'py>,
    session: Option<&Bound<'py, PyAny>>,
    table: ForeignTable,
) -> PyResult<Bound<'py, PyCapsule>> {
    check_version(py)?;
    let Some(session) = session else {
        return Err(error(
            "__datafusion_table_provider__ takes the session: SessionContext.register_table passes it",
        ));
    };
    let workers = table.threads.handle()?;
    let codec = codec_of(session)?;
    let provider = FFI_TableProvider::new_with_ffi_codec(Arc::new(table), true, Some(workers), codec);
    PyCapsule::new_with_value(py, provider, TABLE)
}

/// Compares the major version of the installed package with the interface's.
fn check_version(py: Python<'_>) -> PyResult<()> {
    let metadata = py.import("importlib.metadata")?;
    let installed: String = metadata.call_method1("version", ("datafusion",))?.extract()?;
    let needed = datafusion_ffi::version();
    match installed.split('.').next().and_then(|major| major.parse::<u64>().ok()) {
        Some(major) if major == needed => Ok(()),
        _ => Err(error(format!(
            "the package datafusion {installed} cannot read this table: install datafusion {needed} \
             (pip install 'datafusion=={needed}.*'), or pass the relation to from_arrow"
        ))),
    }
}

/// A query of one session, as a table of another one.
pub(crate) struct ForeignTable {
    /// The query as a table of its own session.
    pub(crate) table: Arc<dyn TableProvider>,
    /// The query's session.
    pub(crate) context: SessionContext,
    /// Execute the query while the table or one of its plans exists.
    pub(crate) threads: Arc<Threads>,
}

impl fmt::Debug for ForeignTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignTable")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl TableProvider for ForeignTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        _caller: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let state = self.context.state();
        let plan = caught_in("", self.table.scan(&state, projection, filters, limit)).await?;
        let operators = displayable(plan.as_ref()).indent(false).to_string();
        let operators: Vec<&str> = operators.lines().map(str::trim).collect();
        Ok(Arc::new(OwnSessionExec {
            name: format!("OwnSessionExec: {}", operators.join(" <- ")),
            plan,
            context: state.task_ctx(),
            _threads: Arc::clone(&self.threads),
        }))
    }
}

/// Executes a plan in the session that planned it, whatever session asks. A leaf for the session that asks.
struct OwnSessionExec {
    /// The operators of the plan, the last one first: of an operator, the interface passes the name alone.
    name: String,
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    /// Keeps the workers running.
    _threads: Arc<Threads>,
}

impl fmt::Debug for OwnSessionExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSessionExec")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for OwnSessionExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl ExecutionPlan for OwnSessionExec {
    fn name(&self) -> &str {
        &self.name
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("OwnSessionExec has no children"),
        }
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, _callers: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // The interface's calls cannot pass a panic on.
        let stream = caught("", || self.plan.execute(partition, Arc::clone(&self.context)))?;
        Ok(caught_stream("", stream))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.plan.metrics()
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        StatisticsContext::new().compute(self.plan.as_ref(), args)
    }
}
