//! Values of each type that operators are tried on: bounds, zeros, NaN, NULL.

use grampus_gpu_exec::program::Type;

use crate::common::interpreter::{Cell, Scalar};
use crate::common::random::DECIMAL;

/// All pairs of values.
pub(crate) fn pairs(values: &[Cell]) -> Vec<Vec<Cell>> {
    values
        .iter()
        .flat_map(|&a| values.iter().map(move |&b| vec![a, b]))
        .collect()
}

pub(crate) fn ints(values: &[i64]) -> Vec<Cell> {
    values.iter().map(|&v| Some(Scalar::Int(v))).chain([None]).collect()
}

fn floats(ty: Type) -> Vec<Cell> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        3.0,
        -7.25,
        1e9,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    values.extend([f64::NAN, -f64::NAN]);
    // Values around the bounds of the integer types.
    for bits in [7, 15, 31, 63] {
        let bound = f64::from(2.0f32.powi(bits));
        for v in [
            bound,
            -bound,
            -bound - 1.0,
            -bound - 0.5,
            bound - 1.0,
            bound - 0.5,
            -bound * 1.0000002,
            bound * 0.9999999,
        ] {
            values.push(v);
        }
    }
    let held = |v: f64| if ty == Type::Float32 { f64::from(v as f32) } else { v };
    values
        .into_iter()
        .map(|v| Some(Scalar::Float(held(v))))
        .chain([None])
        .collect()
}

pub(crate) fn values_of(ty: Type) -> Vec<Cell> {
    match ty {
        Type::Bool => vec![Some(Scalar::Bool(false)), Some(Scalar::Bool(true)), None],
        Type::Int8 => ints(&[-128, -127, -1, 0, 1, 2, 7, 127]),
        Type::Int16 => ints(&[-32768, -32767, -129, -128, -1, 0, 1, 5, 127, 128, 32767]),
        Type::Int32 => ints(&[
            i64::from(i32::MIN),
            -32769,
            -32768,
            -1,
            0,
            1,
            3,
            32767,
            32768,
            i64::from(i32::MAX),
        ]),
        Type::Int64 => ints(&[
            i64::MIN,
            i64::MIN + 1,
            -2_147_483_649,
            -1,
            0,
            1,
            9,
            2_147_483_648,
            i64::MAX,
        ]),
        Type::Float32 | Type::Float64 => floats(ty),
        DECIMAL => ints(&[-999_999_999_999, -1, 0, 1, 250, 999_999_999_999]),
        Type::Code => ints(&[0, 1, 77]),
        _ => unreachable!("not asked for"),
    }
}

pub(crate) const NUMBERS: [Type; 6] = [
    Type::Int8,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::Float32,
    Type::Float64,
];
