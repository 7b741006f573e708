//! The interpreter: a program evaluated one row at a time, without thought of speed. Kernels are compared with it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use grampus_gpu_exec::output::Moments;
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Expr, Function, MathFunction, Program, Type};

use super::decimals;
use super::times::{date_of, extract, moment, per_second, truncate};

/// A value that is not NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar {
    Int(i64),
    /// A decimal that takes more than eight bytes.
    Wide(i128),
    Float(f64),
    Bool(bool),
}
use Scalar::{Bool, Float, Int, Wide};

pub(crate) type Cell = Option<Scalar>;

/// No result: the CPU plan reports the error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused;

pub(super) type Answer<T> = Result<T, Refused>;

impl Scalar {
    pub(super) fn int(self) -> i64 {
        match self {
            Int(v) => v,
            Bool(v) => i64::from(v),
            Float(_) | Wide(_) => unreachable!("an integer of eight bytes was expected"),
        }
    }

    pub(super) fn wide(self) -> i128 {
        match self {
            Wide(v) => v,
            other => i128::from(other.int()),
        }
    }

    fn float(self) -> f64 {
        match self {
            Float(v) => v,
            _ => unreachable!("a float was expected"),
        }
    }

    /// Total order.
    pub(crate) fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Float(a), Float(b)) => a.total_cmp(&b),
            (a, b) => a.wide().cmp(&b.wide()),
        }
    }

    /// Total order in which the two zeros are equal.
    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Float(a), Float(b)) if a == b => Ordering::Equal,
            (a, b) => a.order(b),
        }
    }
}

/// An integer wrapped to its type.
pub(super) fn wrap(ty: Type, v: i128) -> Scalar {
    Int(match ty {
        Type::Int8 => i64::from(v as i8),
        Type::Int16 => i64::from(v as i16),
        Type::Int32 | Type::Date32 => i64::from(v as i32),
        _ => v as i64,
    })
}

fn least(ty: Type) -> i64 {
    match ty {
        Type::Int8 => i64::from(i8::MIN),
        Type::Int16 => i64::from(i16::MIN),
        Type::Int32 => i64::from(i32::MIN),
        _ => i64::MIN,
    }
}

pub(super) fn fits(ty: Type, v: i128) -> Answer<Scalar> {
    match wrap(ty, v) {
        Int(wrapped) if i128::from(wrapped) == v => Ok(Int(wrapped)),
        _ => Err(Refused),
    }
}

fn round(ty: Type, v: f64) -> Scalar {
    Float(if ty == Type::Float32 { f64::from(v as f32) } else { v })
}

/// One row of a program's columns, and its arguments.
pub(crate) struct Row<'a> {
    pub program: &'a Program,
    pub arguments: &'a [Scalar],
    pub cells: Vec<Cell>,
}

