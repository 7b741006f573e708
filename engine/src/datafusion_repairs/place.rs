//! [`Place`]: where a constant lies among the values of a type, and comparisons of an expression with the constant.
//!
//! A comparison with a constant between two values of the type is one with the lower value: `d < 1.005` is `d <= 1.00`
//! for DECIMAL(10, 2). So no value is cast, and statistics exclude rows.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};

/// The place of a constant among ordered values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place<T> {
    /// The constant is this value.
    Exact(T),
    /// The constant is greater than this value and less than the next.
    Between(T),
    /// The constant is less than all values.
    Below,
    /// The constant is greater than all values.
    Above,
}

impl<T> Place<T> {
    pub(super) fn map<U>(self, value: impl FnOnce(T) -> U) -> Place<U> {
        match self {
            Self::Exact(exact) => Place::Exact(value(exact)),
            Self::Between(lower) => Place::Between(value(lower)),
            Self::Below => Place::Below,
            Self::Above => Place::Above,
        }
    }
}

impl Place<ScalarValue> {
    /// `expr op constant`. `None`: `op` is no comparison.
    pub(super) fn compare(self, expr: Expr, op: Operator) -> Option<Expr> {
        use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
        let is_less = matches!(op, Lt | LtEq);
        Some(match (self, op) {
            (Self::Exact(value), _) => binary(expr, op, lit(value)),
            (Self::Between(lower), Lt | LtEq) => binary(expr, LtEq, lit(lower)),
            (Self::Between(lower), Gt | GtEq) => binary(expr, Gt, lit(lower)),
            (_, Eq) => never(expr),
            (_, NotEq) => always(expr),
            (_, IsDistinctFrom) => lit(true),
            (_, IsNotDistinctFrom) => lit(false),
            (Self::Above, Lt | LtEq | Gt | GtEq) if is_less => always(expr),
            (Self::Below, Lt | LtEq | Gt | GtEq) if !is_less => always(expr),
            (_, Lt | LtEq | Gt | GtEq) => never(expr),
            _ => return None,
        })
    }
}

/// `left op right`.
pub(super) fn binary(left: Expr, op: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// False, and NULL if `expr` is NULL.
pub(super) fn never(expr: Expr) -> Expr {
    expr.is_null().and(lit(ScalarValue::Boolean(None)))
}

/// True, and NULL if `expr` is NULL.
pub(super) fn always(expr: Expr) -> Expr {
    expr.is_not_null().or(lit(ScalarValue::Boolean(None)))
}

/// The operator of the comparison with exchanged sides.
pub(super) fn exchanged(op: Operator) -> Option<Operator> {
    op.swap()
}
