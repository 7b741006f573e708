//! Relations of FROM and types that DataFusion's SQL planner lacks.
//!
//! ```text
//! chosen_columns the columns that COLUMNS(…) chooses
//! pivot          PIVOT: a column for each value
//! unpivot        UNPIVOT: a row for each column
//! asof_join      ASOF JOIN: the row before or after
//! sample         TABLESAMPLE: some of the rows
//! bags           EXCEPT ALL, INTERSECT ALL: rows with how often they occur
//! type_names     HUGEINT, BLOB, JSON
//! ```

pub(crate) mod asof_join;
pub(crate) mod bags;
pub(crate) mod chosen_columns;
mod pivot;
mod sample;
mod type_names;
mod unpivot;

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::planner::{RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::sql::sqlparser::ast::TableFactor;

/// Adds the relations and types to a session. Planners of the session come first.
pub(crate) fn install(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let planners = builder.relation_planners().get_or_insert_default();
    planners.push(Arc::new(Relations));
    if builder.type_planner().is_none() {
        builder = builder.with_type_planner(Arc::new(type_names::TypeNames));
    }
    builder
}

#[derive(Debug)]
struct Relations;

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if let Some(sample) = sample::take(&mut relation) {
            let planned = sample::plan(relation, sample, context)?;
            return Ok(RelationPlanning::Planned(Box::new(planned)));
        }
        let planned = match relation {
            operation if bags::is_one(&operation) => bags::plan(operation, context)?,
            pivot @ TableFactor::Pivot { .. } => pivot::plan(pivot, context)?,
            unpivot @ TableFactor::Unpivot { .. } => unpivot::plan(unpivot, context)?,
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } if asof_join::is_one(&table_with_joins) => asof_join::plan(*table_with_joins, alias, context)?,
            other => return Ok(RelationPlanning::Original(Box::new(other))),
        };
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}