impl Row<'_> {
    fn is_true(&self, expr: &Expr) -> Answer<bool> {
        Ok(matches!(self.eval(expr)?, Some(Bool(true))))
    }

    pub(crate) fn eval(&self, expr: &Expr) -> Answer<Cell> {
        let ty = self.program.type_of(expr).expect("a valid program");
        Ok(match expr {
            Expr::Column(at) => self.cells[*at],
            Expr::Argument(at) => Some(self.arguments[*at]),
            Expr::Null(_) => None,
            Expr::Not(value) => self.eval(value)?.map(|v| match v {
                Bool(v) => Bool(!v),
                _ => unreachable!("NOT of a boolean"),
            }),
            Expr::Negate(value) => match (self.eval(value)?, ty) {
                (None, _) => None,
                (Some(v), Type::Decimal { .. }) => Some(decimals::held(ty, v.wide().checked_neg().ok_or(Refused)?)?),
                (Some(Float(v)), _) => Some(Float(-v)),
                (Some(v), _) => Some(wrap(ty, -i128::from(v.int()))),
            },
            Expr::IsNull(value) => Some(Bool(self.eval(value)?.is_none())),
            Expr::Binary { op, left, right } => {
                let type_of = |e: &Expr| self.program.type_of(e).expect("valid");
                let (a, b) = (self.eval(left)?, self.eval(right)?);
                match (ty, a, b) {
                    (Type::Decimal { .. }, Some(a), Some(b)) => {
                        let types = [type_of(left), type_of(right), ty];
                        Some(decimals::operation(*op, types, a.wide(), b.wide())?)
                    }
                    _ => binary(*op, type_of(left), a, b)?,
                }
            }
            Expr::InList { value, list, negated } => {
                let value = self.eval(value)?;
                let list = list.iter().map(|e| self.eval(e)).collect::<Answer<Vec<_>>>()?;
                let found = list
                    .iter()
                    .any(|item| matches!((value, item), (Some(a), Some(b)) if a.order(*b).is_eq()));
                let unknown = value.is_none() || (!found && list.iter().any(Option::is_none));
                (!unknown).then_some(Bool(found != *negated))
            }
            Expr::Case { branches, otherwise } => {
                for (condition, result) in branches {
                    if self.is_true(condition)? {
                        return self.eval(result);
                    }
                }
                otherwise.as_ref().map_or(Ok(None), |e| self.eval(e))?
            }
            Expr::Coalesce(values) => {
                for value in values {
                    if let Some(found) = self.eval(value)? {
                        return Ok(Some(found));
                    }
                }
                None
            }
            Expr::Cast { value, to } => {
                let from = self.program.type_of(value).expect("valid");
                self.eval(value)?.map(|v| cast(v, from, *to)).transpose()?
            }
            Expr::TryCast { value, to } => {
                let from = self.program.type_of(value).expect("valid");
                self.eval(value)?.and_then(|v| cast(v, from, *to).ok())
            }
            Expr::Math { function, value } => self.eval(value)?.map(|v| math(*function, ty, v)).transpose()?,
            Expr::Extract { part, value } => {
                let from = self.program.type_of(value).expect("valid");
                self.eval(value)?.map(|v| extract(*part, from, v.int())).transpose()?
            }
            Expr::Truncate { part, value } => self.eval(value)?.map(|v| truncate(*part, ty, v.int())).transpose()?,
        })
    }
}

/// Computes a function of a float. Single floats are held as doubles, and results are rounded once, to single
/// precision.
fn math(function: MathFunction, ty: Type, value: Scalar) -> Answer<Scalar> {
    let Float(value) = value else {
        unreachable!("a float was expected");
    };
    let single = value as f32;
    Ok(Float(match (function, ty) {
        (MathFunction::Sqrt, _) if value < 0.0 => return Err(Refused),
        (MathFunction::Floor, _) => value.floor(),
        (MathFunction::Ceil, _) => value.ceil(),
        (MathFunction::Abs, _) => value.abs(),
        (MathFunction::Sqrt, Type::Float32) => f64::from(single.sqrt()),
        (MathFunction::Sqrt, _) => value.sqrt(),
    }))
}

fn binary(op: BinaryOp, ty: Type, left: Cell, right: Cell) -> Answer<Cell> {
    let truth = |cell: Cell| cell.map(|v| matches!(v, Bool(true)));
    match op {
        BinaryOp::And => {
            return Ok(match (truth(left), truth(right)) {
                (Some(false), _) | (_, Some(false)) => Some(Bool(false)),
                (Some(true), Some(true)) => Some(Bool(true)),
                _ => None,
            });
        }
        BinaryOp::Or => {
            return Ok(match (truth(left), truth(right)) {
                (Some(true), _) | (_, Some(true)) => Some(Bool(true)),
                (Some(false), Some(false)) => Some(Bool(false)),
                _ => None,
            });
        }
        BinaryOp::IsDistinctFrom | BinaryOp::IsNotDistinctFrom => {
            let same = match (left, right) {
                (Some(a), Some(b)) => a.compare(b).is_eq(),
                (a, b) => a.is_none() && b.is_none(),
            };
            return Ok(Some(Bool(same == (op == BinaryOp::IsNotDistinctFrom))));
        }
        _ => {}
    }
    let (Some(a), Some(b)) = (left, right) else {
        return Ok(None);
    };
    let order = a.compare(b);
    Ok(Some(match op {
        BinaryOp::Eq => Bool(order.is_eq()),
        BinaryOp::NotEq => Bool(order.is_ne()),
        BinaryOp::Lt => Bool(order.is_lt()),
        BinaryOp::LtEq => Bool(order.is_le()),
        BinaryOp::Gt => Bool(order.is_gt()),
        BinaryOp::GtEq => Bool(order.is_ge()),
        _ => match (a, b) {
            (Float(a), Float(b)) => round(
                ty,
                match op {
                    BinaryOp::Add => a + b,
                    BinaryOp::Subtract => a - b,
                    BinaryOp::Multiply => a * b,
                    BinaryOp::Divide => a / b,
                    _ => a % b,
                },
            ),
            (a, b) => integer(op, ty, a.int(), b.int())?,
        },
    }))
}

