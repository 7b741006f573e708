//! [`number`]: `ORDER BY ALL` of queries whose columns only a plan counts, as `ORDER BY 1, 2 …`.
//!
//! DataFusion sorts no rows of UNION by it, and refuses it beside `* REPLACE`.

use std::ops::ControlFlow;

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value, VisitorMut,
};

use super::expressions;
use super::scope::{Planner, Scope, Scopes};

/// Numbers the columns of such queries.
///
/// # Errors
/// If rows of a set operation cannot be planned alone: they name columns of the queries around it.
pub(super) async fn number(state: &SessionState, statement: &mut Statement, planner: Planner) -> Result<()> {
    let mut skipped = 0;
    loop {
        let mut search = Search {
            scopes: Scopes::default(),
            skipped,
            found: None,
        };
        expressions::visit(statement, &mut search);
        let Some((scope, query)) = search.found else {
            return Ok(());
        };
        let mut rows = query.as_ref().clone();
        let is_select = matches!(rows.body.as_ref(), SetExpr::Select(_));
        rows.order_by = None;
        let columns = match scope.plan(state, rows, planner).await {
            Ok(plan) => plan.schema().fields().len(),
            // DataFusion sorts those of a plain select.
            Err(_) if is_select => {
                skipped += 1;
                continue;
            }
            Err(error) => return Err(error.context("ORDER BY ALL: number the columns, as in ORDER BY 1, 2")),
        };
        let columns = Some(columns);
        expressions::visit(statement, &mut Replacement { query: *query, columns });
    }
}

/// Looks for a query of the kind, behind as many as are skipped.
struct Search {
    scopes: Scopes,
    skipped: usize,
    found: Option<(Scope, Box<Query>)>,
}

impl VisitorMut for Search {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        let is_all = matches!(&query.order_by, Some(order) if matches!(order.kind, OrderByKind::All(_)));
        let is_known = match query.body.as_ref() {
            SetExpr::Select(select) => !select.projection.iter().any(has_replacement),
            _ => false,
        };
        if is_all && !is_known && self.found.is_none() {
            match self.skipped {
                0 => self.found = Some((self.scopes.here(), Box::new(query.clone()))),
                _ => self.skipped -= 1,
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }
}

/// Whether an item is a wildcard with REPLACE.
fn has_replacement(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => options.opt_replace.is_some(),
        _ => false,
    }
}

/// Numbers the columns of the first query that is alike.
struct Replacement {
    query: Query,
    columns: Option<usize>,
}

impl VisitorMut for Replacement {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if *query == self.query
            && let Some(columns) = self.columns.take()
            && let Some(order) = &mut query.order_by
        {
            number_all(order, columns);
        }
        ControlFlow::Continue(())
    }
}

/// Makes `ORDER BY 1, 2 …` of `ORDER BY ALL`.
fn number_all(order: &mut OrderBy, columns: usize) {
    let OrderByKind::All(options) = &order.kind else {
        return;
    };
    let key = |number: usize| OrderByExpr {
        expr: Expr::Value(Value::Number(number.to_string(), false).into()),
        options: *options,
        with_fill: None,
    };
    order.kind = OrderByKind::Expressions((1..=columns).map(key).collect());
}
