//! [`merge_keys`]: the keys of RIGHT, FULL and NATURAL JOIN … USING (apache/datafusion#22881).
//!
//! DataFusion reads the key `k` of `l RIGHT JOIN r USING (k)` as `l.k`, which is NULL in rows without a partner. Above
//! such a join a projection gives `l.k` the value of the merged key. A statement that names `l.k` itself would read the
//! merged key too, so it is refused. Statements of `SessionContext::sql` are not repaired: their text is not seen here.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinConstraint, JoinType, Result, plan_err};
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Select, SelectItem, SelectItemQualifiedWildcardKind, Visit, Visitor,
};

/// The name of all columns of a table.
const ALL: &str = "*";

/// The columns that a statement names by table and name, in lower case.
#[derive(Debug, Default)]
pub(crate) struct QualifiedNames(HashSet<(String, String)>);

impl QualifiedNames {
    pub(crate) fn of(statement: &Statement) -> Self {
        let mut names = Self::default();
        names.add(statement);
        names
    }

    fn add(&mut self, statement: &Statement) {
        // The visitor never stops.
        let _ = match statement {
            Statement::Statement(statement) => statement.visit(self),
            Statement::Explain(explain) => {
                self.add(&explain.statement);
                ControlFlow::Continue(())
            }
            Statement::CopyTo(copy) => match &copy.source {
                CopyToSource::Query(query) => query.visit(self),
                CopyToSource::Relation(_) => ControlFlow::Continue(()),
            },
            Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
        };
    }

    fn has(&self, column: &Column) -> bool {
        let table = column.relation.as_ref().map(|relation| relation.table().to_lowercase());
        table.is_some_and(|table| {
            let names = [column.name.to_lowercase(), ALL.to_owned()];
            names.into_iter().any(|name| self.0.contains(&(table.clone(), name)))
        })
    }
}

impl Visitor for QualifiedNames {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::CompoundIdentifier(parts) = expr {
            for pair in parts.windows(2) {
                self.0
                    .insert((pair[0].value.to_lowercase(), pair[1].value.to_lowercase()));
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        for item in &select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) = item
                && let Some(ident) = table.0.last().and_then(|part| part.as_ident())
            {
                self.0.insert((ident.value.to_lowercase(), ALL.to_owned()));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The plan of a statement with these names, whose joins merge the keys of USING.
///
/// # Errors
/// If the statement names a key of the left side of such a join.
pub(crate) fn merge_keys(plan: LogicalPlan, named: &QualifiedNames) -> Result<LogicalPlan> {
    let mut has_merged = false;
    let plan = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Join(join) if loses_keys(&join) => {
            has_merged = true;
            merged(join, named).map(Transformed::yes)
        }
        plan if has_merged => plan.recompute_schema().map(Transformed::yes),
        plan => Ok(Transformed::no(plan)),
    })?;
    Ok(plan.data)
}

fn loses_keys(join: &Join) -> bool {
    join.join_constraint == JoinConstraint::Using && matches!(join.join_type, JoinType::Right | JoinType::Full)
}

fn merged(join: Join, named: &QualifiedNames) -> Result<LogicalPlan> {
    let mut keys = Vec::new();
    for (left, right) in &join.on {
        if let (Expr::Column(left), Expr::Column(right)) = (left, right) {
            if named.has(left) {
                return plan_err!(
                    "{left} beside {} JOIN … USING ({}): write the join with ON {left} = {right}, or name the key \
                     without a table",
                    join.join_type.to_string().to_uppercase(),
                    left.name
                );
            }
            keys.push((left.clone(), right.clone()));
        }
    }
    let is_right = join.join_type == JoinType::Right;
    let columns = join.schema.columns().into_iter().map(|column| {
        let Some((left, right)) = keys.iter().find(|(left, _)| *left == column) else {
            return Expr::Column(column);
        };
        let right = Expr::Column(right.clone());
        let key = match is_right {
            true => right,
            false => coalesce(vec![Expr::Column(left.clone()), right]),
        };
        key.alias_qualified(left.relation.clone(), &left.name)
    });
    let columns = columns.collect();
    Projection::try_new(columns, Arc::new(LogicalPlan::Join(join))).map(LogicalPlan::Projection)
}