fn integer(op: BinaryOp, ty: Type, a: i64, b: i64) -> Answer<Scalar> {
    let (wide_a, wide_b) = (i128::from(a), i128::from(b));
    Ok(wrap(
        ty,
        match op {
            BinaryOp::Add => wide_a + wide_b,
            BinaryOp::Subtract => wide_a - wide_b,
            BinaryOp::Multiply => wide_a * wide_b,
            _ if b == 0 || (b == -1 && a == least(ty)) => return Err(Refused),
            BinaryOp::Divide => wide_a / wide_b,
            _ => wide_a % wide_b,
        },
    ))
}

fn cast(v: Scalar, from: Type, to: Type) -> Answer<Scalar> {
    let number = |ty: Type| matches!(ty, Type::Float32 | Type::Float64);
    match (from, to) {
        _ if from == to => Ok(v),
        (from, Type::Decimal { .. }) if number(from) => decimals::of_float(v.float(), to),
        (Type::Decimal { .. }, _) | (_, Type::Decimal { .. }) => decimals::cast(v.wide(), from, to),
        (_, Type::Bool) => Ok(Bool(match v {
            Float(v) => v != 0.0,
            v => v.int() != 0,
        })),
        (Type::Date32, Type::Timestamp(unit)) => fits(to, i128::from(v.int()) * 86_400 * per_second(unit)),
        (Type::Timestamp(_), Type::Date32) => Ok(Int(i64::from(date_of(moment(from, v.int())?.date())))),
        (Type::Timestamp(a), Type::Timestamp(b)) if per_second(a) > per_second(b) => {
            Ok(Int((i128::from(v.int()) / (per_second(a) / per_second(b))) as i64))
        }
        (Type::Timestamp(a), Type::Timestamp(b)) => fits(to, i128::from(v.int()) * (per_second(b) / per_second(a))),
        (from, to) if number(from) && number(to) => Ok(round(to, v.float())),
        (from, to) if number(from) => {
            let v = v.float();
            if v.is_finite() {
                fits(to, v.trunc() as i128)
            } else {
                Err(Refused)
            }
        }
        (_, Type::Float32) => Ok(Float(f64::from(v.int() as f32))),
        (_, Type::Float64) => Ok(Float(v.int() as f64)),
        _ => fits(to, i128::from(v.int())),
    }
}

/// A value of a key. Equal keys are one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Null,
    Word(i128),
}

fn key(ty: Type, cell: Cell) -> Key {
    match cell {
        None => Key::Null,
        Some(Float(0.0)) => Key::Word(0),
        Some(Float(v)) if ty == Type::Float32 => Key::Word(i128::from((v as f32).to_bits())),
        Some(Float(v)) => Key::Word(i128::from(v.to_bits())),
        Some(v) => Key::Word(i128::from(v.int())),
    }
}

/// An aggregate of a group, exact where the kernel is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Total {
    Exact(Option<i128>),
    /// A sum of floats, and of their magnitudes.
    Sum(Option<(f64, f64)>),
    /// The least or greatest.
    Extreme(Cell),
    /// OR, AND or exclusive OR of bits.
    Bits(Option<i64>),
    /// Moments by Welford's method, and the sum of the squares: differences are small beside it.
    Moments(Moments, f64),
}

