//! `l ASOF JOIN r ON l.k = r.k AND l.t >= r.t`: each row of `l` with the row of `r` that comes last before it.
//!
//! 1. The rows of `r` get numbers in the order of `t`, for each `k`.
//! 2. The rows of both sides are sorted together. The greatest number so far, at a row of `l`, is that of its partner.
//! 3. An equality join over `k` and the number finds the partner's columns.
//!
//! So the time is that of sorting, however many rows have one `k`. With `<=` and `<`, the partner is the first row of
//! `r` that comes after. Rows without `t` or `k` have no partner.

use std::ops::Not;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::max_udaf;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{BinaryExpr, Sort, WindowFunction};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlannerContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowFunctionDefinition, cast, lit, when,
};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Join, JoinConstraint, JoinOperator, TableAlias, TableFactor, TableWithJoins, Value,
};

/// What stands in the place of a match condition in `ASOF LEFT JOIN t ON …`.
pub(crate) const LEFT: &str = "left";
/// The same in `ASOF JOIN t ON …`.
pub(crate) const INNER: &str = "inner";

/// Names of columns between the steps.
const TIME: &str = "asof.time";
const SIDE: &str = "asof.side";
const NUMBER: &str = "asof.number";
const PARTNER: &str = "asof.partner";

/// Whether the last of these joins is one.
pub(super) fn is_one(joins: &TableWithJoins) -> bool {
    let last = joins.joins.last();
    last.is_some_and(|join| matches!(join.join_operator, JoinOperator::AsOf { .. }))
}

/// What the two sides compare.
struct Comparison {
    /// Of equal values.
    keys: Vec<(Expr, Expr)>,
    times: (Expr, Expr),
    operator: Operator,
}

/// The plan of joins of which the last is one.
///
/// # Errors
/// If the condition is not made of equalities and one inequality between the sides.
pub(super) fn plan(
    mut joins: TableWithJoins,
    alias: Option<TableAlias>,
    context: &mut dyn RelationPlannerContext,
) -> Result<PlannedRelation> {
    let Some(Join {
        relation,
        join_operator: JoinOperator::AsOf {
            match_condition,
            constraint,
        },
        ..
    }) = joins.joins.pop()
    else {
        return plan_err!("this is no ASOF JOIN");
    };
    let left = match joins.joins.is_empty() {
        true => context.plan(joins.relation)?,
        false => context.plan(TableFactor::NestedJoin {
            table_with_joins: Box::new(joins),
            alias: None,
        })?,
    };
    let right = context.plan(relation)?;
    // With a match condition, rows without a partner stay, as in Snowflake.
    let is_left = !is_text(&match_condition, INNER);
    let mut hidden = Vec::new();
    let mut conditions = Vec::new();
    if !is_text(&match_condition, INNER) && !is_text(&match_condition, LEFT) {
        conditions.push(match_condition);
    }
    let both = left.schema().join(right.schema())?;
    let mut planned = Vec::new();
    match constraint {
        JoinConstraint::On(condition) => conditions.push(condition),
        JoinConstraint::Using(names) => {
            let count = names.len();
            for (number, name) in names.into_iter().enumerate() {
                let name = name.0.last().and_then(|part| part.as_ident()).cloned();
                let name = name.ok_or_else(|| plan_datafusion_err!("ASOF JOIN: USING takes names of columns"))?;
                let name = context.normalize_ident(name);
                let [one, other] = [&left, &right].map(|side| named(side.schema(), &name));
                let (one, other) = (one?, other?);
                hidden.push(other.clone());
                let operator = if number + 1 == count {
                    Operator::GtEq
                } else {
                    Operator::Eq
                };
                planned.push(Expr::BinaryExpr(BinaryExpr::new(
                    Box::new(Expr::Column(one)),
                    operator,
                    Box::new(Expr::Column(other)),
                )));
            }
        }
        JoinConstraint::None | JoinConstraint::Natural => {}
    }
    for condition in conditions {
        planned.extend(split_conjunction_owned(context.sql_to_expr(condition, &both)?));
    }
    let comparison = Comparison::of(planned, left.schema(), right.schema())?;
    let join_type = if is_left { JoinType::Left } else { JoinType::Inner };
    let plan = comparison.join(left, right, join_type, &hidden)?;
    Ok(PlannedRelation::new(plan, alias))
}

