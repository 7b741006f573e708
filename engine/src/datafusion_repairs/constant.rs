//! [`Constant`]: a constant of numbers, and its exact value.

use arrow::datatypes::i256;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator};

use super::exact_number::ExactNumber;
use super::written_numbers::written;

/// A literal of a number, or sums and products of literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Constant {
    pub(super) value: ExactNumber,
    /// Whether all its literals are integers, so that SQL divides as integers.
    is_integer: bool,
}

impl Constant {
    /// The value of an expression; `None`: the expression is no such constant.
    pub(super) fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Literal(value, _) => Self::of_scalar(value),
            Expr::ScalarFunction(_) => written(expr).map(|value| Self {
                value,
                is_integer: false,
            }),
            Expr::Alias(alias) => Self::of(&alias.expr),
            Expr::Negative(inner) => Self::of(inner).map(|constant| Self {
                value: constant.value.negated(),
                ..constant
            }),
            Expr::BinaryExpr(binary) => {
                let (left, right) = (Self::of(&binary.left)?, Self::of(&binary.right)?);
                let is_integer = left.is_integer && right.is_integer;
                let value = match binary.op {
                    Operator::Plus => left.value.plus(&right.value),
                    Operator::Minus => left.value.plus(&right.value.negated()),
                    Operator::Multiply => left.value.times(&right.value),
                    Operator::Divide if !is_integer => left.value.over(&right.value),
                    _ => None,
                }?;
                // Beyond BIGINT, sums of integers wrap around.
                let is_kept = !is_integer || value.widths().0 <= 18;
                is_kept.then_some(Self { value, is_integer })
            }
            _ => None,
        }
    }

    fn of_scalar(value: &ScalarValue) -> Option<Self> {
        use ScalarValue::{
            Decimal32, Decimal64, Decimal128, Decimal256, Float32, Float64, Int8, Int16, Int32, Int64, UInt8, UInt16,
            UInt32, UInt64,
        };
        let (value, is_integer) = match value {
            Int8(Some(value)) => (i128::from(*value), true),
            Int16(Some(value)) => (i128::from(*value), true),
            Int32(Some(value)) => (i128::from(*value), true),
            Int64(Some(value)) => (i128::from(*value), true),
            UInt8(Some(value)) => (i128::from(*value), true),
            UInt16(Some(value)) => (i128::from(*value), true),
            UInt32(Some(value)) => (i128::from(*value), true),
            UInt64(Some(value)) => (i128::from(*value), true),
            Float32(Some(value)) => {
                return ExactNumber::of_float(*value).map(|value| Self {
                    value,
                    is_integer: false,
                });
            }
            Float64(Some(value)) => {
                return ExactNumber::of_double(*value).map(|value| Self {
                    value,
                    is_integer: false,
                });
            }
            Decimal32(Some(value), _, scale) => return Some(Self::of_decimal(i256::from(*value), *scale)),
            Decimal64(Some(value), _, scale) => return Some(Self::of_decimal(i256::from(*value), *scale)),
            Decimal128(Some(value), _, scale) => return Some(Self::of_decimal(i256::from_i128(*value), *scale)),
            Decimal256(Some(value), _, scale) => return Some(Self::of_decimal(*value, *scale)),
            _ => return None,
        };
        Some(Self {
            value: ExactNumber::of_decimal(i256::from_i128(value), 0),
            is_integer,
        })
    }

    fn of_decimal(mantissa: i256, scale: i8) -> Self {
        Self {
            value: ExactNumber::of_decimal(mantissa, i64::from(scale)),
            is_integer: false,
        }
    }
}

/// The number that a literal of text stands for beside numbers.
pub(super) fn of_text(expr: &Expr) -> Option<ExactNumber> {
    match expr {
        Expr::Literal(value, _) => ExactNumber::parse(value.try_as_str()??),
        _ => None,
    }
}
