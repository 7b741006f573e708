//! [`list`]: the values of pivots that do not list them.
//!
//! `PIVOT t ON c USING sum(x)` has a column for each value of `c`. Planning needs the values, so that they are queried
//! before. They are compared as text.

use std::ops::ControlFlow;

use arrow::array::{Array, AsArray};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::physical_plan::collect;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, ExprWithAlias, PivotValueSource, Query, SelectItem, SetExpr, Statement as SqlStatement,
    TableFactor, Value, VisitorMut,
};

use super::expressions;
use super::scope::{Planner, Scope, Scopes, parsed_query};

/// Columns of one pivot.
const MAX_VALUES: usize = 10_000;

/// Whether values of a statement's pivots are to be queried.
pub(super) fn are_open(statement: &Statement) -> bool {
    let mut search = Search::default();
    expressions::visit(&mut statement.clone(), &mut search);
    search.found.is_some()
}

/// Lists the values of a statement's pivots.
///
/// # Errors
/// If a table cannot be read, or has too many values. In a view: its values would stay those that are there now.
pub(super) async fn list(state: &SessionState, statement: &mut Statement, planner: Planner) -> Result<()> {
    if matches!(statement, Statement::Statement(inner) if matches!(inner.as_ref(), SqlStatement::CreateView(_)))
        && are_open(statement)
    {
        return plan_err!("a view would keep the values that its pivot has now: list them, … ON c IN ('a', 'b')");
    }
    loop {
        let mut search = Search::default();
        expressions::visit(statement, &mut search);
        let Some((scope, pivot)) = search.found else {
            return Ok(());
        };
        let listed = Some(listed(state, &scope, pivot.clone(), planner).await?);
        expressions::visit(statement, &mut Replacement { pivot, listed });
    }
}

#[derive(Default)]
struct Search {
    scopes: Scopes,
    found: Option<(Scope, TableFactor)>,
}

impl VisitorMut for Search {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if self.found.is_none()
            && let TableFactor::Pivot { value_source, .. } = factor
            && !matches!(value_source, PivotValueSource::List(_))
        {
            self.found = Some((self.scopes.here(), factor.clone()));
        }
        ControlFlow::Continue(())
    }
}

struct Replacement {
    pivot: TableFactor,
    listed: Option<TableFactor>,
}

impl VisitorMut for Replacement {
    type Break = ();

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if *factor == self.pivot
            && let Some(listed) = self.listed.take()
        {
            *factor = listed;
        }
        ControlFlow::Continue(())
    }
}

/// A pivot with its values.
async fn listed(state: &SessionState, scope: &Scope, mut pivot: TableFactor, planner: Planner) -> Result<TableFactor> {
    let TableFactor::Pivot {
        table,
        value_column,
        value_source,
        ..
    } = &mut pivot
    else {
        return plan_err!("this is no PIVOT");
    };
    let mut lists: Vec<Vec<Expr>> = Vec::new();
    for column in value_column.iter_mut() {
        if let Expr::InList {
            expr,
            list,
            negated: false,
        } = column
        {
            lists.push(std::mem::take(list));
            *column = expr.as_ref().clone();
            continue;
        }
        let query = match &*value_source {
            PivotValueSource::Subquery(query) => query.as_ref().clone(),
            _ => values_of(column, table)?,
        };
        let texts = texts(state, scope, query, planner).await?;
        lists.push(
            texts
                .into_iter()
                .map(|text| Expr::Value(Value::SingleQuotedString(text).into()))
                .collect(),
        );
        *column = as_text(column.clone());
    }
    let mut tuples: Vec<Vec<Expr>> = vec![Vec::new()];
    for list in lists {
        tuples = (tuples.iter())
            .flat_map(|tuple| {
                list.iter()
                    .map(|value| [tuple.as_slice(), std::slice::from_ref(value)].concat())
            })
            .collect();
        if tuples.len() > MAX_VALUES {
            return plan_err!("PIVOT: more than {MAX_VALUES} values; list those that you want: ON c IN ('a', 'b')");
        }
    }
    let values = tuples.into_iter().map(|mut tuple| ExprWithAlias {
        expr: match tuple.len() {
            1 => tuple.remove(0),
            _ => Expr::Tuple(tuple),
        },
        alias: None,
    });
    *value_source = PivotValueSource::List(values.collect());
    Ok(pivot)
}

fn as_text(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Varchar(None),
        array: false,
        format: None,
    }
}

/// The values of a column, in their order.
fn values_of(column: &Expr, table: &TableFactor) -> Result<Query> {
    let text = format!(
        "SELECT CAST(value AS VARCHAR) FROM (SELECT DISTINCT 1 AS value FROM t) WHERE value IS NOT NULL \
         ORDER BY value LIMIT {}",
        MAX_VALUES + 1
    );
    let mut query = parsed_query(&text)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
        && let SetExpr::Select(inner) = subquery.body.as_mut()
        && let ([SelectItem::ExprWithAlias { expr, .. }], [from]) =
            (inner.projection.as_mut_slice(), inner.from.as_mut_slice())
    {
        *expr = column.clone();
        from.relation = table.clone();
    }
    Ok(query)
}

/// The texts of a query's first column.
async fn texts(state: &SessionState, scope: &Scope, query: Query, planner: Planner) -> Result<Vec<String>> {
    let plan = scope.plan(state, query, planner).await?;
    let plan = state.create_physical_plan(&plan).await?;
    let mut texts = Vec::new();
    for batch in collect(plan, state.task_ctx()).await? {
        let column = arrow::compute::cast(batch.column(0), &arrow::datatypes::DataType::Utf8)?;
        let column = column.as_string::<i32>();
        let values = (0..column.len()).filter(|&row| column.is_valid(row));
        texts.extend(values.map(|row| column.value(row).to_owned()));
    }
    Ok(texts)
}
