//! SQL functions that kernels have, by their name in DataFusion.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{BinaryOp, DatePart, Expr, MathFunction, Type};

use super::Reason;
use super::expr_lowering::{Builder, Typed, comparison, is_float, not_computed};

/// The call `expr`, taken apart as `call`.
pub(super) fn lower(
    builder: &mut Builder<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    call: &ScalarFunctionExpr,
) -> Result<Typed, Reason> {
    // A function of another crate may have the name of one of DataFusion's and mean something else; it cannot have its Rust type's
    // name too, but that is private to most. DataFusion replaces a function by registering another of its name: that is the person's
    // wish, and is honoured by looking at what stands behind the name.
    if !is_datafusions(call) {
        return Err(format!("{}() is not computed on the GPU", call.name()));
    }
    match (call.name(), call.args()) {
        ("date_part", [part, value]) => date_part(builder, expr, part, value),
        ("date_trunc", [part, value]) => date_trunc(builder, expr, part, value),
        ("coalesce", values) if !values.is_empty() => coalesce(builder, expr, values),
        ("nullif", [value, other]) => nullif(builder, expr, value, other),
        (name, [value]) => match math(name) {
            Some(function) => {
                let value = builder.lower(value)?;
                if !is_float(value.ty) {
                    return Err(not_computed(expr));
                }
                let ty = value.ty;
                let value = Box::new(value.expr);
                Ok(Typed::new(Expr::Math { function, value }, ty))
            }
            None => Err(format!("{name}() is not computed on the GPU")),
        },
        (name, _) => Err(format!("{name}() is not computed on the GPU")),
    }
}

/// Whether the function is the one that DataFusion itself has under this name.
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

/// The word that a literal is.
fn word(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => {
            text.as_ref().map(|text| text.trim_matches(['\'', '"']).to_lowercase())
        }
        _ => None,
    }
}

fn date_part(
    builder: &mut Builder<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    part: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
) -> Result<Typed, Reason> {
    let part = word(part).ok_or_else(|| not_computed(expr))?;
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
        other => return Err(format!("extract({other} FROM …) is not computed on the GPU")),
    };
    let value = builder.lower(value)?;
    match value.ty {
        Type::Date32 | Type::Timestamp(_) => {
            let value = Box::new(value.expr);
            Ok(Typed::new(Expr::Extract { part, value }, Type::Int32))
        }
        _ => Err(not_computed(expr)),
    }
}

fn date_trunc(
    builder: &mut Builder<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    part: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
) -> Result<Typed, Reason> {
    let part = word(part).ok_or_else(|| not_computed(expr))?;
    let part = match part.as_str() {
        "year" => DatePart::Year,
        "quarter" => DatePart::Quarter,
        "month" => DatePart::Month,
        "week" => DatePart::Week,
        "day" => DatePart::Day,
        "hour" => DatePart::Hour,
        "minute" => DatePart::Minute,
        "second" => DatePart::Second,
        other => return Err(format!("date_trunc('{other}', …) is not computed on the GPU")),
    };
    let value = builder.lower(value)?;
    match value.ty {
        ty @ Type::Timestamp(_) => {
            let value = Box::new(value.expr);
            Ok(Typed::new(Expr::Truncate { part, value }, ty))
        }
        _ => Err(not_computed(expr)),
    }
}

fn coalesce(
    builder: &mut Builder<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    values: &[Arc<dyn PhysicalExpr>],
) -> Result<Typed, Reason> {
    let mut items = Vec::with_capacity(values.len());
    let mut ty = None;
    for value in values {
        let value = builder.lower(value)?;
        if *ty.get_or_insert(value.ty) != value.ty {
            return Err(not_computed(expr));
        }
        items.push(value.expr);
    }
    let ty = ty.ok_or_else(|| not_computed(expr))?;
    Ok(Typed::new(Expr::Coalesce(items), ty))
}

/// NULL where the two are equal, else the first.
fn nullif(
    builder: &mut Builder<'_>,
    expr: &Arc<dyn PhysicalExpr>,
    value: &Arc<dyn PhysicalExpr>,
    other: &Arc<dyn PhysicalExpr>,
) -> Result<Typed, Reason> {
    let (value, other) = (builder.lower(value)?, builder.lower(other)?);
    if value.ty != other.ty {
        return Err(not_computed(expr));
    }
    let equal = comparison(BinaryOp::Eq, value.expr.clone(), other.expr);
    let case = Expr::Case {
        branches: vec![(equal, Expr::Null(value.ty))],
        otherwise: Some(Box::new(value.expr)),
    };
    Ok(Typed::new(case, value.ty))
}
