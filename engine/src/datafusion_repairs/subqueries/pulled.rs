//! [`Pulled`]: a subquery whose conditions on columns of outer queries are pulled out of it.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, ident, lit};

use super::names::Names;
use super::references::{is_correlated, is_lateral, substituted};

/// The rows of a subquery for a row of its outer query: those of `plan` that satisfy `conditions`.
pub(super) struct Pulled {
    /// A plan without references to outer queries, whose columns have names of [`Names`].
    pub(super) plan: LogicalPlan,
    pub(super) conditions: Vec<Expr>,
    /// The subquery's columns, of columns of `plan` and of outer queries.
    pub(super) outputs: Vec<Expr>,
}

impl Pulled {
    /// `None`: the conditions cannot leave the subquery. `is_set`: how often a row occurs does not matter.
    pub(super) fn of(plan: &LogicalPlan, names: &Names, is_set: bool) -> Result<Option<Self>> {
        if !is_correlated(plan)? {
            return Self::whole(plan.clone(), names).map(Some);
        }
        match plan {
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input, names, is_set),
            LogicalPlan::Subquery(lateral) => Self::of(&lateral.subquery, names, is_set),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => Self::of(&sort.input, names, is_set),
            LogicalPlan::Distinct(Distinct::All(input)) if is_set => Self::of(input, names, is_set),
            LogicalPlan::Filter(filter) => {
                let Some(pulled) = Self::of(&filter.input, names, is_set)? else {
                    return Ok(None);
                };
                let conditions = split_conjunction(&filter.predicate).into_iter().cloned();
                pulled.filtered(conditions.collect(), filter.input.schema()).map(Some)
            }
            LogicalPlan::Projection(projection) => {
                let pulled = Self::of(&projection.input, names, is_set)?;
                let Some(mut pulled) = pulled.filter(|_| !projection.expr.iter().any(Expr::is_volatile)) else {
                    return Ok(None);
                };
                let values = projection.expr.iter().map(|expr| {
                    let value = expr.clone().unalias_nested().data;
                    substituted(value, projection.input.schema(), &pulled.outputs)
                });
                pulled.outputs = values.collect::<Result<_>>()?;
                Ok(Some(pulled))
            }
            LogicalPlan::Join(join) => Self::of_join(join, names, is_set),
            _ => Ok(None),
        }
    }

    /// The whole plan, without conditions.
    fn whole(plan: LogicalPlan, names: &Names) -> Result<Self> {
        let columns = plan.schema().columns();
        if columns.is_empty() {
            return Ok(Self {
                plan,
                conditions: Vec::new(),
                outputs: Vec::new(),
            });
        }
        let renamed: Vec<String> = columns.iter().map(|_| names.fresh()).collect();
        let named = columns.into_iter().zip(&renamed);
        let projected = named.map(|(column, name)| Expr::Column(column).alias(name)).collect();
        Ok(Self {
            plan: LogicalPlan::Projection(Projection::try_new(projected, Arc::new(plan))?),
            conditions: Vec::new(),
            outputs: renamed.into_iter().map(ident).collect(),
        })
    }

    /// With the conditions on columns of `schema`, which are the outputs.
    fn filtered(mut self, conditions: Vec<Expr>, schema: &DFSchema) -> Result<Self> {
        let mut inner = Vec::new();
        for condition in conditions {
            let condition = substituted(condition, schema, &self.outputs)?;
            match condition.contains_outer() {
                true => self.conditions.push(condition),
                false => inner.push(condition),
            }
        }
        if let Some(condition) = conjunction(inner) {
            self.plan = LogicalPlan::Filter(Filter::try_new(condition, Arc::new(self.plan))?);
        }
        Ok(self)
    }

    fn of_join(join: &Join, names: &Names, is_set: bool) -> Result<Option<Self>> {
        let Join { left, right, .. } = join;
        if is_lateral(left) || is_lateral(right) || join.null_equality != NullEquality::NullEqualsNothing {
            return Ok(None);
        }
        let both = left.schema().as_ref().join(right.schema())?;
        match join.join_type {
            JoinType::Inner => {
                let (Some(left), Some(right)) = (Self::of(left, names, is_set)?, Self::of(right, names, is_set)?)
                else {
                    return Ok(None);
                };
                let joined = Self {
                    plan: LogicalPlanBuilder::from(left.plan).cross_join(right.plan)?.build()?,
                    conditions: [left.conditions, right.conditions].concat(),
                    outputs: [left.outputs, right.outputs].concat(),
                };
                joined.filtered(join_conditions(join), &both).map(Some)
            }
            // The left side's rows stay.
            JoinType::Left | JoinType::LeftMark if !is_correlated(right)? => {
                let Some(mut pulled) = Self::of(left, names, is_set)? else {
                    return Ok(None);
                };
                let right = Self::whole(right.as_ref().clone(), names)?;
                let outputs = [pulled.outputs.clone(), right.outputs].concat();
                let conditions = join_conditions(join).into_iter();
                let conditions: Vec<Expr> = conditions
                    .map(|condition| substituted(condition, &both, &outputs))
                    .collect::<Result<_>>()?;
                if conditions.iter().any(Expr::contains_outer) {
                    return Ok(None);
                }
                if join.join_type == JoinType::LeftMark {
                    let (plan, mark) = marked(pulled.plan, right.plan, conditions, names)?;
                    let mut columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
                    let name = names.fresh();
                    columns.pop();
                    columns.push(mark.alias(&name));
                    pulled.plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
                    pulled.outputs.push(ident(name));
                } else {
                    pulled.plan = LogicalPlanBuilder::from(pulled.plan)
                        .join_on(right.plan, JoinType::Left, or_true(conditions))?
                        .build()?;
                    pulled.outputs = outputs;
                }
                Ok(Some(pulled))
            }
            _ => Ok(None),
        }
    }
}

pub(super) fn join_conditions(join: &Join) -> Vec<Expr> {
    let equalities = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    equalities.chain(join.filter.clone()).collect()
}

/// The conditions of a join, which may have none.
pub(super) fn or_true(mut conditions: Vec<Expr>) -> Vec<Expr> {
    if conditions.is_empty() {
        conditions.push(lit(true));
    }
    conditions
}

/// The rows of `left`, and the column that says whether a row of `right` satisfies the conditions.
pub(super) fn marked(
    left: LogicalPlan,
    right: LogicalPlan,
    conditions: Vec<Expr>,
    names: &Names,
) -> Result<(LogicalPlan, Expr)> {
    let alias = names.fresh();
    let right = LogicalPlanBuilder::from(right).alias(alias.as_str())?.build()?;
    let joined = LogicalPlanBuilder::from(left).join_on(right, JoinType::LeftMark, or_true(conditions))?;
    Ok((joined.build()?, Expr::Column(Column::new(Some(alias), "mark"))))
}
