//! [`is_fallible`]: whether an expression may fail on a row, so that conditions before it may guard it.

use arrow::datatypes::{DataType, Schema};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_plan::PhysicalExpr;

/// Whether the evaluation of `expr` over `schema` may fail, by its form: casts that may leave a type's range, division,
/// arithmetic that is checked, and functions.
pub(crate) fn is_fallible(expr: &dyn PhysicalExpr, schema: &Schema) -> bool {
    if expr.is::<DynamicFilterPhysicalExpr>() {
        return false; // values of columns in lists and ranges
    }
    let alone = if let Some(operation) = expr.downcast_ref::<BinaryExpr>() {
        is_fallible_operation(operation, schema)
    } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        from.map_or(true, |from| is_fallible_cast(&from, cast.cast_type()))
    } else {
        !(expr.is::<Column>() || expr.is::<Literal>() || is_test(expr))
    };
    alone
        || expr
            .children()
            .into_iter()
            .any(|child| is_fallible(child.as_ref(), schema))
}

/// Whether the expression has a value for all values of its children.
fn is_test(expr: &dyn PhysicalExpr) -> bool {
    expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<LikeExpr>()
        || expr.is::<CaseExpr>()
        || expr.is::<TryCastExpr>()
        || expr.is::<NegativeExpr>()
}

fn is_fallible_operation(operation: &BinaryExpr, schema: &Schema) -> bool {
    let both = |wraps: fn(&DataType) -> bool| {
        let operands = [operation.left(), operation.right()];
        operands
            .iter()
            .all(|operand| operand.data_type(schema).is_ok_and(|data_type| wraps(&data_type)))
    };
    match operation.op() {
        Operator::Plus | Operator::Minus | Operator::Multiply => {
            !both(|data_type| data_type.is_integer() || data_type.is_floating())
        }
        Operator::Divide | Operator::Modulo => !both(DataType::is_floating),
        Operator::RegexMatch | Operator::RegexIMatch | Operator::RegexNotMatch | Operator::RegexNotIMatch => {
            !operation.right().is::<Literal>()
        }
        _ => false,
    }
}

fn is_fallible_cast(from: &DataType, to: &DataType) -> bool {
    let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let from = match from {
        DataType::Dictionary(_, values) => values,
        other => other,
    };
    let widens = CastExpr::check_bigger_cast(to, from)
        || is_text(from) && is_text(to)
        || (from.is_integer() || from.is_floating()) && to.is_floating();
    !widens
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{Field, TimeUnit};
    use datafusion::common::DFSchema;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn casts_division_checked_arithmetic_and_functions_may_fail() {
        let fields = [
            ("i", DataType::Int32),
            ("l", DataType::Int64),
            ("x", DataType::Float64),
            ("d", DataType::Decimal128(20, 2)),
            ("s", DataType::Utf8),
            ("day", DataType::Date32),
            ("t", DataType::Timestamp(TimeUnit::Nanosecond, None)),
        ];
        let schema = Schema::new(
            fields
                .map(|(name, data_type)| Field::new(name, data_type, true))
                .to_vec(),
        );
        let df_schema = DFSchema::try_from(schema.clone()).unwrap();
        let context = SessionContext::new();
        let fallible = |text: &str| {
            let state = context.state();
            let expr = state.create_logical_expr(text, &df_schema).unwrap();
            let expr: Arc<dyn PhysicalExpr> = state.create_physical_expr(expr, &df_schema).unwrap();
            is_fallible(expr.as_ref(), &schema)
        };
        for text in [
            "i > 5 AND NOT (s LIKE '%a' OR l IS NULL)",
            "i = l",
            "x + i * 2 > 1.5",
            "x / 3 < 1",
            "-i IN (1, 2, 3)",
            "TRY_CAST(s AS INT) = 1",
            "s ~ 'a+'",
            "CASE WHEN i > 3 THEN s = 'a' ELSE x > 1 END",
        ] {
            assert!(!fallible(text), "{text}");
        }
        for text in [
            "CAST(s AS INT) = 1",
            "CAST(l AS INT) = 1",
            "CAST(x AS BIGINT) = 1",
            "CAST(s AS DATE) = day",
            "100 / i > 3",
            "l % i = 0",
            "d * d > 5",
            "CASE WHEN i > 3 THEN 1 / i ELSE 0 END = 1",
            "length(s) > 3",
            "s ~ s",
            "day - INTERVAL '1' month > day",
            "CAST(day AS TIMESTAMP) > t",
            "i > 3 OR CAST(s AS INT) = 1",
        ] {
            assert!(fallible(text), "{text}");
        }
    }
}
