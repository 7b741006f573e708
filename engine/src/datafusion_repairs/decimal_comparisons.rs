//! [`DecimalComparisons`]: DECIMAL beside literals and other numbers (apache/datafusion#4072, #12817).
//!
//! DataFusion makes a DOUBLE of a literal with a point, and compares DECIMAL and DOUBLE as DECIMAL(38, 15). Its cast
//! multiplies in floating point, so that `d = 10128677.64` finds nothing. The rule compares instead:
//!
//! - DECIMAL with a constant of literals: exactly, among the values of the DECIMAL's own type;
//! - DECIMAL with another FLOAT or DOUBLE: as DOUBLE, as PostgreSQL, DuckDB and Spark do;
//! - DECIMAL with an integer or with another DECIMAL, if DataFusion's type for both has too few digits: with more.

use arrow::datatypes::{DataType, i256};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_schema::cast_subquery;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, cast, lit};
use datafusion::optimizer::AnalyzerRule;

use super::comparison::rewrite_comparison;
use super::constant::{Constant, of_text};
use super::expressions::rewrite_expressions;
use super::place::{binary, exchanged};

/// Most digits of a DECIMAL whose cast to DOUBLE rounds once: its mantissa and its power of ten are DOUBLEs.
const EXACT_DIGITS: u8 = 15;
/// Most digits of DECIMAL in 128 and in 256 bits.
const MAX_DIGITS: [u8; 2] = [38, 76];

/// The rule.
#[derive(Debug)]
pub(super) struct DecimalComparisons;

impl AnalyzerRule for DecimalComparisons {
    fn name(&self) -> &str {
        "decimal_comparisons"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = rewrite_expressions(plan, |expr, schema| match expr {
            Expr::InSubquery(membership) => in_subquery(membership, schema),
            Expr::ScalarFunction(call) if call.func.name() == "nullif" && call.args.len() == 2 => {
                null_if(Expr::ScalarFunction(call), schema)
            }
            expr => rewrite_comparison(expr, schema, pair),
        })?;
        Ok(plan.transform_up_with_subqueries(join_keys)?.data)
    }
}

/// Precision and scale of a DECIMAL, also in a dictionary.
pub(super) fn parts(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        DataType::Dictionary(_, values) => parts(values),
        _ => None,
    }
}

/// The value of a DECIMAL type, which has the mantissa's digits.
pub(super) fn scalar(mantissa: i256, data_type: &DataType) -> Option<ScalarValue> {
    Some(match data_type {
        DataType::Decimal32(precision, scale) => {
            ScalarValue::Decimal32(Some(i32::try_from(mantissa.to_i128()?).ok()?), *precision, *scale)
        }
        DataType::Decimal64(precision, scale) => {
            ScalarValue::Decimal64(Some(i64::try_from(mantissa.to_i128()?).ok()?), *precision, *scale)
        }
        DataType::Decimal128(precision, scale) => {
            ScalarValue::Decimal128(Some(mantissa.to_i128()?), *precision, *scale)
        }
        DataType::Decimal256(precision, scale) => ScalarValue::Decimal256(Some(mantissa), *precision, *scale),
        DataType::Dictionary(_, values) => scalar(mantissa, values)?,
        _ => return None,
    })
}

/// The rewrite of one comparison.
fn pair(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else {
        return Ok(None); // DataFusion's error tells why
    };
    if let Some(exact) = with_constant(left, &left_type, op, right, &right_type) {
        return Ok(Some(exact));
    }
    if let Some(op) = exchanged(op)
        && let Some(exact) = with_constant(right, &right_type, op, left, &left_type)
    {
        return Ok(Some(exact));
    }
    Ok(common_type(&left_type, &right_type).map(|common| {
        let left = converted(left.clone(), &left_type, &common);
        binary(left, op, converted(right.clone(), &right_type, &common))
    }))
}

/// `expr op constant` for a DECIMAL.
fn with_constant(expr: &Expr, data_type: &DataType, op: Operator, other: &Expr, other_type: &DataType) -> Option<Expr> {
    let (precision, scale) = parts(data_type)?;
    if other_type == data_type {
        return None;
    }
    let constant = match other_type.is_string() {
        true => of_text(other)?,
        false => Constant::of(other)?.value,
    };
    // Two constants of literals are left to their types.
    if matches!(expr, Expr::Literal(..)) && parts(other_type).is_some() {
        return None;
    }
    let place = constant.place(precision, scale);
    place
        .map(|mantissa| scalar(mantissa, data_type).unwrap_or(ScalarValue::Null))
        .compare(expr.clone(), op)
}

