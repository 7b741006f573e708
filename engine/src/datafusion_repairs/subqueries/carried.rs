//! [`OuterRows`]: the rows of an outer query, carried through the operators of its subquery.
//!
//! Each row has a number. An operator of the subquery works on the rows of one number at a time: aggregations and
//! windows have the number among their keys, and LIMIT counts the rows of each number. A row of the outer query for
//! which the subquery has no rows stays as one row that is not *found*.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, Result, not_impl_err};
use datafusion::functions_aggregate::expr_fn::{first_value, max};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{AggregateFunction, Sort, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, FetchType, Join, Limit, LogicalPlan, LogicalPlanBuilder, SkipType,
    Window, ident, lit, when,
};

use super::names::Names;
use super::places::with_columns;
use super::pulled::{Pulled, join_conditions, marked, or_true};
use super::references::{is_correlated, is_lateral, resolved, substituted};
use super::unnested::unnested;

/// The rows of an outer query.
pub(super) struct OuterRows<'a> {
    names: &'a Names,
    /// The column of the rows' numbers.
    number: Column,
    /// The other columns.
    columns: Vec<(Column, DataType)>,
}

/// The rows of a subquery, each beside its row of the outer query.
pub(super) struct Carried {
    pub(super) plan: LogicalPlan,
    /// The subquery's columns.
    pub(super) outputs: Vec<Expr>,
    /// Whether a row is the subquery's. If not, it is the only one of its number.
    pub(super) found: Expr,
    /// Whether each number has one row.
    pub(super) is_single: bool,
}

impl<'a> OuterRows<'a> {
    /// The rows of `plan` with their numbers.
    pub(super) fn number(plan: LogicalPlan, names: &'a Names) -> Result<(LogicalPlan, Self)> {
        let columns = plan.schema().iter();
        let columns =
            columns.map(|(table, field)| (Column::new(table.cloned(), field.name()), field.data_type().clone()));
        let columns = columns.collect();
        let name = names.fresh();
        let numbers = row_number().alias(&name);
        let plan = LogicalPlan::Window(Window::try_new(vec![numbers], Arc::new(plan))?);
        let number = Column::new_unqualified(name);
        Ok((plan, Self { names, number, columns }))
    }

