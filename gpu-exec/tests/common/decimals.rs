//! Decimals for the interpreter, refused where kernels refuse.

use grampus_gpu_exec::program::{BinaryOp, Type};

use super::interpreter::Scalar::{self, Float, Int, Wide};
use super::interpreter::{Answer, Refused, fits};

fn scale(ty: Type) -> i32 {
    match ty {
        Type::Decimal { scale, .. } => i32::from(scale),
        _ => 0,
    }
}

/// Refuses a summand of more than 89 bits, the sign among them.
pub(super) fn summand(v: Scalar) -> Answer<i128> {
    let bound = 1_i128 << 88;
    Some(v.wide()).filter(|v| (-bound..bound).contains(v)).ok_or(Refused)
}

/// Whether a key, or an extreme, can hold the value.
pub(super) fn in_eight_bytes(v: Scalar) -> Answer<()> {
    match v {
        Wide(_) => Err(Refused),
        _ => Ok(()),
    }
}

/// The result of an operation of a type: eight bytes up to 18 digits, 16 bytes beyond.
pub(super) fn held(ty: Type, v: i128) -> Answer<Scalar> {
    match (i64::try_from(v), ty) {
        (Ok(v), _) => Ok(Int(v)),
        (Err(_), Type::Decimal { precision: 0..=18, .. }) => Err(Refused),
        (Err(_), _) => Ok(Wide(v)),
    }
}

/// A product whose magnitude has 127 bits.
fn product(a: i128, b: i128) -> Answer<i128> {
    let product = a.checked_mul(b).ok_or(Refused)?;
    if product == i128::MIN {
        Err(Refused)
    } else {
        Ok(product)
    }
}

/// A sum, difference or product. `types`: of both operands and of the result.
pub(super) fn operation(op: BinaryOp, types: [Type; 3], a: i128, b: i128) -> Answer<Scalar> {
    let [a_scale, b_scale, to] = types.map(scale);
    let scaled = |v: i128, from: i32| held(types[2], product(v, 10i128.pow((to - from) as u32))?).map(Scalar::wide);
    let result = match op {
        BinaryOp::Multiply => product(a, b)?,
        BinaryOp::Add => scaled(a, a_scale)?.checked_add(scaled(b, b_scale)?).ok_or(Refused)?,
        _ => scaled(a, a_scale)?.checked_sub(scaled(b, b_scale)?).ok_or(Refused)?,
    };
    held(types[2], result)
}

/// Casts of floats to decimals of at most 18 digits, as arrow computes them.
pub(super) fn of_float(v: f64, to: Type) -> Answer<Scalar> {
    let Type::Decimal { precision, scale } = to else {
        return Err(Refused);
    };
    let scaled = (10f64.powi(scale.into()) * v).round();
    match scaled.abs() < 10f64.powi(precision.into()) {
        true => held(to, scaled as i128),
        false => Err(Refused),
    }
}

/// Casts between decimals, integers and DOUBLE.
pub(super) fn cast(v: i128, from: Type, to: Type) -> Answer<Scalar> {
    let by = scale(to) - scale(from);
    let power = 10i128.pow(by.unsigned_abs());
    match to {
        Type::Float64 => Ok(Float(v as f64 / power as f64)),
        Type::Decimal { precision, .. } => {
            let (whole, rest) = (v / power, v % power);
            let scaled = match by {
                0.. => product(v, power)?,
                _ if rest.abs() < power / 2 => whole,
                _ => whole + rest.signum(),
            };
            match scaled.unsigned_abs() < 10u128.pow(precision.into()) {
                true => held(to, scaled),
                false => Err(Refused),
            }
        }
        _ => fits(to, v / power),
    }
}
