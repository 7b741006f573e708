//! `t PIVOT (sum(x) FOR c IN ('a', 'b') GROUP BY k)`: a row for each group, and a column for each value of `c`.
//!
//! The aggregates of a value see the rows with this value, as by `FILTER`. Groups are those of all columns that neither
//! the aggregates nor `c` name. A column is named by its value, and by its aggregate if there are several or it has an
//! alias. A name that another column has gets a number: `a_1`.

use std::collections::{HashMap, HashSet};

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{Expr as SqlExpr, ExprWithAlias, Ident, PivotValueSource, TableFactor, Value};

/// An aggregate, and what it is called if the name of a column needs it.
struct Cell {
    aggregate: Expr,
    name: Option<String>,
}

/// The plan of a pivot with a list of values.
///
/// # Errors
/// If the values are no list, or an aggregate is none.
pub(super) fn plan(pivot: TableFactor, context: &mut dyn RelationPlannerContext) -> Result<PlannedRelation> {
    let TableFactor::Pivot {
        table,
        aggregate_functions,
        value_column,
        value_source,
        default_on_null,
        alias,
    } = pivot
    else {
        return plan_err!("this is no PIVOT");
    };
    let PivotValueSource::List(values) = value_source else {
        return plan_err!("PIVOT: the values are to be a list here: write IN ('a', 'b')");
    };
    let input = context.plan(*table)?;
    let schema = input.schema().clone();
    let keys = value_column.into_iter().map(|key| context.sql_to_expr(key, &schema));
    let keys: Vec<Expr> = keys.collect::<Result<_>>()?;
    let default = default_on_null
        .map(|expr| context.sql_to_expr(expr, &schema))
        .transpose()?;
    let is_only = aggregate_functions.len() == 1;
    let mut cells = Vec::new();
    for ExprWithAlias { expr, alias } in aggregate_functions {
        let text = expr.to_string();
        let name = alias.map(|alias| context.normalize_ident(alias));
        cells.push(Cell {
            aggregate: context.sql_to_expr(expr, &schema)?,
            name: name.or_else(|| (!is_only).then_some(text)),
        });
    }
    let named: HashSet<Column> = keys
        .iter()
        .chain(cells.iter().map(|cell| &cell.aggregate))
        .flat_map(|expr| expr.column_refs().into_iter().cloned())
        .collect();
    let groups = schema.columns().into_iter().filter(|column| !named.contains(column));
    let groups: Vec<Expr> = groups.map(Expr::Column).collect();

    let mut aggregates = Vec::new();
    let mut outputs = groups.clone();
    let mut names = Names::default();
    for column in schema.columns().iter().filter(|column| !named.contains(column)) {
        names.add(&column.name);
    }
    for value in values {
        let (texts, filter) = value_of(value, &keys, &schema, context)?;
        for cell in &cells {
            let mut parts = texts.clone();
            parts.extend(cell.name.clone());
            let mut output = filtered(cell.aggregate.clone(), &filter, &mut aggregates)?;
            if let Some(default) = &default {
                output = datafusion::functions::expr_fn::coalesce(vec![output, default.clone()]);
            }
            outputs.push(output.alias(names.add(&parts.join("_"))));
        }
    }
    let plan = LogicalPlanBuilder::from(input)
        .aggregate(groups, aggregates)?
        .project(outputs)?;
    Ok(PlannedRelation::new(plan.build()?, alias))
}

/// The names of columns, in lower case, and how often each was given.
#[derive(Default)]
struct Names(HashMap<String, usize>);

impl Names {
    /// Adds a name, with a number if another column has it in any letter case.
    fn add(&mut self, name: &str) -> String {
        let key = name.to_lowercase();
        let Some(mut number) = self.0.get(&key).copied() else {
            self.0.insert(key, 1);
            return name.to_owned();
        };
        let numbered = loop {
            let numbered = format!("{name}_{number}");
            number += 1;
            if !self.0.contains_key(&numbered.to_lowercase()) {
                break numbered;
            }
        };
        self.0.insert(key, number);
        self.0.insert(numbered.to_lowercase(), 1);
        numbered
    }
}

/// The texts of a value, which may be a tuple, and the condition for rows that have it.
fn value_of(
    value: ExprWithAlias,
    keys: &[Expr],
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<(Vec<String>, Expr)> {
    let ExprWithAlias { expr, alias } = value;
    let parts = match expr {
        SqlExpr::Tuple(parts) => parts,
        part => vec![part],
    };
    if parts.len() != keys.len() {
        return plan_err!("PIVOT: {} columns have no values of {} parts", keys.len(), parts.len());
    }
    let mut texts = Vec::new();
    let mut condition: Option<Expr> = None;
    for (part, key) in parts.into_iter().zip(keys) {
        texts.push(match &part {
            SqlExpr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) => text.clone(),
                other => other.to_string(),
            },
            SqlExpr::Identifier(Ident { value, .. }) => {
                return plan_err!("PIVOT: the value {value} is to be a constant");
            }
            other => other.to_string(),
        });
        let part = context.sql_to_expr(part, schema)?;
        let is_null = matches!(&part, Expr::Literal(value, _) if value.is_null());
        let is_equal = if is_null {
            key.clone().is_null()
        } else {
            key.clone().eq(part)
        };
        condition = Some(match condition {
            Some(others) => others.and(is_equal),
            None => is_equal,
        });
    }
    if let Some(alias) = alias {
        texts = vec![context.normalize_ident(alias)];
    }
    Ok((texts, condition.unwrap_or_else(|| lit(true))))
}

/// An expression over aggregates, each of which sees the rows of a condition. The aggregates are put into the list.
fn filtered(expr: Expr, condition: &Expr, aggregates: &mut Vec<Expr>) -> Result<Expr> {
    let before = aggregates.len();
    let output = expr.transform_down(|expr| match expr {
        Expr::AggregateFunction(mut aggregate) => {
            let filter = aggregate.params.filter.take();
            aggregate.params.filter = Some(Box::new(match filter {
                Some(filter) => filter.and(condition.clone()),
                None => condition.clone(),
            }));
            let aggregate = Expr::AggregateFunction(aggregate);
            let name = aggregate.schema_name().to_string();
            if !aggregates.contains(&aggregate) {
                aggregates.push(aggregate);
            }
            Ok(Transformed::new(
                Expr::Column(Column::new_unqualified(name)),
                true,
                TreeNodeRecursion::Jump,
            ))
        }
        other => Ok(Transformed::no(other)),
    })?;
    if before == aggregates.len() && !output.transformed {
        return plan_err!("PIVOT: {} is no aggregate", output.data);
    }
    Ok(output.data)
}
