//! [`DateComparisons`]: DATE beside TIMESTAMP.
//!
//! DataFusion compares them in nanoseconds, which 9999-12-31 does not fit. The rule compares a date instead:
//!
//! - with a literal: among the dates, so that statistics exclude rows;
//! - with timestamps of another unit than nanoseconds: in that unit;
//! - with timestamps of nanoseconds: dates that do not fit are before or after all of them.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, NullEquality, Result, ScalarValue};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use super::comparison::rewrite_comparison;
use super::expressions::{columns_of, rewrite_expressions};
use super::place::{Place, binary, exchanged};

const DAY_NS: i128 = 86_400_000_000_000;
/// The last day whose start is a timestamp of nanoseconds; the first day is as far before 1970.
const LAST_DAY: i32 = 106_751;
const NANOSECONDS: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// The rule.
#[derive(Debug)]
pub(super) struct DateComparisons;

impl AnalyzerRule for DateComparisons {
    fn name(&self) -> &str {
        "date_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(joined)?.data;
        rewrite_expressions(plan, |expr, schema| rewrite_comparison(expr, schema, pair))
    }
}

/// The rewrite of one comparison.
fn pair(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(None); // DataFusion's error tells why
    };
    if let Some(compared) = compare(left, &left_type, op, right, &right_type) {
        return Ok(Some(compared));
    }
    Ok(exchanged(op).and_then(|op| compare(right, &right_type, op, left, &left_type)))
}

/// `date op timestamp`.
fn compare(date: &Expr, date_type: &DataType, op: Operator, other: &Expr, other_type: &DataType) -> Option<Expr> {
    let DataType::Timestamp(unit, zone) = other_type else {
        return None;
    };
    let timestamp = || match zone {
        Some(_) => cast(other.clone(), DataType::Timestamp(*unit, None)),
        None => other.clone(),
    };
    match (date_type, unit) {
        (DataType::Date64, _) => {
            let date = cast(date.clone(), DataType::Timestamp(TimeUnit::Millisecond, None));
            Some(binary(date, op, timestamp()))
        }
        (DataType::Date32, _) if zone.is_none() && is_literal(other) => place(other)?
            .map(|day| ScalarValue::Date32(Some(day)))
            .compare(date.clone(), op),
        (DataType::Date32, TimeUnit::Nanosecond) => {
            let far = |place: Place<ScalarValue>| place.compare(timestamp(), exchanged(op)?).map(Box::new);
            let branches = vec![
                (Box::new(date.clone().gt(day(LAST_DAY))), far(Place::Above)?),
                (Box::new(date.clone().lt(day(-LAST_DAY))), far(Place::Below)?),
            ];
            let near = binary(nanoseconds(date.clone()), op, timestamp());
            Some(Expr::Case(Case::new(None, branches, Some(Box::new(near)))))
        }
        (DataType::Date32, unit) => {
            let date = cast(date.clone(), DataType::Timestamp(*unit, None));
            Some(binary(date, op, timestamp()))
        }
        _ => None,
    }
}

/// A date in nanoseconds, NULL if it does not fit. The cast is around the CASE: DataFusion evaluates casts of
/// constants, and parts of conditions, also where the CASE does not need them.
fn nanoseconds(date: Expr) -> Expr {
    let is_near = date.clone().between(day(-LAST_DAY), day(LAST_DAY));
    let near = Expr::Case(Case::new(None, vec![(Box::new(is_near), Box::new(date))], None));
    cast(near, NANOSECONDS)
}

fn day(day: i32) -> Expr {
    lit(ScalarValue::Date32(Some(day)))
}

/// Whether an expression is a literal, or the cast of a literal of text as `TIMESTAMP '…'` makes it.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::Cast(cast) => matches!(&*cast.expr, Expr::Literal(value, _) if value.data_type().is_string()),
        _ => false,
    }
}

/// The place of a literal among dates; `None`: NULL, or no timestamp.
fn place(literal: &Expr) -> Option<Place<i32>> {
    let (value, scale) = match literal {
        Expr::Literal(value, _) => instant(value)?,
        Expr::Cast(cast) => match &*cast.expr {
            Expr::Literal(text, _) => {
                let units = [TimeUnit::Nanosecond, TimeUnit::Microsecond];
                let mut read = units
                    .into_iter()
                    .map(|unit| text.cast_to(&DataType::Timestamp(unit, None)));
                instant(&read.find_map(Result::ok)?)?
            }
            _ => return None,
        },
        _ => return None,
    };
    let nanoseconds = i128::from(value) * scale;
    let day = i32::try_from(nanoseconds.div_euclid(DAY_NS)).ok();
    Some(match (day, nanoseconds.rem_euclid(DAY_NS)) {
        (Some(day), 0) => Place::Exact(day),
        (Some(day), _) => Place::Between(day),
        (None, _) if value < 0 => Place::Below,
        (None, _) => Place::Above,
    })
}

/// A timestamp, and the nanoseconds of its unit.
fn instant(value: &ScalarValue) -> Option<(i64, i128)> {
    use ScalarValue::{TimestampMicrosecond, TimestampMillisecond, TimestampNanosecond, TimestampSecond};
    Some(match value {
        TimestampSecond(Some(value), _) => (*value, 1_000_000_000),
        TimestampMillisecond(Some(value), _) => (*value, 1_000_000),
        TimestampMicrosecond(Some(value), _) => (*value, 1_000),
        TimestampNanosecond(Some(value), _) => (*value, 1),
        _ => return None,
    })
}

/// Equalities of a join stay equalities of two expressions, by whose values rows are found. A date that does not fit
/// nanoseconds equals none and becomes NULL.
fn joined(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else {
        return Ok(Transformed::no(plan));
    };
    if join.null_equality != NullEquality::NullEqualsNothing {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        is_changed |= as_nanoseconds(left, join.left.schema(), right, join.right.schema());
    }
    if let Some(filter) = join.filter.take() {
        let schema = columns_of(&LogicalPlan::Join(join.clone()))?;
        let mut conditions = split_conjunction_owned(filter);
        for condition in &mut conditions {
            if let Expr::BinaryExpr(equality) = condition
                && equality.op == Operator::Eq
            {
                is_changed |= as_nanoseconds(&mut equality.left, &schema, &mut equality.right, &schema);
            }
        }
        join.filter = conjunction(conditions);
    }
    Ok(Transformed::new_transformed(LogicalPlan::Join(join), is_changed))
}

/// Makes nanoseconds of a date beside timestamps of nanoseconds. Returns whether it did.
fn as_nanoseconds(left: &mut Expr, left_schema: &DFSchema, right: &mut Expr, right_schema: &DFSchema) -> bool {
    let date = match (left.get_type(left_schema), right.get_type(right_schema)) {
        (Ok(DataType::Date32), Ok(other)) if other == NANOSECONDS && !is_literal(right) => left,
        (Ok(other), Ok(DataType::Date32)) if other == NANOSECONDS && !is_literal(left) => right,
        _ => return false,
    };
    *date = nanoseconds(date.clone());
    true
}
