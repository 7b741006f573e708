//! [`exists`] and [`scalar`]: subqueries as columns of the rows of their outer query.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DFSchemaRef, JoinType, Result, ScalarValue};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Alias, Sort};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, EmptyRelation, Expr, ExprFunctionExt, ExprSchemable, FetchType, Join, Limit,
    LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Subquery, Window, ident, lit, when,
};

use super::carried::{Carried, OuterRows};
use super::names::Names;
use super::one_row::one_row;
use super::places::only;
use super::pulled::{Pulled, marked, or_true};
use super::references::{is_correlated, resolved, substituted};

/// The rows of `outer` with more columns, and whether `subquery` has a row for them.
pub(super) fn exists(outer: LogicalPlan, subquery: &LogicalPlan, names: &Names) -> Result<(LogicalPlan, Expr)> {
    let subquery = existing(subquery)?;
    if !is_correlated(subquery)? {
        return Ok((outer, is_any(subquery)?));
    }
    let Some(pulled) = Pulled::of(subquery, names, true)? else {
        if let Some(branches) = branches(subquery)? {
            let (mut outer, mut any) = (outer, lit(false));
            for branch in branches {
                let (more, found) = exists(outer, &branch, names)?;
                (outer, any) = (more, any.or(found));
            }
            return Ok((outer, any));
        }
        let (outer, rows) = OuterRows::number(outer, names)?;
        let mut carried = rows.carry(outer, subquery)?;
        if !carried.is_single {
            let (plan, row) = rows.in_order(carried.plan, Vec::new())?;
            carried.plan = LogicalPlanBuilder::from(plan).filter(row.eq(lit(1_u64)))?.build()?;
        }
        return Ok((carried.plan, carried.found));
    };
    let schema = Arc::clone(outer.schema());
    let conditions = pulled
        .conditions
        .into_iter()
        .map(|condition| resolved(condition, &schema));
    let conditions = conditions.collect::<Result<Vec<Expr>>>()?;
    let right = pulled.plan.schema();
    let is_used = |column: &Column| {
        conditions
            .iter()
            .any(|condition| condition.column_refs().iter().any(|used| used.name == column.name))
    };
    let columns: Vec<Expr> = right.columns().into_iter().filter(is_used).map(Expr::Column).collect();
    let right = match columns.is_empty() {
        true => LogicalPlanBuilder::from(pulled.plan)
            .project(vec![lit(true).alias(names.fresh())])?
            .limit(0, Some(1))?,
        false => LogicalPlanBuilder::from(pulled.plan).project(columns)?,
    };
    marked(outer, right.build()?, conditions, names)
}

/// The subqueries of which one has a row if a UNION has.
fn branches(subquery: &LogicalPlan) -> Result<Option<Vec<LogicalPlan>>> {
    match subquery {
        LogicalPlan::Union(union) => {
            let named = union.inputs.iter().map(|input| {
                let columns = input.schema().columns().into_iter().zip(union.schema.iter());
                let columns = columns
                    .map(|(column, (table, field))| Expr::Column(column).alias_qualified(table.cloned(), field.name()));
                only(input.as_ref().clone(), columns.collect())
            });
            named.collect::<Result<_>>().map(Some)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => {
            let Some(branches) = branches(subquery.inputs()[0])? else {
                return Ok(None);
            };
            let whole = branches
                .into_iter()
                .map(|branch| subquery.with_new_exprs(subquery.expressions(), vec![branch]));
            whole.collect::<Result<_>>().map(Some)
        }
        _ => Ok(None),
    }
}

/// The part of a subquery that decides whether it has rows.
fn existing(subquery: &LogicalPlan) -> Result<&LogicalPlan> {
    match subquery {
        LogicalPlan::SubqueryAlias(alias) => existing(&alias.input),
        LogicalPlan::Subquery(lateral) => existing(&lateral.subquery),
        LogicalPlan::Projection(projection) => existing(&projection.input),
        LogicalPlan::Distinct(Distinct::All(input)) => existing(input),
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => existing(&sort.input),
        LogicalPlan::Limit(limit) => match (limit.get_skip_type()?, limit.get_fetch_type()?) {
            (SkipType::Literal(0), FetchType::Literal(fetch)) if fetch != Some(0) => existing(&limit.input),
            _ => Ok(subquery),
        },
        // Each row has a group.
        LogicalPlan::Aggregate(aggregate) if has_keys(aggregate) => existing(&aggregate.input),
        other => Ok(other),
    }
}

fn has_keys(aggregate: &Aggregate) -> bool {
    let keys = &aggregate.group_expr;
    !keys.is_empty() && !keys.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
}

/// Whether a subquery without references to outer queries has a row.
fn is_any(subquery: &LogicalPlan) -> Result<Expr> {
    let counted = LogicalPlanBuilder::from(subquery.clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64))])?
        .build()?;
    Ok(scalar_subquery(counted).gt(lit(0_i64)))
}

