//! SQL functions that kernels compute, by their name in DataFusion.
//!
//! The functions here lower the arguments of a call through the caller's [`LowerArgument`].

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{BinaryOp, DatePart, Expr, MathFunction, Type};

use super::typed_expr::{TypedExpr, binary};
use super::types::is_float;
use crate::gpu::refusal::Refusal;

/// Lowers one argument of a call.
pub(super) type LowerArgument<'a> = dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TypedExpr, Refusal> + 'a;

/// The function call `expr`, downcast as `call`.
pub(super) fn lower(
    expr: &Arc<dyn PhysicalExpr>,
    call: &ScalarFunctionExpr,
    lower_argument: &mut LowerArgument<'_>,
) -> Result<TypedExpr, Refusal> {
    // Another crate may register a function under the name of one of DataFusion's functions, and DataFusion then calls
    // the other crate's function. Names therefore do not tell the functions apart, and most Rust types of functions
    // are private. The comparison with DataFusion's own function object does.
    if !is_datafusions(call) {
        return Err(Refusal::NotComputed(format!("{}()", call.name())));
    }
    match (call.name(), call.args()) {
        ("date_part", [part, value]) => date_part(expr, part, value, lower_argument),
        ("date_trunc", [part, value]) => date_trunc(expr, part, value, lower_argument),
        ("coalesce", values) if !values.is_empty() => coalesce(expr, values, lower_argument),
        ("nullif", [value, other]) => nullif(expr, value, other, lower_argument),
        (name, [value]) => match math(name) {
            Some(function) => {
                let value = lower_argument(value)?;
                if !is_float(value.ty) {
                    return Err(Refusal::not_computed(expr));
                }
                let ty = value.ty;
                let value = Box::new(value.expr);
                Ok(TypedExpr::new(Expr::Math { function, value }, ty))
            }
            None => Err(Refusal::NotComputed(format!("{name}()"))),
        },
        (name, _) => Err(Refusal::NotComputed(format!("{name}()"))),
    }
}

/// True if the function is DataFusion's own function of this name.
fn is_datafusions(call: &ScalarFunctionExpr) -> bool {
    use datafusion::functions::{core, datetime, math};
    let own = match call.name() {
        "date_part" => datetime::date_part(),
        "date_trunc" => datetime::date_trunc(),
        "coalesce" => core::coalesce(),
        "nullif" => core::nullif(),
        "floor" => math::floor(),
        "ceil" => math::ceil(),
        "abs" => math::abs(),
        "sqrt" => math::sqrt(),
        _ => return false,
    };
    own.as_ref() == call.fun()
}

fn math(name: &str) -> Option<MathFunction> {
    Some(match name {
        "floor" => MathFunction::Floor,
        "ceil" => MathFunction::Ceil,
        "abs" => MathFunction::Abs,
        "sqrt" => MathFunction::Sqrt,
        _ => return None,
    })
}

/// The value of a string literal, in lower case and without quotes.
fn word(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_ref().map(|text| text.trim_matches(['\'', '"']).to_lowercase())
        }
        _ => None,
    }
}

fn date_part(
    expr: &Arc<dyn PhysicalExpr>,
    part: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
    lower_argument: &mut LowerArgument<'_>,
) -> Result<TypedExpr, Refusal> {
    let part = word(part).ok_or_else(|| Refusal::not_computed(expr))?;
    let part = match part.as_str() {
        "year" | "years" => DatePart::Year,
        "quarter" | "qtr" => DatePart::Quarter,
        "month" | "months" => DatePart::Month,
        "week" | "weeks" => DatePart::Week,
        "day" | "days" => DatePart::Day,
        "dow" => DatePart::DayOfWeek,
        "doy" => DatePart::DayOfYear,
        "hour" | "hours" => DatePart::Hour,
        "minute" | "minutes" => DatePart::Minute,
        "second" | "seconds" => DatePart::Second,
        other => return Err(Refusal::NotComputed(format!("extract({other} FROM …)"))),
    };
    let value = lower_argument(value)?;
    match value.ty {
        Type::Date32 | Type::Timestamp(_) => {
            let value = Box::new(value.expr);
            Ok(TypedExpr::new(Expr::Extract { part, value }, Type::Int32))
        }
        _ => Err(Refusal::not_computed(expr)),
    }
}

fn date_trunc(
    expr: &Arc<dyn PhysicalExpr>,
    part: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
    lower_argument: &mut LowerArgument<'_>,
) -> Result<TypedExpr, Refusal> {
    let part = word(part).ok_or_else(|| Refusal::not_computed(expr))?;
    let part = match part.as_str() {
        "year" => DatePart::Year,
        "quarter" => DatePart::Quarter,
        "month" => DatePart::Month,
        "week" => DatePart::Week,
        "day" => DatePart::Day,
        "hour" => DatePart::Hour,
        "minute" => DatePart::Minute,
        "second" => DatePart::Second,
        other => return Err(Refusal::NotComputed(format!("date_trunc('{other}', …)"))),
    };
    let value = lower_argument(value)?;
    match value.ty {
        ty @ Type::Timestamp(_) => {
            let value = Box::new(value.expr);
            Ok(TypedExpr::new(Expr::Truncate { part, value }, ty))
        }
        _ => Err(Refusal::not_computed(expr)),
    }
}

fn coalesce(
    expr: &Arc<dyn PhysicalExpr>,
    values: &[Arc<dyn PhysicalExpr>],
    lower_argument: &mut LowerArgument<'_>,
) -> Result<TypedExpr, Refusal> {
    let mut items = Vec::with_capacity(values.len());
    let mut ty = None;
    for value in values {
        let value = lower_argument(value)?;
        if *ty.get_or_insert(value.ty) != value.ty {
            return Err(Refusal::not_computed(expr));
        }
        items.push(value.expr);
    }
    let ty = ty.ok_or_else(|| Refusal::not_computed(expr))?;
    Ok(TypedExpr::new(Expr::Coalesce(items), ty))
}

/// NULL if the two values are equal, else the first value.
fn nullif(
    expr: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
    other: &Arc<dyn PhysicalExpr>,
    lower_argument: &mut LowerArgument<'_>,
) -> Result<TypedExpr, Refusal> {
    let (value, other) = (lower_argument(value)?, lower_argument(other)?);
    if value.ty != other.ty {
        return Err(Refusal::not_computed(expr));
    }
    let equal = binary(BinaryOp::Eq, value.expr.clone(), other.expr);
    let case = Expr::Case {
        branches: vec![(equal, Expr::Null(value.ty))],
        otherwise: Some(Box::new(value.expr)),
    };
    Ok(TypedExpr::new(case, value.ty))
}