fn is_text(expr: &SqlExpr, text: &str) -> bool {
    matches!(expr, SqlExpr::Value(value) if value.value == Value::SingleQuotedString(text.to_owned()))
}

/// The only column of a name.
fn named(schema: &DFSchema, name: &str) -> Result<Column> {
    let all = schema.columns();
    let mut found = all.into_iter().filter(|column| column.name.eq_ignore_ascii_case(name));
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => plan_err!("ASOF JOIN: USING ({name}): a side has no such column"),
        _ => plan_err!("ASOF JOIN: USING ({name}): a side has several such columns"),
    }
}

impl Comparison {
    fn of(conditions: Vec<Expr>, left: &DFSchema, right: &DFSchema) -> Result<Self> {
        let is_of = |expr: &Expr, schema: &DFSchema| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
        };
        let (mut keys, mut inequality) = (Vec::new(), None);
        for condition in conditions {
            let text = condition.to_string();
            let refused = || {
                plan_err!(
                    "ASOF JOIN: {text}: the condition is to be equalities and one of >=, >, <=, < between the two \
                     sides; write other conditions in WHERE or in a subquery"
                )
            };
            let Expr::BinaryExpr(BinaryExpr {
                left: one,
                op,
                right: other,
            }) = condition
            else {
                return refused();
            };
            let (one, op, other) = match (
                is_of(&one, left) && is_of(&other, right),
                is_of(&one, right) && is_of(&other, left),
            ) {
                (true, _) => (*one, op, *other),
                (false, true) => match op.swap() {
                    Some(op) => (*other, op, *one),
                    None => return refused(),
                },
                (false, false) => return refused(),
            };
            let coerced = {
                let types = (one.get_type(left)?, other.get_type(right)?);
                comparison_coercion(&types.0, &types.1).ok_or_else(|| {
                    plan_datafusion_err!("ASOF JOIN: {text}: {} and {} do not compare", types.0, types.1)
                })?
            };
            let pair = (as_type(one, &coerced, left)?, as_type(other, &coerced, right)?);
            match op {
                Operator::Eq => keys.push(pair),
                Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt if inequality.is_none() => {
                    inequality = Some((pair, op));
                }
                _ => return refused(),
            }
        }
        let Some((times, operator)) = inequality else {
            return plan_err!("ASOF JOIN: the condition needs one of >=, >, <=, < between the two sides");
        };
        Ok(Self { keys, times, operator })
    }

    fn join(
        self,
        left: LogicalPlan,
        right: LogicalPlan,
        join_type: JoinType,
        hidden: &[Column],
    ) -> Result<LogicalPlan> {
        let is_ascending = matches!(self.operator, Operator::GtEq | Operator::Gt);
        // Of equal times, the rows of the right come first if they may be partners.
        let right_side = i32::from(!matches!(self.operator, Operator::GtEq | Operator::LtEq)) * 2;
        let left_side = 1;
        let key_names: Vec<String> = (0..self.keys.len()).map(|key| format!("asof.key{key}")).collect();
        let keys: Vec<Expr> = key_names.iter().map(|name| column(name)).collect();
        let by_time = || Sort::new(column(TIME), is_ascending, false);
        let (left_columns, right_columns) = (left.schema().columns(), right.schema().columns());
        let left_types: Vec<DataType> = left
            .schema()
            .fields()
            .iter()
            .map(|field| field.data_type().clone())
            .collect();

        // The right rows that may be partners, with their numbers.
        let mut outputs: Vec<Expr> = named_by_place(&right_columns, "asof.right");
        outputs.extend(
            self.keys
                .iter()
                .zip(&key_names)
                .map(|((_, key), name)| key.clone().alias(name)),
        );
        outputs.push(self.times.1.alias(TIME));
        let mut candidates = LogicalPlanBuilder::from(right).project(outputs)?;
        for name in key_names.iter().map(String::as_str).chain([TIME]) {
            candidates = candidates.filter(column(name).is_not_null())?;
        }
        let number = row_number()
            .partition_by(keys.clone())
            .order_by(vec![by_time()])
            .build()?;
        let candidates = candidates.window([number.alias(NUMBER)])?.build()?;

        // The rows of both sides.
        let mut outputs = named_by_place(&left_columns, "asof.left");
        outputs.extend(
            self.keys
                .iter()
                .zip(&key_names)
                .map(|((key, _), name)| key.clone().alias(name)),
        );
        outputs.push(self.times.0.alias(TIME));
        outputs.push(lit(left_side).alias(SIDE));
        outputs.push(lit(ScalarValue::UInt64(None)).alias(NUMBER));
        let rows = LogicalPlanBuilder::from(left).project(outputs)?;
        let mut outputs = Vec::new();
        for (place, data_type) in left_types.iter().enumerate() {
            let none = ScalarValue::try_new_null(data_type)?;
            outputs.push(lit(none).alias(format!("asof.left{place}")));
        }
        outputs.extend(keys.iter().cloned());
        outputs.extend([column(TIME), lit(right_side).alias(SIDE), column(NUMBER)]);
        let others = LogicalPlanBuilder::from(candidates.clone()).project(outputs)?.build()?;
        let greatest = WindowFunctionDefinition::AggregateUDF(max_udaf());
        let greatest = Expr::from(WindowFunction::new(greatest, vec![column(NUMBER)]))
            .partition_by(keys.clone())
            .order_by(vec![by_time(), Sort::new(column(SIDE), true, false)])
            .window_frame(WindowFrame::new_bounds(
                WindowFrameUnits::Rows,
                WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
                WindowFrameBound::CurrentRow,
            ))
            .build()?;
        let rows = rows.union(others)?.window([greatest.alias(PARTNER)])?;
        let rows = rows.filter(column(SIDE).eq(lit(left_side)))?;
        let mut outputs: Vec<Expr> = (0..left_columns.len())
            .map(|place| column(&format!("asof.left{place}")))
            .collect();
        outputs.extend(keys.iter().cloned());
        let partner = when(column(TIME).is_null().not(), column(PARTNER)).end()?;
        outputs.push(partner.alias(PARTNER));
        let rows = rows.project(outputs)?.alias("asof.rows")?;

        // Their partners.
        let candidates = LogicalPlanBuilder::from(candidates).alias("asof.candidates")?.build()?;
        let of = |table: &str, name: &str| Column::new(Some(table), name);
        let mut pairs: (Vec<Column>, Vec<Column>) = Default::default();
        for name in &key_names {
            pairs.0.push(of("asof.rows", name));
            pairs.1.push(of("asof.candidates", name));
        }
        pairs.0.push(of("asof.rows", PARTNER));
        pairs.1.push(of("asof.candidates", NUMBER));
        let joined = rows.join(candidates, join_type, pairs, None)?;
        let back = |table: &'static str, prefix: &'static str, columns: Vec<Column>| {
            let columns = columns.into_iter().enumerate();
            columns.map(move |(place, column)| {
                let from = Expr::Column(Column::new(Some(table), format!("{prefix}{place}")));
                (from.alias_qualified(column.relation.clone(), &column.name), column)
            })
        };
        let mut outputs: Vec<Expr> = back("asof.rows", "asof.left", left_columns)
            .map(|(output, _)| output)
            .collect();
        let right = back("asof.candidates", "asof.right", right_columns);
        outputs.extend(
            right
                .filter(|(_, column)| !hidden.contains(column))
                .map(|(output, _)| output),
        );
        joined.project(outputs)?.build()
    }
}

/// A value as the type in which both sides compare. Zeros have one sign, so that they are one key.
fn as_type(value: Expr, data_type: &DataType, schema: &DFSchema) -> Result<Expr> {
    let value = match value.get_type(schema)? == *data_type {
        true => value,
        false => cast(value, data_type.clone()),
    };
    Ok(match data_type {
        DataType::Float64 => value + lit(0.0_f64),
        DataType::Float32 => value + lit(0.0_f32),
        DataType::Float16 => cast(value, DataType::Float32) + lit(0.0_f32),
        _ => value,
    })
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// The columns, each named by its place.
fn named_by_place(columns: &[Column], prefix: &str) -> Vec<Expr> {
    let columns = columns.iter().enumerate();
    columns
        .map(|(place, column)| Expr::Column(column.clone()).alias(format!("{prefix}{place}")))
        .collect()
}