fn scalar_subquery(plan: LogicalPlan) -> Expr {
    Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
    })
}

/// A join with a LATERAL subquery, whose columns have the names of `schema`.
pub(super) fn lateral(
    outer: LogicalPlan,
    subquery: &LogicalPlan,
    conditions: Vec<Expr>,
    join: &Join,
    names: &Names,
) -> Result<LogicalPlan> {
    let width = outer.schema().fields().len();
    let (outer, rows) = OuterRows::number(outer, names)?;
    let mut carried = rows.carry(outer, subquery)?;
    let own = |expr, carried: &Carried| {
        let values = join.schema.columns().into_iter().take(width).map(Expr::Column);
        let values: Vec<Expr> = values.chain(carried.outputs.iter().cloned()).collect();
        resolved(substituted(expr, &join.schema, &values)?, carried.plan.schema())
    };
    for condition in conditions {
        let condition = own(condition, &carried)?;
        carried = rows.filtered(carried, condition)?;
    }
    let mut values: Vec<Expr> = join
        .schema
        .columns()
        .into_iter()
        .take(width)
        .map(Expr::Column)
        .collect();
    let rows = match join.join_type {
        JoinType::Inner => {
            values.extend(carried.outputs);
            LogicalPlanBuilder::from(carried.plan).filter(carried.found)?
        }
        _ => {
            for value in carried.outputs {
                values.push(when(carried.found.clone(), value).end()?);
            }
            LogicalPlanBuilder::from(carried.plan)
        }
    };
    let named = values.into_iter().zip(join.schema.iter()).enumerate();
    let named = named.map(|(at, (value, (table, field)))| match at < width {
        true => value,
        false => value.alias_qualified(table.cloned(), field.name()),
    });
    rows.project(named.collect::<Vec<_>>())?.build()
}

/// The rows of `outer` with more columns, and the value of the correlated `subquery` for them.
pub(super) fn scalar(outer: LogicalPlan, subquery: &LogicalPlan, names: &Names) -> Result<(LogicalPlan, Expr)> {
    if let Some(keyed) = Keyed::of(subquery, outer.schema(), names)? {
        return keyed.beside(outer, names);
    }
    let (outer, rows) = OuterRows::number(outer, names)?;
    let mut carried = rows.carry(outer, subquery)?;
    if !carried.is_single {
        let (plan, row) = rows.in_order(carried.plan, Vec::new())?;
        carried.plan = LogicalPlanBuilder::from(plan).filter(one_row(row))?.build()?;
    }
    let value = when(carried.found, carried.outputs.swap_remove(0)).end()?;
    Ok((carried.plan, value))
}

/// A scalar subquery whose rows have keys: columns that equal those of the outer query.
struct Keyed {
    /// One row for each key.
    plan: LogicalPlan,
    /// Conditions on keys and columns of the outer query.
    conditions: Vec<Expr>,
    /// The value, of columns of `plan` and of the outer query.
    value: Expr,
    /// The value without a row of the key.
    otherwise: Expr,
    /// The row's number, if the subquery may have several.
    row: Option<Expr>,
}

