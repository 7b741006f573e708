//! Zeros of both signs as one value, in logical expressions.
//!
//! SQL has one zero. Floats have two, and DataFusion compares them as equal, but sorts them, and looks them up in sets,
//! by their bits. `x + 0.0` is `x` with one zero: under IEEE 754, `-0.0 + 0.0` is `0.0`.

use arrow::datatypes::DataType;
use datafusion::common::utils::normalize_float_zero_scalar;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, binary_expr, lit};

/// The type of an expression of floats. `None`: it has no `-0.0` for certain, because it is a cast of exact numbers.
pub(super) fn float_type(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    if let Expr::Cast(cast) = expr
        && (cast.expr.get_type(schema)).is_ok_and(|inner| inner.is_integer() || inner.is_decimal())
    {
        return None;
    }
    expr.get_type(schema).ok().filter(DataType::is_floating)
}

/// The value of a literal of floats, below casts and signs.
pub(super) fn constant(expr: &Expr) -> Option<ScalarValue> {
    let value = literal(expr)?;
    value.data_type().is_floating().then_some(value)
}

fn literal(expr: &Expr) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value.clone()),
        Expr::Cast(cast) => literal(&cast.expr)?.cast_to(cast.field.data_type()).ok(),
        Expr::Negative(inner) => literal(inner)?.arithmetic_negate().ok(),
        _ => None,
    }
}

/// True for a zero of either sign.
pub(super) fn is_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => f32::from(*value) == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    }
}

/// Replaces a constant `-0.0` by `0.0`. Returns whether it was one.
pub(super) fn drop_sign(expr: &mut Expr) -> bool {
    let Some(value) = constant(expr) else {
        return false;
    };
    let positive = normalize_float_zero_scalar(value.clone());
    let is_changed = positive != value;
    if is_changed {
        *expr = lit(positive);
    }
    is_changed
}

/// Replaces an expression of type `float` by one whose values have one zero. Returns whether it was another.
pub(super) fn give_one_zero(expr: &mut Expr, float: &DataType) -> bool {
    if constant(expr).is_some() {
        return drop_sign(expr);
    }
    if has_one_zero(expr) {
        return false;
    }
    let Ok(zero) = ScalarValue::new_zero(float) else {
        return false;
    };
    *expr = binary_expr(std::mem::take(expr), Operator::Plus, lit(zero));
    true
}

/// True if no value of the expression is `-0.0`, for certain.
fn has_one_zero(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => {
            let zero = constant(&binary.right).filter(is_zero);
            binary.op == Operator::Plus && zero.is_some_and(|zero| is_positive(&zero))
        }
        Expr::Alias(alias) => has_one_zero(&alias.expr),
        _ => false,
    }
}

fn is_positive(zero: &ScalarValue) -> bool {
    normalize_float_zero_scalar(zero.clone()) == *zero
}
