//! Plans of texts that a session has seen: who asks the same again need not have it parsed, bound and optimized again, which takes longer
//! than a short query runs. What is kept is the logical plan as DataFusion's rules left it; a physical one is made each time, so that
//! tables are looked at as they are. A plan is used again only while everything is the same that went into it: tables, functions, settings
//! and rules, each compared by identity.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::planner::ExprPlanner;
use datafusion::logical_expr::{
    AggregateUDF, Expr, LogicalPlan, ScalarUDF, Volatility, WindowFunctionDefinition, WindowUDF,
};
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;

/// Plans kept at most; then all are forgotten.
const KEPT: usize = 256;
/// Bytes of a text at most.
const TEXT_BYTES: usize = 16 << 10;

/// A physical plan, and what it is executed with.
pub type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// The plans of a session; an extension of its configuration.
#[derive(Debug, Default)]
pub struct Plans {
    kept: Mutex<HashMap<String, Arc<Kept>>>,
}

#[derive(Debug)]
struct Kept {
    plan: LogicalPlan,
    inputs: Inputs,
}

/// What went into a plan besides its text.
#[derive(Debug)]
struct Inputs {
    options: Arc<ConfigOptions>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    analyzer: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
    rewrites: Vec<Arc<dyn FunctionRewrite + Send + Sync>>,
    optimizer: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    tables: Vec<(TableReference, Arc<dyn TableProvider>)>,
    scalars: Vec<Arc<ScalarUDF>>,
    aggregates: Vec<Arc<AggregateUDF>>,
    windows: Vec<Arc<WindowUDF>>,
}

/// The plan of a text, which is one statement: as [`SessionContext::sql`] makes it, or one that was made before.
///
/// # Errors
/// As that, and as [`SessionState::create_physical_plan`].
pub async fn plan_sql(context: &SessionContext, text: &str) -> Result<Planned> {
    if let Some(planned) = planned_before(context, text).await? {
        return Ok(planned); // without parsing
    }
    let state = context.state();
    let dialect = state.config_options().sql_parser.dialect;
    let statement = state.sql_to_statement(text, &dialect)?;
    plan(context, text, statement).await
}

/// The plan of a text that was planned before; `None`: it was not, or something has changed since.
///
/// # Errors
/// As [`SessionState::create_physical_plan`].
pub async fn planned_before(context: &SessionContext, text: &str) -> Result<Option<Planned>> {
    let state = context.state();
    let Some(plans) = state.config().get_extension::<Plans>() else {
        return Ok(None);
    };
    let Some(kept) = plans.lock().get(text).cloned() else {
        return Ok(None);
    };
    if !kept.inputs.are_the_same(&state).await {
        plans.lock().remove(text);
        return Ok(None);
    }
    let plan = state.query_planner().create_physical_plan(&kept.plan, &state).await?;
    Ok(Some((plan, state.task_ctx())))
}

/// The plan of `statement`, which is all that `text` says: one that was made before, or a new one, which is kept if it may be used again. What is no query is done at once,
/// as by [`SessionContext::execute_logical_plan`].
///
/// # Errors
/// As that, and as [`SessionState::create_physical_plan`].
pub async fn plan(context: &SessionContext, text: &str, statement: Statement) -> Result<Planned> {
    if let Some(planned) = planned_before(context, text).await? {
        return Ok(planned);
    }
    let state = context.state();
    let plans = state.config().get_extension::<Plans>();
    // Before they are bound: of a table that is replaced meanwhile the new one is not taken for the one that was bound.
    let tables = match plans.is_some() && text.len() <= TEXT_BYTES {
        true => tables_of(&state, &statement).await,
        false => None,
    };
    let plan = state.statement_to_plan(statement).await?;
    if let (Some(plans), LogicalPlan::Ddl(_)) = (&plans, &plan) {
        plans.lock().clear(); // a table that is dropped is not to be kept by its plans
    }
    let inputs = tables.and_then(|tables| Inputs::of(&state, &plan, tables));
    let (Some(plans), Some(inputs)) = (plans, inputs) else {
        let frame = context.execute_logical_plan(plan).await?;
        let task = Arc::new(frame.task_ctx());
        return Ok((frame.create_physical_plan().await?, task));
    };
    let plan = state.optimize(&plan)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await?;
    let mut kept = plans.lock();
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text.to_owned(), Arc::new(Kept { plan, inputs }));
    Ok((physical, state.task_ctx()))
}

/// The tables that a statement names; `None`: one of them is no table that stays the same, but a view, or made when it is asked for.
async fn tables_of(
    state: &SessionState,
    statement: &Statement,
) -> Option<Vec<(TableReference, Arc<dyn TableProvider>)>> {
    let mut tables = Vec::new();
    for reference in state.resolve_table_references(statement).ok()? {
        let table = table(state, &reference).await?;
        if table.table_type() != TableType::Base {
            return None;
        }
        tables.push((reference, table));
    }
    Some(tables)
}