impl Keyed {
    /// `None`: the subquery has other conditions or operators.
    fn of(subquery: &LogicalPlan, outer: &DFSchema, names: &Names) -> Result<Option<Self>> {
        // The value, of columns of the operator that makes it.
        let mut value = Expr::Column(Column::from(subquery.schema().qualified_field(0)));
        let mut plan = subquery;
        let mut is_limited = false;
        let mut order: Vec<Sort> = Vec::new();
        loop {
            plan = match plan {
                LogicalPlan::SubqueryAlias(alias) => {
                    let columns: Vec<Expr> = alias.input.schema().columns().into_iter().map(Expr::Column).collect();
                    value = substituted(value, &alias.schema, &columns)?;
                    order = with_keys(order, |key| substituted(key, &alias.schema, &columns))?;
                    &alias.input
                }
                LogicalPlan::Projection(projection) if !projection.expr.iter().any(Expr::is_volatile) => {
                    let values = projection.expr.iter().map(|expr| expr.clone().unalias_nested().data);
                    let values: Vec<Expr> = values.collect();
                    value = substituted(value, &projection.schema, &values)?;
                    order = with_keys(order, |key| substituted(key, &projection.schema, &values))?;
                    &projection.input
                }
                LogicalPlan::Limit(limit) if !is_limited && is_first(limit)? => {
                    is_limited = true;
                    &limit.input
                }
                LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
                    // Only the uppermost order below LIMIT matters.
                    if is_limited && order.is_empty() {
                        order.clone_from(&sort.expr);
                    }
                    &sort.input
                }
                LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                    return Self::of_aggregate(aggregate, value, outer, names);
                }
                other => break plan = other,
            };
        }
        let Some(pulled) = Pulled::of(plan, names, false)? else {
            return Ok(None);
        };
        let Some((keys, conditions)) = keys(&pulled, outer, names)? else {
            return Ok(None);
        };
        let own = |expr| substituted(expr, plan.schema(), &pulled.outputs);
        let value = own(value)?;
        let order = with_keys(order, own)?;
        if order.iter().any(|key| key.expr.contains_outer()) {
            return Ok(None);
        }
        let name = names.fresh();
        let numbered = row_number().partition_by(keys.iter().map(|(key, _)| key.clone()).collect());
        let numbered = match order.is_empty() {
            true => numbered.build()?,
            false => numbered.order_by(order).build()?,
        };
        let windows = vec![numbered.alias(&name)];
        let rows = LogicalPlan::Window(Window::try_new(windows, Arc::new(pulled.plan))?);
        let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
        columns.extend(keys.into_iter().map(|(key, name)| key.alias(name)));
        let rows = match is_limited {
            true => LogicalPlanBuilder::from(rows).filter(ident(&name).eq(lit(1_u64)))?,
            false => LogicalPlanBuilder::from(rows),
        };
        Ok(Some(Self {
            plan: rows.project(columns)?.build()?,
            conditions,
            value,
            otherwise: lit(ScalarValue::Null),
            row: (!is_limited).then(|| ident(name)),
        }))
    }

    fn of_aggregate(aggregate: &Aggregate, value: Expr, outer: &DFSchema, names: &Names) -> Result<Option<Self>> {
        let Some(pulled) = Pulled::of(&aggregate.input, names, false)? else {
            return Ok(None);
        };
        let Some((keys, conditions)) = keys(&pulled, outer, names)? else {
            return Ok(None);
        };
        let (mut functions, mut values, mut defaults) = (Vec::new(), Vec::new(), Vec::new());
        for function in &aggregate.aggr_expr {
            let function = substituted(function.clone().unalias(), aggregate.input.schema(), &pulled.outputs)?;
            if function.contains_outer() {
                return Ok(None);
            }
            let name = names.fresh();
            let function = function.alias(&name);
            defaults.push(of_no_rows(&function, pulled.plan.schema())?);
            functions.push(function);
            values.push(ident(name));
        }
        let groups = keys.iter().map(|(key, name)| key.clone().alias(name)).collect();
        let grouped = Aggregate::try_new(Arc::new(pulled.plan), groups, functions)?;
        let names = keys.into_iter().map(|(_, name)| name);
        let columns = grouped.schema.columns();
        let (keys, rest) = columns.split_at(names.len());
        let keys = keys
            .iter()
            .zip(names)
            .map(|(column, name)| Expr::Column(column.clone()).alias(name));
        let columns: Vec<Expr> = keys.chain(rest.iter().cloned().map(Expr::Column)).collect();
        let plan = LogicalPlanBuilder::from(LogicalPlan::Aggregate(grouped))
            .project(columns)?
            .build()?;
        Ok(Some(Self {
            plan,
            conditions,
            value: substituted(value.clone(), &aggregate.schema, &values)?,
            otherwise: substituted(value, &aggregate.schema, &defaults)?,
            row: None,
        }))
    }

    /// The rows of the outer query, each beside the value.
    fn beside(self, outer: LogicalPlan, names: &Names) -> Result<(LogicalPlan, Expr)> {
        let schema = Arc::clone(outer.schema());
        let conditions = self
            .conditions
            .into_iter()
            .map(|condition| resolved(condition, &schema));
        let conditions = conditions.collect::<Result<Vec<Expr>>>()?;
        let found = names.fresh();
        let mut columns: Vec<Expr> = self.plan.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(&found));
        let right = LogicalPlanBuilder::from(self.plan).project(columns)?.build()?;
        let mut rows = LogicalPlanBuilder::from(outer).join_on(right, JoinType::Left, or_true(conditions))?;
        if let Some(row) = self.row {
            rows = rows.filter(one_row(row))?;
        }
        let rows = rows.build()?;
        let value = resolved(self.value, rows.schema())?;
        let otherwise = resolved(self.otherwise, rows.schema())?;
        let is_null = matches!(&otherwise, Expr::Literal(value, _) if value.is_null());
        if is_null && matches!(value, Expr::Column(_)) {
            return Ok((rows, value));
        }
        let otherwise = otherwise.cast_to(&value.get_type(rows.schema())?, rows.schema())?;
        Ok((rows, when(ident(found).is_not_null(), value).otherwise(otherwise)?))
    }
}

