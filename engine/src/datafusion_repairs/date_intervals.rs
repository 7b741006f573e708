//! [`DateIntervals`]: `DATE '2020-01-01' + INTERVAL '90 minutes'` is a timestamp, as in PostgreSQL.
//!
//! DataFusion gives a date and drops the minutes. A date with whole days, months or years stays a date.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

const DAY_NANOS: i64 = 86_400_000_000_000;
const DAY_MILLIS: i32 = 86_400_000;

/// The repair, as a planner of operators.
#[derive(Debug)]
pub(super) struct DateIntervals;

impl ExprPlanner for DateIntervals {
    fn plan_binary_op(&self, mut raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if matches!(raw.op, BinaryOperator::Plus | BinaryOperator::Minus) {
            let RawBinaryExpr { left, right, .. } = &mut raw;
            if is_date(left, schema) && has_time_of_day(right, schema) {
                *left = as_timestamp(left);
            } else if is_date(right, schema) && has_time_of_day(left, schema) {
                *right = as_timestamp(right);
            }
        }
        Ok(PlannerResult::Original(raw))
    }
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Date32))
}

fn as_timestamp(expr: &Expr) -> Expr {
    cast(expr.clone(), DataType::Timestamp(TimeUnit::Microsecond, None))
}

/// Whether an interval may have a part of a day.
fn has_time_of_day(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => interval.nanoseconds % DAY_NANOS != 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => interval.milliseconds % DAY_MILLIS != 0,
        Expr::Literal(..) => false,
        other => matches!(
            other.get_type(schema),
            Ok(DataType::Interval(unit)) if unit != arrow::datatypes::IntervalUnit::YearMonth
        ),
    }
}