/// The type in which DECIMAL is compared with another number, if it is not DataFusion's.
fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    let (left, right) = (values_of(left), values_of(right));
    let number = |data_type: &DataType| parts(data_type).or_else(|| integer_parts(data_type));
    if parts(left).is_none() && parts(right).is_none() {
        return None;
    }
    if left.is_floating() || right.is_floating() {
        return Some(DataType::Float64);
    }
    let ((left_digits, left_scale), (right_digits, right_scale)) = (number(left)?, number(right)?);
    let before = |digits: u8, scale: i8| i16::from(digits) - i16::from(scale);
    let scale = left_scale.max(right_scale);
    let digits = before(left_digits, left_scale).max(before(right_digits, right_scale)) + i16::from(scale);
    let digits = u8::try_from(digits).ok()?.max(1);
    let datafusions = comparison_coercion(left, right);
    if datafusions.is_some_and(|common| parts(&common) == Some((digits, scale))) {
        return None;
    }
    Some(match digits {
        _ if digits <= MAX_DIGITS[0] && !is_256(left) && !is_256(right) => DataType::Decimal128(digits, scale),
        _ => DataType::Decimal256(digits.min(MAX_DIGITS[1]), scale),
    })
}

fn values_of(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        data_type => data_type,
    }
}

fn is_256(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal256(..))
}

fn integer_parts(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 | DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// An operand in the common type.
fn converted(expr: Expr, from: &DataType, to: &DataType) -> Expr {
    match parts(from) {
        _ if from == to => expr,
        // Arrow divides a rounded mantissa, which rounds twice. A text is rounded once.
        Some((precision, _)) if *to == DataType::Float64 && precision > EXACT_DIGITS => {
            cast(cast(expr, DataType::Utf8), DataType::Float64)
        }
        _ => cast(expr, to.clone()),
    }
}

/// `expr IN (SELECT …)`.
fn in_subquery(membership: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let values = membership.subquery.subquery.schema().field(0).data_type().clone();
    let Ok(data_type) = membership.expr.get_type(schema) else {
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    };
    let InSubquery {
        expr,
        subquery,
        negated,
    } = membership;
    if parts(&values).is_some()
        && data_type.is_floating()
        && let Some(literal) = decimal_literal(&expr)
    {
        let literal_type = literal.get_type(schema)?;
        let common = common_type(&literal_type, &values);
        let (expr, subquery) = match common {
            Some(common) => (cast(literal, common.clone()), cast_subquery(subquery, &common)?),
            None => (literal, subquery),
        };
        let membership = InSubquery::new(Box::new(expr), subquery, negated);
        return Ok(Transformed::yes(Expr::InSubquery(membership)));
    }
    let Some(common) = common_type(&data_type, &values) else {
        let membership = InSubquery::new(expr, subquery, negated);
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    };
    let mut subquery = subquery;
    if common == DataType::Float64 && parts(&values).is_some_and(|(precision, _)| precision > EXACT_DIGITS) {
        subquery = cast_subquery(subquery, &DataType::Utf8)?;
    }
    let expr = converted(*expr, &data_type, &common);
    let membership = InSubquery::new(Box::new(expr), cast_subquery(subquery, &common)?, negated);
    Ok(Transformed::yes(Expr::InSubquery(membership)))
}

/// A constant as the DECIMAL that has its digits.
fn decimal_literal(expr: &Expr) -> Option<Expr> {
    let value = Constant::of(expr)?.value;
    let (before, behind) = value.widths();
    let digits = u8::try_from(before + behind).ok()?.max(1);
    let scale = i8::try_from(behind).ok()?;
    let data_type = match digits {
        _ if digits <= MAX_DIGITS[0] => DataType::Decimal128(digits, scale),
        _ if digits <= MAX_DIGITS[1] => DataType::Decimal256(digits, scale),
        _ => return None,
    };
    Some(lit(scalar(value.rounded(digits, scale)?, &data_type)?))
}

/// `nullif(d, 1.5)`: a constant in the DECIMAL's own type, or NULL if `d` has no such value.
fn null_if(call: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::ScalarFunction(mut call) = call else {
        return Ok(Transformed::no(call));
    };
    let (Ok(data_type), Ok(other_type)) = (call.args[0].get_type(schema), call.args[1].get_type(schema)) else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    let same = with_constant(&call.args[0], &data_type, Operator::Eq, &call.args[1], &other_type);
    let Some(same) = same else {
        return Ok(Transformed::no(Expr::ScalarFunction(call)));
    };
    call.args[1] = match same {
        Expr::BinaryExpr(same) if matches!(*same.right, Expr::Literal(..)) && same.op == Operator::Eq => *same.right,
        _ => lit(ScalarValue::try_from(values_of(&data_type))?),
    };
    Ok(Transformed::yes(Expr::ScalarFunction(call)))
}

/// The pairs of keys of a join, as USING makes them.
fn join_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = plan else {
        return Ok(Transformed::no(plan));
    };
    let mut is_changed = false;
    for (left, right) in &mut join.on {
        let types = (left.get_type(join.left.schema()), right.get_type(join.right.schema()));
        let (Ok(left_type), Ok(right_type)) = types else {
            continue;
        };
        if let Some(common) = common_type(&left_type, &right_type) {
            *left = converted(left.clone(), &left_type, &common);
            *right = converted(right.clone(), &right_type, &common);
            is_changed = true;
        }
    }
    Ok(match is_changed {
        true => Transformed::yes(LogicalPlan::Join(join)),
        false => Transformed::no(LogicalPlan::Join(join)),
    })
}