#[derive(Debug)]
pub(crate) struct Expected {
    pub groups: BTreeMap<Vec<Key>, Vec<Total>>,
    pub passed: u64,
}

fn start(program: &Program, a: &Aggregate) -> Total {
    match (a.function, program.type_of_aggregate(a).expect("valid")) {
        (Function::Count, _) => Total::Exact(Some(0)),
        (Function::Sum, Type::Float64) => Total::Sum(None),
        (Function::Sum, _) => Total::Exact(None),
        (Function::BitAnd | Function::BitOr | Function::BitXor, _) => Total::Bits(None),
        (Function::Moments, _) => Total::Moments(Moments::default(), 0.0),
        _ => Total::Extreme(None),
    }
}

fn add(row: &Row<'_>, a: &Aggregate, total: &mut Total) -> Answer<()> {
    if let Some(filter) = &a.filter
        && !row.is_true(filter)?
    {
        // The kernel computes the argument even if the filter is false.
        let cell = a.argument.as_ref().map_or(Ok(None), |e| row.eval(e))?;
        if let (Function::Sum, Total::Exact(_), Some(v)) = (a.function, &total, cell) {
            decimals::summand(v)?;
        }
        return Ok(());
    }
    let cell = a.argument.as_ref().map_or(Ok(Some(Int(0))), |e| row.eval(e))?;
    let Some(v) = cell else { return Ok(()) };
    match total {
        Total::Exact(sum) => {
            let by = match a.function {
                Function::Count => 1,
                _ => decimals::summand(v)?,
            };
            *sum = Some(sum.unwrap_or(0) + by);
        }
        Total::Sum(sum) => {
            let (value, size) = sum.unwrap_or_default();
            *sum = Some((value + v.float(), size + v.float().abs()));
        }
        Total::Bits(bits) => {
            let v = v.int();
            *bits = Some(bits.map_or(v, |bits| match a.function {
                Function::BitAnd => bits & v,
                Function::BitOr => bits | v,
                _ => bits ^ v,
            }));
        }
        Total::Moments(moments, squares) => {
            let v = v.float();
            moments.count += 1;
            let from_old_mean = v - moments.mean;
            moments.mean += from_old_mean / moments.count as f64;
            moments.squares += from_old_mean * (v - moments.mean);
            *squares += v * v;
        }
        Total::Extreme(extreme) => {
            decimals::in_eight_bytes(v)?;
            let wanted = if a.function == Function::Min {
                Ordering::Less
            } else {
                Ordering::Greater
            };
            if extreme.is_none_or(|old| v.order(old) == wanted) {
                *extreme = Some(v);
            }
        }
    }
    Ok(())
}

/// The program over rows.
pub(crate) fn run(program: &Program, rows: impl Iterator<Item = Vec<Cell>>, arguments: &[Scalar]) -> Answer<Expected> {
    let fresh = || program.aggregates.iter().map(|a| start(program, a)).collect::<Vec<_>>();
    let mut expected = Expected {
        groups: BTreeMap::new(),
        passed: 0,
    };
    if program.keys.is_empty() {
        expected.groups.insert(vec![], fresh());
    }
    let mut refused = false;
    for cells in rows {
        let row = Row {
            program,
            arguments,
            cells,
        };
        // A row's refusal is the query's, and the kernel still evaluates the other rows.
        let mut one = || -> Answer<()> {
            for conjunct in &program.conjuncts {
                if !row.is_true(conjunct)? {
                    return Ok(());
                }
            }
            expected.passed += 1;
            let keys = program.keys.iter().map(|e| {
                let ty = program.type_of(e).expect("valid");
                let cell = row.eval(e)?;
                cell.map_or(Ok(()), decimals::in_eight_bytes)?;
                Ok(key(ty, cell))
            });
            let keys = keys.collect::<Answer<Vec<_>>>()?;
            let totals = expected.groups.entry(keys).or_insert_with(fresh);
            program
                .aggregates
                .iter()
                .zip(totals)
                .try_for_each(|(a, total)| add(&row, a, total))
        };
        refused |= one().is_err();
    }
    if refused { Err(Refused) } else { Ok(expected) }
}
