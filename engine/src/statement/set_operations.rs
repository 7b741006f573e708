//! [`nest`]: `EXCEPT ALL` and `INTERSECT ALL` as subqueries, which [`bags`] plans.

use datafusion::sql::sqlparser::ast::{SetExpr, TableFactor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;

use crate::relations::bags;

/// Makes `SELECT * FROM (a EXCEPT ALL b)` of `a EXCEPT ALL b`, also inside of other set operations.
pub(super) fn nest(query: &mut SetExpr) {
    let SetExpr::SetOperation { left, right, .. } = query else {
        return;
    };
    nest(left);
    nest(right);
    if bags::is_operation(query)
        && let Some(mut nested) = select_from_subquery()
        && let SetExpr::Select(select) = &mut nested
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(subquery.body.as_mut(), query);
        *query = nested;
    }
}

fn select_from_subquery() -> Option<SetExpr> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql("SELECT * FROM (SELECT 1)");
    Some(*parser.ok()?.parse_query().ok()?.body)
}
