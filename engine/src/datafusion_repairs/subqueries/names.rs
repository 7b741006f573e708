//! [`Names`]: names that no column and no table of a plan has.

use std::cell::Cell;

use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;

const PREFIX: &str = "__subquery_";

/// A source of names.
#[derive(Debug)]
pub(in super::super) struct Names(Cell<usize>);

impl Names {
    /// Names that `plan` does not have, though a rule may have given it such names before.
    pub(in super::super) fn beside(plan: &LogicalPlan) -> Result<Self> {
        let mut last = 0;
        plan.apply_with_subqueries(|node| {
            for (table, field) in node.schema().iter() {
                let table = table.map_or("", |table| table.table());
                for name in [table, field.name()] {
                    let number = name.strip_prefix(PREFIX).and_then(|number| number.parse().ok());
                    last = last.max(number.unwrap_or(0));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(Self(Cell::new(last)))
    }

    pub(super) fn fresh(&self) -> String {
        self.0.set(self.0.get() + 1);
        format!("{PREFIX}{}", self.0.get())
    }
}
