//! [`Scope`]: the common table expressions that a place of a statement sees, and queries that are planned there.

use datafusion::common::DFSchemaRef;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, Statement as SqlStatement, TableWithJoins, With};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::future::BoxFuture;

/// What plans a statement in which names match in any letter case: it expands the parts that need plans of other parts.
pub(super) type Planner = for<'a> fn(&'a SessionState, Statement) -> BoxFuture<'a, Result<LogicalPlan>>;

/// The WITH clauses around a place, the outermost first.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope(Vec<With>);

impl Scope {
    /// The scope in a query at this place.
    fn within(&self, query: &Query) -> Self {
        let mut scope = self.clone();
        // A common table expression sees those before it.
        for with in &mut scope.0 {
            if let Some(place) = with.cte_tables.iter().position(|table| *table.query == *query) {
                with.cte_tables.truncate(place);
            }
        }
        scope.0.extend(query.with.clone());
        scope
    }

    /// The plan of a query at this place.
    ///
    /// # Errors
    /// If the query cannot be planned alone: it may name columns of the queries around it.
    pub(super) async fn plan(&self, state: &SessionState, mut query: Query, planner: Planner) -> Result<LogicalPlan> {
        let mut all: Option<With> = None;
        for with in self.0.iter().filter(|with| !with.cte_tables.is_empty()) {
            match &mut all {
                Some(all) => {
                    // The inner one hides an outer one of its name.
                    let is_hidden = |name: &str| with.cte_tables.iter().any(|own| own.alias.name.value == name);
                    all.cte_tables.retain(|outer| !is_hidden(&outer.alias.name.value));
                    all.cte_tables.extend(with.cte_tables.iter().cloned());
                    all.recursive |= with.recursive;
                }
                None => all = Some(with.clone()),
            }
        }
        query.with = all;
        let statement = Statement::Statement(Box::new(SqlStatement::Query(Box::new(query))));
        planner(state, statement).await
    }

    /// The columns of a FROM clause at this place.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    pub(super) async fn columns(
        &self,
        state: &SessionState,
        from: Vec<TableWithJoins>,
        planner: Planner,
    ) -> Result<DFSchemaRef> {
        let mut query = parsed_query("SELECT * FROM t")?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = from;
        }
        Ok(self.plan(state, query, planner).await?.schema().clone())
    }
}

/// The scopes of the queries around a visitor's place, the innermost last.
#[derive(Debug, Default)]
pub(super) struct Scopes(Vec<Scope>);

impl Scopes {
    /// The scope of the innermost query.
    pub(super) fn here(&self) -> Scope {
        self.0.last().cloned().unwrap_or_default()
    }

    /// Goes into a query.
    pub(super) fn enter(&mut self, query: &Query) {
        self.0.push(self.here().within(query));
    }

    /// Leaves the innermost query.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }
}

/// A query of a constant text.
pub(super) fn parsed_query(text: &str) -> Result<Query> {
    let parsed = Parser::new(&GenericDialect {})
        .try_with_sql(text)
        .and_then(|mut parser| parser.parse_query());
    Ok(*parsed.map_err(|error| datafusion::common::plan_datafusion_err!("{text}: {error}"))?)
}