/// A table that the catalog has; not one that it would have to make.
async fn table(state: &SessionState, reference: &TableReference) -> Option<Arc<dyn TableProvider>> {
    let schema = state.schema_for_ref(reference.clone()).ok()?;
    if !schema.table_exist(reference.table()) {
        return None;
    }
    schema.table(reference.table()).await.ok()?
}

fn is_same<T: ?Sized, U: ?Sized>(one: &Arc<T>, other: &Arc<U>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

fn are_same<T: ?Sized>(some: &[Arc<T>], others: &[Arc<T>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}

impl Plans {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        // Entries are put in whole.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inputs {
    /// What went into a plan that was just bound; `None`: it is no query, or one that may mean something else the next time.
    fn of(
        state: &SessionState,
        plan: &LogicalPlan,
        tables: Vec<(TableReference, Arc<dyn TableProvider>)>,
    ) -> Option<Self> {
        let mut inputs = Self {
            options: Arc::clone(state.config_options()),
            planners: state.expr_planners().to_vec(),
            analyzer: state.analyzer().rules.clone(),
            rewrites: state.analyzer().function_rewrites.clone(),
            optimizer: state.optimizer().rules.clone(),
            tables,
            scalars: Vec::new(),
            aggregates: Vec::new(),
            windows: Vec::new(),
        };
        let mut stays = true;
        let visited = plan.apply_with_subqueries(|node| {
            stays &= inputs.has_node(node);
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    stays &= inputs.takes(expr);
                    Ok(going_on(stays))
                })
            })?;
            Ok(going_on(stays))
        });
        (visited.is_ok() && stays && inputs.has_functions_of(state)).then_some(inputs)
    }

    /// Whether a node is part of a query over the tables that the text names.
    fn has_node(&self, node: &LogicalPlan) -> bool {
        match node {
            LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)
                .is_ok_and(|scanned| self.tables.iter().any(|(_, table)| is_same(table, &scanned))),
            LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Window(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Union(_)
            | LogicalPlan::EmptyRelation(_)
            | LogicalPlan::Subquery(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Values(_)
            | LogicalPlan::Distinct(_) => true,
            _ => false,
        }
    }

    /// Whether an expression means the same each time; notes its function.
    fn takes(&mut self, expr: &Expr) -> bool {
        let is_immutable = |volatility: Volatility| volatility == Volatility::Immutable;
        match expr {
            Expr::ScalarFunction(function) => {
                self.scalars.push(Arc::clone(&function.func));
                is_immutable(function.func.signature().volatility)
            }
            Expr::AggregateFunction(function) => {
                self.aggregates.push(Arc::clone(&function.func));
                is_immutable(function.func.signature().volatility)
            }
            Expr::WindowFunction(function) => match &function.fun {
                WindowFunctionDefinition::AggregateUDF(function) => {
                    self.aggregates.push(Arc::clone(function));
                    is_immutable(function.signature().volatility)
                }
                WindowFunctionDefinition::WindowUDF(function) => {
                    self.windows.push(Arc::clone(function));
                    is_immutable(function.signature().volatility)
                }
            },
            Expr::Placeholder(_) | Expr::ScalarVariable(..) | Expr::HigherOrderFunction(_) => false,
            _ => true,
        }
    }

    fn has_functions_of(&self, state: &SessionState) -> bool {
        let scalars = state.scalar_functions();
        let aggregates = state.aggregate_functions();
        let windows = state.window_functions();
        self.scalars
            .iter()
            .all(|f| scalars.get(f.name()).is_some_and(|now| is_same(now, f)))
            && self
                .aggregates
                .iter()
                .all(|f| aggregates.get(f.name()).is_some_and(|now| is_same(now, f)))
            && self
                .windows
                .iter()
                .all(|f| windows.get(f.name()).is_some_and(|now| is_same(now, f)))
    }

    fn has_rules_of(&self, state: &SessionState) -> bool {
        let analyzer = state.analyzer();
        is_same(&self.options, state.config_options())
            && are_same(&self.planners, state.expr_planners())
            && are_same(&self.analyzer, &analyzer.rules)
            && are_same(&self.rewrites, &analyzer.function_rewrites)
            && are_same(&self.optimizer, &state.optimizer().rules)
    }

    async fn are_the_same(&self, state: &SessionState) -> bool {
        if !self.has_rules_of(state) || !self.has_functions_of(state) {
            return false;
        }
        for (reference, known) in &self.tables {
            match table(state, reference).await {
                Some(table) if is_same(&table, known) => {}
                _ => return false,
            }
        }
        true
    }
}

fn going_on(stays: bool) -> TreeNodeRecursion {
    match stays {
        true => TreeNodeRecursion::Continue,
        false => TreeNodeRecursion::Stop,
    }
}
