//! Decimals for the interpreter: computed with 128 bits, refused where kernels refuse.

use grampus_gpu_exec::program::{BinaryOp, Type};

use super::interpreter::Scalar::{self, Float, Int};
use super::interpreter::{Answer, Refused, fits};

fn scale(ty: Type) -> i32 {
    match ty {
        Type::Decimal { scale, .. } => i32::from(scale),
        _ => 0,
    }
}

/// A decimal that kernels can hold.
pub(super) fn in_eight_bytes(v: i128) -> Answer<Scalar> {
    i64::try_from(v).map(Int).map_err(|_| Refused)
}

/// A sum, difference or product. `types`: of both operands and of the result.
pub(super) fn operation(op: BinaryOp, types: [Type; 3], a: i64, b: i64) -> Answer<Scalar> {
    let ([a_scale, b_scale, to], a, b) = (types.map(scale), i128::from(a), i128::from(b));
    let scaled = |v: i128, from: i32| in_eight_bytes(v * 10i128.pow((to - from) as u32)).map(|v| i128::from(v.int()));
    in_eight_bytes(match op {
        BinaryOp::Multiply => a * b,
        BinaryOp::Add => scaled(a, a_scale)? + scaled(b, b_scale)?,
        _ => scaled(a, a_scale)? - scaled(b, b_scale)?,
    })
}

/// Casts between decimals, integers and DOUBLE.
pub(super) fn cast(v: i64, from: Type, to: Type) -> Answer<Scalar> {
    let by = scale(to) - scale(from);
    let power = 10i128.pow(by.unsigned_abs());
    match to {
        Type::Float64 => Ok(Float(v as f64 / power as f64)),
        Type::Decimal { precision, .. } => {
            let (v, half) = (i128::from(v), power / 2);
            let scaled = match by {
                0.. => v * power,
                _ if v < 0 => (v - half) / power,
                _ => (v + half) / power,
            };
            match scaled.abs() < 10i128.pow(precision.into()) {
                true => in_eight_bytes(scaled),
                false => Err(Refused),
            }
        }
        _ => fits(to, i128::from(v) / power),
    }
}
