//! Comparison of a kernel's results with the interpreter's.

use grampus_gpu_exec::codegen::Merged;
use grampus_gpu_exec::output::{ResultColumn, ResultValues};
use grampus_gpu_exec::program::Type;

use super::interpreter::{Expected, Key, Scalar, Total};

/// A result's value in the interpreter's type.
fn key_of(column: &ResultColumn, at: usize) -> Key {
    if column.valid.as_ref().is_some_and(|valid| !valid[at]) {
        return Key::Null;
    }
    Key::Word(match &column.values {
        ResultValues::Int(v) => i128::from(v[at]),
        ResultValues::Decimal(v) => v[at],
        ResultValues::Moments(_) => unreachable!("no key has moments"),
        ResultValues::Float(v) if v[at] == 0.0 => 0,
        ResultValues::Float(v) if column.ty == Type::Float32 => i128::from((v[at] as f32).to_bits()),
        ResultValues::Float(v) => i128::from(v[at].to_bits()),
    })
}

fn same(total: Total, column: &ResultColumn, at: usize) -> bool {
    let there = column.valid.as_ref().is_none_or(|valid| valid[at]);
    match (total, &column.values) {
        (Total::Exact(None) | Total::Sum(None) | Total::Extreme(None) | Total::Bits(None), _) => !there,
        _ if !there => false,
        (Total::Bits(Some(v)), ResultValues::Int(values)) => v == values[at],
        (Total::Moments(wanted, squares), ResultValues::Moments(values)) => {
            let (got, close) = (values[at], |a: f64, b: f64, of: f64| {
                a.to_bits() == b.to_bits() || (!a.is_finite() && !b.is_finite()) || (a - b).abs() <= of * 1e-12
            });
            got.count == wanted.count
                && close(got.mean, wanted.mean, squares.sqrt())
                // One value has the variance 0, whatever it is.
                && (got.count == 1 || close(got.squares, wanted.squares, squares))
        }
        (Total::Exact(Some(v)), ResultValues::Int(values)) => v as i64 == values[at],
        (Total::Exact(Some(v)), ResultValues::Decimal(values)) => v == values[at],
        (Total::Sum(Some((v, size))), ResultValues::Float(values)) => {
            let sum = values[at];
            v.to_bits() == sum.to_bits() || (v.is_nan() && sum.is_nan()) || (v - sum).abs() <= size * 1e-12
        }
        (Total::Extreme(Some(Scalar::Float(v))), ResultValues::Float(values)) => v.total_cmp(&values[at]).is_eq(),
        (Total::Extreme(Some(Scalar::Int(v))), ResultValues::Int(values)) => v == values[at],
        (Total::Extreme(Some(Scalar::Bool(v))), ResultValues::Int(values)) => i64::from(v) == values[at],
        (Total::Extreme(Some(Scalar::Int(v))), ResultValues::Decimal(values)) => i128::from(v) == values[at],
        _ => false,
    }
}

pub(crate) fn check(expected: &Expected, merged: &Merged, about: &str) {
    assert_eq!(merged.passed, expected.passed, "rows that passed: {about}");
    assert_eq!(merged.groups, expected.groups.len(), "groups: {about}");
    for at in 0..merged.groups {
        let key: Vec<Key> = merged.keys.iter().map(|column| key_of(column, at)).collect();
        let totals = expected.groups.get(&key);
        let totals = totals.unwrap_or_else(|| panic!("a group {key:?} that is not there: {about}"));
        for (which, (total, column)) in totals.iter().zip(&merged.aggregates).enumerate() {
            assert!(
                same(*total, column, at),
                "aggregate {which} of {key:?}: {total:?}, not {column:?}[{at}]: {about}"
            );
        }
    }
}