/// The value of an aggregation of no rows.
fn of_no_rows(function: &Expr, schema: &DFSchemaRef) -> Result<Expr> {
    if let Expr::Alias(Alias { expr, .. }) = function
        && let Expr::AggregateFunction(aggregate) = expr.as_ref()
        && ["sum", "avg", "min", "max"].contains(&aggregate.func.name())
    {
        return Ok(lit(ScalarValue::try_new_null(&expr.get_type(schema)?)?));
    }
    let none = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::clone(schema),
    });
    let aggregated = Aggregate::try_new(Arc::new(none), Vec::new(), vec![function.clone()])?;
    Ok(scalar_subquery(LogicalPlan::Aggregate(aggregated)))
}

/// The order by other keys.
fn with_keys(order: Vec<Sort>, own: impl Fn(Expr) -> Result<Expr>) -> Result<Vec<Sort>> {
    order
        .into_iter()
        .map(|key| {
            Ok(Sort {
                expr: own(key.expr)?,
                ..key
            })
        })
        .collect()
}

fn is_first(limit: &Limit) -> Result<bool> {
    Ok(matches!(
        (limit.get_skip_type()?, limit.get_fetch_type()?),
        (SkipType::Literal(0), FetchType::Literal(Some(1)))
    ))
}

/// A key of the subquery's rows, and its name.
type Key = (Expr, String);

/// The keys of a pulled subquery, and the conditions that compare them with columns of the outer query. `None`: it has
/// other conditions.
fn keys(pulled: &Pulled, outer: &DFSchema, names: &Names) -> Result<Option<(Vec<Key>, Vec<Expr>)>> {
    let (mut keys, mut conditions) = (Vec::new(), Vec::new());
    for condition in pulled.conditions.iter().flat_map(split_conjunction) {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = condition
        else {
            return Ok(None);
        };
        let (key, value) = match (left.contains_outer(), right.contains_outer()) {
            (false, true) => (left, right),
            (true, false) => (right, left),
            _ => return Ok(None),
        };
        let value = resolved(value.as_ref().clone(), outer)?;
        let is_own = !key.column_refs().is_empty() && !value.contains_outer();
        let is_outer = value.column_refs().into_iter().all(|column| outer.has_column(column));
        if !is_own || !is_outer || key.is_volatile() {
            return Ok(None);
        }
        let name = match keys.iter().find(|(known, _)| known == key.as_ref()) {
            Some((_, name)) => String::clone(name),
            None => {
                keys.push((key.as_ref().clone(), names.fresh()));
                keys[keys.len() - 1].1.clone()
            }
        };
        conditions.push(ident(name).eq(value));
    }
    Ok((!keys.is_empty()).then_some((keys, conditions)))
}