    /// The rows of `subquery` for each of the outer query's rows, which `plan` has.
    pub(super) fn carry(&self, plan: LogicalPlan, subquery: &LogicalPlan) -> Result<Carried> {
        if let Some(pulled) = Pulled::of(subquery, self.names, false)? {
            return self.pulled(plan, pulled, subquery.max_rows().is_some_and(|rows| rows <= 1));
        }
        match subquery {
            LogicalPlan::SubqueryAlias(alias) => self.carry(plan, &alias.input),
            LogicalPlan::Subquery(lateral) => self.carry(plan, &lateral.subquery),
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.carry(plan, &sort.input),
            LogicalPlan::Projection(projection) => {
                let input = projection.input.schema();
                let carried = self.carry(plan, &projection.input)?;
                let values = projection.expr.iter().map(|expr| expr.clone().unalias_nested().data);
                self.with_outputs(carried, values.collect(), input)
            }
            LogicalPlan::Filter(filter) => {
                let carried = self.carry(plan, &filter.input)?;
                let condition = carried.own(filter.predicate.clone(), filter.input.schema())?;
                self.filtered(carried, condition)
            }
            LogicalPlan::Limit(limit) => self.limited(plan, limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregated(plan, aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let carried = self.carry(plan, input)?;
                let keys = carried.outputs.clone();
                self.grouped(carried, keys, Vec::new())
            }
            LogicalPlan::Window(window) => self.windows(plan, window),
            LogicalPlan::Unnest(unnest) => {
                let Carried {
                    plan, outputs, found, ..
                } = self.carry(plan, &unnest.input)?;
                let (plan, outputs, found) = unnested(plan, outputs, found, unnest, self.names)?;
                Ok(Carried {
                    plan,
                    outputs,
                    found,
                    is_single: false,
                })
            }
            LogicalPlan::Join(join) => self.joined(plan, join),
            other => refused(other),
        }
    }

    /// The rows that a pulled subquery has for each number.
    fn pulled(&self, plan: LogicalPlan, pulled: Pulled, is_single: bool) -> Result<Carried> {
        let outer = Arc::clone(plan.schema());
        let resolve = |expr| resolved(expr, &outer);
        let conditions: Vec<Expr> = pulled.conditions.into_iter().map(resolve).collect::<Result<_>>()?;
        let outputs = pulled.outputs.into_iter().map(resolve).collect::<Result<_>>()?;
        let found = self.names.fresh();
        let mut columns: Vec<Expr> = pulled.plan.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&found));
        let right = LogicalPlanBuilder::from(pulled.plan).project(columns)?.build()?;
        let joined = LogicalPlanBuilder::from(plan).join_on(right, JoinType::Left, or_true(conditions))?;
        Ok(Carried {
            plan: joined.build()?,
            outputs,
            found: ident(found).is_not_null(),
            is_single,
        })
    }

    /// The rows with other outputs, of the outputs that they have.
    fn with_outputs(&self, mut carried: Carried, values: Vec<Expr>, schema: &DFSchema) -> Result<Carried> {
        let is_volatile = values.iter().any(Expr::is_volatile);
        let values = values.into_iter().map(|value| carried.own(value, schema));
        let values = values.collect::<Result<Vec<Expr>>>()?;
        carried.outputs = match is_volatile {
            true => {
                let (plan, columns) = with_columns(carried.plan, values, self.names)?;
                carried.plan = plan;
                columns
            }
            false => values,
        };
        Ok(carried)
    }

    /// The rows that satisfy a condition.
    pub(super) fn filtered(&self, carried: Carried, condition: Expr) -> Result<Carried> {
        let keeps = when(carried.found.clone().and(condition), lit(true)).otherwise(lit(false))?;
        let (plan, kept) = with_columns(carried.plan, vec![keeps], self.names)?;
        let found = kept[0].clone();
        if carried.is_single {
            return Ok(Carried { plan, found, ..carried });
        }
        // One row stays of a number that loses all.
        let (any, row) = (self.names.fresh(), self.names.fresh());
        let keeps = when(found.clone(), lit(1_i64)).otherwise(lit(0_i64))?;
        let windows = vec![
            self.by_number(max(keeps), Vec::new())?.alias(&any),
            self.by_number(row_number(), Vec::new())?.alias(&row),
        ];
        let plan = LogicalPlan::Window(Window::try_new(windows, Arc::new(plan))?);
        let is_last = ident(any).eq(lit(0_i64)).and(ident(row).eq(lit(1_u64)));
        let plan = LogicalPlanBuilder::from(plan)
            .filter(found.clone().or(is_last))?
            .build()?;
        Ok(Carried { plan, found, ..carried })
    }

    /// A window function over the rows of each number.
    fn by_number(&self, function: Expr, order: Vec<Sort>) -> Result<Expr> {
        let function = match function {
            Expr::AggregateFunction(aggregate) => {
                Expr::from(WindowFunction::new(aggregate.func, aggregate.params.args))
            }
            function => function,
        };
        let keys = vec![Expr::Column(self.number.clone())];
        let function = function.partition_by(keys);
        match order.is_empty() {
            true => function.build(),
            false => function.order_by(order).build(),
        }
    }

    /// The rows, numbered in their order among those of one number of the outer query.
    pub(super) fn in_order(&self, plan: LogicalPlan, order: Vec<Sort>) -> Result<(LogicalPlan, Expr)> {
        let name = self.names.fresh();
        let row = self.by_number(row_number(), order)?.alias(&name);
        let plan = LogicalPlan::Window(Window::try_new(vec![row], Arc::new(plan))?);
        Ok((plan, ident(name)))
    }

    fn limited(&self, plan: LogicalPlan, limit: &Limit) -> Result<Carried> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return not_impl_err!("LIMIT and OFFSET of a correlated subquery are numbers, not expressions");
        };
        let (mut carried, order) = self.ordered(plan, &limit.input)?;
        let (plan, row) = self.in_order(carried.plan, order)?;
        carried.plan = plan;
        let skip = skip as u64;
        let end = fetch.map(|fetch| skip.saturating_add(fetch as u64));
        if skip == 0 && fetch != Some(0) {
            // The first row of a number stays, found or not.
            if let Some(end) = end {
                carried.plan = LogicalPlanBuilder::from(carried.plan)
                    .filter(row.lt_eq(lit(end)))?
                    .build()?;
                carried.is_single |= end == 1;
            }
            return Ok(carried);
        }
        let mut is_kept = row.clone().gt(lit(skip));
        if let Some(end) = end {
            is_kept = is_kept.and(row.lt_eq(lit(end)));
        }
        self.filtered(carried, is_kept)
    }

    /// The rows of a plan below LIMIT, and their order.
    fn ordered(&self, plan: LogicalPlan, subquery: &LogicalPlan) -> Result<(Carried, Vec<Sort>)> {
        match subquery {
            LogicalPlan::SubqueryAlias(alias) => self.ordered(plan, &alias.input),
            LogicalPlan::Projection(projection) => {
                let (carried, order) = self.ordered(plan, &projection.input)?;
                let values = projection.expr.iter().map(|expr| expr.clone().unalias_nested().data);
                let carried = self.with_outputs(carried, values.collect(), projection.input.schema())?;
                Ok((carried, order))
            }
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                let carried = self.carry(plan, &sort.input)?;
                let order = sort.expr.iter().map(|key| {
                    let expr = carried.own(key.expr.clone(), sort.input.schema())?;
                    Ok(Sort { expr, ..key.clone() })
                });
                let order = order.collect::<Result<_>>()?;
                Ok((carried, order))
            }
            other => Ok((self.carry(plan, other)?, Vec::new())),
        }
    }

    fn aggregated(&self, plan: LogicalPlan, aggregate: &Aggregate) -> Result<Carried> {
        let schema = aggregate.input.schema();
        let carried = self.carry(plan, &aggregate.input)?;
        let keys = aggregate.group_expr.iter().map(|key| match key {
            Expr::GroupingSet(_) => refused(&LogicalPlan::Aggregate(aggregate.clone())),
            key => carried.own(key.clone().unalias(), schema),
        });
        let keys = keys.collect::<Result<Vec<Expr>>>()?;
        let mut functions = Vec::new();
        for function in &aggregate.aggr_expr {
            let Expr::AggregateFunction(mut function) = carried.own(function.clone().unalias(), schema)? else {
                return refused(&LogicalPlan::Aggregate(aggregate.clone()));
            };
            let mut is_counted = carried.found.clone();
            if let Some(filter) = function.params.filter.take() {
                is_counted = is_counted.and(*filter);
            }
            function.params.filter = Some(Box::new(is_counted));
            functions.push(function);
        }
        self.grouped(carried, keys, functions)
    }

    /// The groups of each number. Without keys, each number has one, as an aggregation of no rows has one row.
    fn grouped(&self, carried: Carried, keys: Vec<Expr>, functions: Vec<AggregateFunction>) -> Result<Carried> {
        let is_single = keys.is_empty();
        let mut groups = vec![Expr::Column(self.number.clone())];
        let mut aggregates = Vec::new();
        for (column, data_type) in &self.columns {
            let value = Expr::Column(column.clone());
            // Groups hold both zeros equal, and not all nested values can be compared.
            match data_type.is_nested() || data_type.is_floating() {
                true => aggregates
                    .push(first_value(value, Vec::new()).alias_qualified(column.relation.clone(), &column.name)),
                false => groups.push(value),
            }
        }
        let mut values = keys;
        if !is_single {
            values.push(carried.found);
        }
        let (plan, mut outputs) = with_columns(carried.plan, values, self.names)?;
        groups.extend(outputs.clone());
        let found = outputs.pop().unwrap_or(lit(true));
        for function in functions {
            let name = self.names.fresh();
            aggregates.push(Expr::AggregateFunction(function).alias(&name));
            outputs.push(ident(name));
        }
        let plan = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(plan), groups, aggregates)?);
        Ok(Carried {
            plan,
            outputs,
            found,
            is_single,
        })
    }

    fn windows(&self, plan: LogicalPlan, window: &Window) -> Result<Carried> {
        let schema = window.input.schema();
        let mut carried = self.carry(plan, &window.input)?;
        let mut functions = Vec::new();
        for function in &window.window_expr {
            let Expr::WindowFunction(mut function) = carried.own(function.clone().unalias(), schema)? else {
                return refused(&LogicalPlan::Window(window.clone()));
            };
            function.params.partition_by.push(Expr::Column(self.number.clone()));
            let name = self.names.fresh();
            functions.push(Expr::WindowFunction(function).alias(&name));
            carried.outputs.push(ident(name));
        }
        carried.plan = LogicalPlan::Window(Window::try_new(functions, Arc::new(carried.plan))?);
        Ok(carried)
    }

    fn joined(&self, plan: LogicalPlan, join: &Join) -> Result<Carried> {
        let Join { left, right, .. } = join;
        let is_supported = !is_lateral(left) && !is_lateral(right) && !is_correlated(right)?;
        if !is_supported || join.null_equality != NullEquality::NullEqualsNothing {
            return refused(&LogicalPlan::Join(join.clone()));
        }
        let both = left.schema().as_ref().join(right.schema())?;
        let mut carried = self.carry(plan, left)?;
        let Some(right) = Pulled::of(right, self.names, false)? else {
            return refused(&LogicalPlan::Join(join.clone()));
        };
        let outputs = [carried.outputs.clone(), right.outputs].concat();
        let outer = Arc::clone(carried.plan.schema());
        let own = |condition| resolved(substituted(condition, &both, &outputs)?, &outer);
        let mut conditions = join_conditions(join)
            .into_iter()
            .map(own)
            .collect::<Result<Vec<Expr>>>()?;
        conditions.push(carried.found.clone());
        match join.join_type {
            JoinType::Inner | JoinType::Left => {
                let is_partner = self.names.fresh();
                let mut columns: Vec<Expr> = right.plan.schema().columns().into_iter().map(Expr::Column).collect();
                columns.push(lit(true).alias(&is_partner));
                let right = LogicalPlanBuilder::from(right.plan).project(columns)?.build()?;
                let plan = LogicalPlanBuilder::from(carried.plan).join_on(right, JoinType::Left, conditions)?;
                carried = Carried {
                    plan: plan.build()?,
                    outputs,
                    is_single: false,
                    ..carried
                };
                match join.join_type {
                    JoinType::Left => Ok(carried),
                    _ => self.filtered(carried, ident(is_partner).is_not_null()),
                }
            }
            JoinType::LeftMark => {
                let (plan, mark) = marked(carried.plan, right.plan, conditions, self.names)?;
                carried.plan = plan;
                carried.outputs.push(mark);
                Ok(carried)
            }
            _ => refused(&LogicalPlan::Join(join.clone())),
        }
    }
}

impl Carried {
    /// An expression of the subquery, as one of the carried rows. `schema` has the outputs' names.
    fn own(&self, expr: Expr, schema: &DFSchema) -> Result<Expr> {
        resolved(substituted(expr, schema, &self.outputs)?, self.plan.schema())
    }
}

fn refused<T>(plan: &LogicalPlan) -> Result<T> {
    not_impl_err!(
        "a subquery that names columns of the outer query below {}: write it as a join, or join an aggregation of it",
        plan.display()
    )
}
