//! `PlanCache`: the optimized logical plan of each statement text. A cached plan is reused if all of these hold:
//!
//! 1. the statement is a query over base tables, and every function that it calls is immutable;
//! 2. the catalog has the same table object for each name in the statement, and none for a name in a letter case that
//!    the catalog lacked;
//! 3. the session, its settings, its planners and rules, and the functions called are the same objects.
//!
//! **Invariant:** no physical plan is cached. Each run plans one from the files as they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::error::Result;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::planner::{ExprPlanner, RelationPlanner};
use datafusion::logical_expr::{
    AggregateUDF, Expr, LogicalPlan, ScalarUDF, Signature, Volatility, WindowFunctionDefinition, WindowUDF,
};
use datafusion::optimizer::{AnalyzerRule, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{DataFrame, SessionContext};
use datafusion::sql::parser::Statement;

use super::names::{match_tables, plan_all, plan_with_matched_columns};
use super::parser::parse_statement;
use super::{create_table_as, definitions, pivot_values};
use crate::table::listings::Listings;

/// Plans in the cache. When the cache is full, all are dropped.
const MAX_PLANS: usize = 256;
/// Statements with a longer text are not cached.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// A physical plan, and the task context to execute it with.
pub type Planned = (Arc<dyn ExecutionPlan>, Arc<TaskContext>);

/// The plans of a session by statement text; an extension of the session's configuration.
#[derive(Debug, Default)]
pub(crate) struct PlanCache {
    plans: Mutex<HashMap<String, Arc<CachedPlan>>>,
}

#[derive(Debug)]
struct CachedPlan {
    plan: LogicalPlan,
    tables: Tables,
    /// Names of the statement that other spellings stand for, as long as the catalog lacks these.
    absent_tables: Vec<TableReference>,
    functions: Vec<Function>,
    session: PlanningSession,
}

/// The tables that a statement names.
type Tables = Vec<(TableReference, Arc<dyn TableProvider>)>;

/// The objects of a session that parsing, binding and optimizing depend on.
#[derive(Debug)]
struct PlanningSession {
    id: String,
    options: Arc<ConfigOptions>,
    expr_planners: Vec<Arc<dyn ExprPlanner>>,
    relation_planners: Vec<Arc<dyn RelationPlanner>>,
    analyzer_rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
    function_rewrites: Vec<Arc<dyn FunctionRewrite + Send + Sync>>,
    optimizer_rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
}

/// A function that a plan calls.
#[derive(Debug)]
enum Function {
    Scalar(Arc<ScalarUDF>),
    Aggregate(Arc<AggregateUDF>),
    Window(Arc<WindowUDF>),
}

/// Plans a text, which is one statement, as [`plan_statement`] does, or takes its cached plan.
///
/// # Errors
/// As [`SessionContext::sql`] and [`SessionState::create_physical_plan`].
pub async fn plan_sql(context: &SessionContext, text: &str) -> Result<Planned> {
    plan_sql_with_options(context, text, SQLOptions::new()).await
}

/// Like [`plan_sql`], for statements that `options` allow. A refused statement has no effect.
///
/// # Errors
/// As [`plan_sql`], and if `options` do not allow the statement.
pub async fn plan_sql_with_options(context: &SessionContext, text: &str, options: SQLOptions) -> Result<Planned> {
    if let Some(planned) = cached_plan(context, text).await? {
        return Ok(planned); // without parsing
    }
    let state = context.state();
    let statement = parse_statement(&state, text)?;
    plan_allowed(context, text, statement, options).await
}

/// The physical plan of a text whose logical plan is in the cache. `None`: the text was not planned before, or its
/// plan is out of date.
///
/// # Errors
/// As [`SessionState::create_physical_plan`].
pub async fn cached_plan(context: &SessionContext, text: &str) -> Result<Option<Planned>> {
    let state = context.state();
    let Some(cache) = state.config().get_extension::<PlanCache>() else {
        return Ok(None);
    };
    let Some(cached) = cache.lock().get(text).cloned() else {
        return Ok(None);
    };
    if !cached.is_current(&state).await {
        cache.lock().remove(text);
        return Ok(None);
    }
    let plan = state.query_planner().create_physical_plan(&cached.plan, &state).await?;
    Ok(Some((plan, state.task_ctx())))
}

/// Plans `statement`, whose text is `text`, or takes the cached plan of the text.
///
/// Unquoted names of tables and columns match in any letter case, if exactly one is alike. `FROM t` without SELECT is
/// `SELECT * FROM t`.
///
/// A statement other than a query is executed at once, as by [`SessionContext::execute_logical_plan`].
///
/// # Errors
/// As [`SessionContext::execute_logical_plan`] and [`SessionState::create_physical_plan`].
pub async fn plan_statement(context: &SessionContext, text: &str, statement: Statement) -> Result<Planned> {
    plan_allowed(context, text, statement, SQLOptions::new()).await
}

/// The logical plan of a text as a data frame, with the names of [`plan_statement`]. Parameters such as `$1` get their
/// values by [`DataFrame::with_param_values`].
///
/// A statement other than a query is executed at once, as by [`SessionContext::execute_logical_plan`].
///
/// # Errors
/// As [`SessionContext::sql_with_options`].
pub async fn data_frame(context: &SessionContext, text: &str, options: SQLOptions) -> Result<DataFrame> {
    let state = context.state();
    let mut statement = parse_statement(&state, text)?;
    if let Some(plan) = define(&state, &statement, &options).await? {
        return Ok(DataFrame::new(state, plan));
    }
    match_tables(&state, &mut statement)?;
    create_table_as::verify(&state, &statement, &options).await?;
    let plan = plan_with_matched_columns(&state, statement).await?;
    options.verify_plan(&plan)?;
    execute(context, plan).await
}

/// Executes a statement that defines something for the session, whose cached plans may mean something else now.
async fn define(state: &SessionState, statement: &Statement, options: &SQLOptions) -> Result<Option<LogicalPlan>> {
    let defined = definitions::define(state, statement, options, plan_all).await?;
    if let (Some(_), Some(cache)) = (&defined, state.config().get_extension::<PlanCache>()) {
        cache.lock().clear();
    }
    Ok(defined)
}

/// Executes a statement, or makes a data frame of a query.
async fn execute(context: &SessionContext, plan: LogicalPlan) -> Result<DataFrame> {
    let is_ddl = matches!(plan, LogicalPlan::Ddl(_));
    let frame = context.execute_logical_plan(plan).await?;
    if let (true, Some(cache)) = (is_ddl, context.state().config().get_extension::<PlanCache>()) {
        cache.lock().clear(); // no plan keeps a dropped table alive
    }
    Ok(frame)
}

/// Plans a statement that `options` allow. Cached plans are queries, which all options allow.
async fn plan_allowed(
    context: &SessionContext,
    text: &str,
    mut statement: Statement,
    options: SQLOptions,
) -> Result<Planned> {
    if let Some(planned) = cached_plan(context, text).await? {
        return Ok(planned);
    }
    let state = context.state();
    let cache = state.config().get_extension::<PlanCache>();
    if let Some(plan) = define(&state, &statement, &options).await? {
        let plan = state.create_physical_plan(&plan).await?;
        return Ok((plan, state.task_ctx()));
    }
    let absent_tables = match_tables(&state, &mut statement)?;
    create_table_as::verify(&state, &statement, &options).await?;
    // Tables are looked up before the statement is bound. If a table is replaced meanwhile, the scan's provider differs
    // from this one and the plan is not cached.
    let is_cached = cache.is_some() && text.len() <= MAX_TEXT_BYTES && !pivot_values::are_open(&statement);
    let tables = match is_cached {
        true => base_tables(&state, &statement).await,
        false => None,
    };
    // Tables that are named by paths are opened here.
    let mut listings = Listings::default();
    let plan = listings.during(plan_with_matched_columns(&state, statement)).await?;
    options.verify_plan(&plan)?;
    if plan.exists(|node| Ok(matches!(node, LogicalPlan::Dml(_) | LogicalPlan::Copy(_))))? {
        // What a statement replaces is listed after this. A file that came between would be replaced unread.
        listings = Listings::default();
    }
    let inputs = tables.and_then(|tables| Some((functions_of(&state, &plan, &tables)?, tables)));
    let (Some(cache), Some((functions, tables))) = (cache, inputs) else {
        let frame = execute(context, plan).await?;
        let task = Arc::new(frame.task_ctx());
        return Ok((listings.during(frame.create_physical_plan()).await?, task));
    };
    let plan = state.optimize(&plan)?;
    let physical = state.query_planner().create_physical_plan(&plan, &state).await?;
    let cached = CachedPlan {
        plan,
        tables,
        absent_tables,
        functions,
        session: PlanningSession::of(&state),
    };
    let mut plans = cache.lock();
    if plans.len() >= MAX_PLANS {
        plans.clear();
    }
    plans.insert(text.to_owned(), Arc::new(cached));
    Ok((physical, state.task_ctx()))
}

impl PlanCache {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<CachedPlan>>> {
        // Entries are inserted whole.
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedPlan {
    /// Whether planning the text again would give the same plan.
    async fn is_current(&self, state: &SessionState) -> bool {
        if !self.session.is_of(state) || !self.functions.iter().all(|function| function.is_registered(state)) {
            return false;
        }
        for reference in &self.absent_tables {
            if table(state, reference).await.is_some() {
                return false;
            }
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

/// The tables that a statement names. `None`: one of them is a view, or is made only when a query asks for it.
async fn base_tables(state: &SessionState, statement: &Statement) -> Option<Tables> {
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

/// A table that the catalog has. A table that the catalog would have to make is none.
async fn table(state: &SessionState, reference: &TableReference) -> Option<Arc<dyn TableProvider>> {
    let schema = state.schema_for_ref(reference.clone()).ok()?;
    if !schema.table_exist(reference.table()) {
        return None;
    }
    schema.table(reference.table()).await.ok()?
}

/// The functions that a plan calls. `None`: the plan is no query over `tables`, or may mean something else the next
/// time.
fn functions_of(state: &SessionState, plan: &LogicalPlan, tables: &Tables) -> Option<Vec<Function>> {
    let mut functions = Vec::new();
    let mut is_repeatable = true;
    let visited = plan.apply_with_subqueries(|node| {
        is_repeatable &= is_query_node(node, tables);
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                is_repeatable &= is_repeatable_expr(expr);
                if let Some(function) = Function::called_by(expr) {
                    is_repeatable &= function.is_immutable() && function.is_registered(state);
                    functions.push(function);
                }
                Ok(next_step(is_repeatable))
            })
        })?;
        Ok(next_step(is_repeatable))
    });
    (visited.is_ok() && is_repeatable).then_some(functions)
}

fn next_step(is_repeatable: bool) -> TreeNodeRecursion {
    match is_repeatable {
        true => TreeNodeRecursion::Continue,
        false => TreeNodeRecursion::Stop,
    }
}

/// Whether a node is part of a query over `tables`.
fn is_query_node(node: &LogicalPlan, tables: &Tables) -> bool {
    match node {
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source)
            .is_ok_and(|scanned| tables.iter().any(|(_, table)| is_same(table, &scanned))),
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

/// Whether an expression, functions aside, means the same each time.
fn is_repeatable_expr(expr: &Expr) -> bool {
    !matches!(
        expr,
        Expr::Placeholder(_) | Expr::ScalarVariable(..) | Expr::HigherOrderFunction(_)
    )
}

impl Function {
    fn called_by(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::ScalarFunction(call) => Some(Self::Scalar(Arc::clone(&call.func))),
            Expr::AggregateFunction(call) => Some(Self::Aggregate(Arc::clone(&call.func))),
            Expr::WindowFunction(call) => Some(match &call.fun {
                WindowFunctionDefinition::AggregateUDF(function) => Self::Aggregate(Arc::clone(function)),
                WindowFunctionDefinition::WindowUDF(function) => Self::Window(Arc::clone(function)),
            }),
            _ => None,
        }
    }

    fn signature(&self) -> &Signature {
        match self {
            Self::Scalar(function) => function.signature(),
            Self::Aggregate(function) => function.signature(),
            Self::Window(function) => function.signature(),
        }
    }

    fn is_immutable(&self) -> bool {
        self.signature().volatility == Volatility::Immutable
    }

    /// Whether the session calls this function by its name.
    fn is_registered(&self, state: &SessionState) -> bool {
        match self {
            Self::Scalar(function) => is_entry(state.scalar_functions(), function.name(), function),
            Self::Aggregate(function) => is_entry(state.aggregate_functions(), function.name(), function),
            Self::Window(function) => is_entry(state.window_functions(), function.name(), function),
        }
    }
}

fn is_entry<F>(functions: &HashMap<String, Arc<F>>, name: &str, function: &Arc<F>) -> bool {
    functions.get(name).is_some_and(|known| is_same(known, function))
}

impl PlanningSession {
    fn of(state: &SessionState) -> Self {
        Self {
            id: state.session_id().to_owned(),
            options: Arc::clone(state.config_options()),
            expr_planners: state.expr_planners().to_vec(),
            relation_planners: state.relation_planners().to_vec(),
            analyzer_rules: state.analyzer().rules.clone(),
            function_rewrites: state.analyzer().function_rewrites.clone(),
            optimizer_rules: state.optimizer().rules.clone(),
        }
    }

    fn is_of(&self, state: &SessionState) -> bool {
        self.id == state.session_id()
            && is_same(&self.options, state.config_options())
            && are_same(&self.expr_planners, state.expr_planners())
            && are_same(&self.relation_planners, state.relation_planners())
            && are_same(&self.analyzer_rules, &state.analyzer().rules)
            && are_same(&self.function_rewrites, &state.analyzer().function_rewrites)
            && are_same(&self.optimizer_rules, &state.optimizer().rules)
    }
}

fn is_same<T: ?Sized, U: ?Sized>(one: &Arc<T>, other: &Arc<U>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

fn are_same<T: ?Sized>(some: &[Arc<T>], others: &[Arc<T>]) -> bool {
    some.len() == others.len() && some.iter().zip(others).all(|(one, other)| is_same(one, other))
}
