//! The interpreter: a program evaluated one row at a time, without thought of speed. Kernels are compared with it.
//! Dates are chrono's.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::decimals;
use chrono::{DateTime, Datelike, Duration, NaiveDate, NaiveDateTime, Timelike};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type};

/// A value that is not NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scalar {
    Int(i64),
    Float(f64),
    Bool(bool),
}
use Scalar::{Bool, Float, Int};

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
            Float(_) => unreachable!("an integer was expected"),
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
            (a, b) => a.int().cmp(&b.int()),
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
fn wrap(ty: Type, v: i128) -> Scalar {
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
                (Some(v), Type::Decimal { .. }) => Some(decimals::in_eight_bytes(-i128::from(v.int()))?),
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
                        Some(decimals::operation(*op, types, a.int(), b.int())?)
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
            Expr::Math { function, value } => self.eval(value)?.map(|v| math(*function, ty, v)),
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
fn math(function: MathFunction, ty: Type, value: Scalar) -> Scalar {
    let Float(value) = value else {
        unreachable!("a float was expected");
    };
    let single = value as f32;
    Float(match (function, ty) {
        (MathFunction::Floor, _) => value.floor(),
        (MathFunction::Ceil, _) => value.ceil(),
        (MathFunction::Abs, _) => value.abs(),
        (MathFunction::Sqrt, Type::Float32) => f64::from(single.sqrt()),
        (MathFunction::Sqrt, _) => value.sqrt(),
    })
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

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn cast(v: Scalar, from: Type, to: Type) -> Answer<Scalar> {
    let number = |ty: Type| matches!(ty, Type::Float32 | Type::Float64);
    match (from, to) {
        _ if from == to => Ok(v),
        (Type::Decimal { .. }, _) | (_, Type::Decimal { .. }) => decimals::cast(v.int(), from, to),
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

fn date_of(date: NaiveDate) -> i32 {
    let days = date.signed_duration_since(NaiveDate::default()).num_days();
    i32::try_from(days).expect("a date of the calendar")
}

/// A date or time of chrono's calendar.
fn moment(ty: Type, v: i64) -> Answer<NaiveDateTime> {
    let (seconds, nanos) = match ty {
        Type::Timestamp(unit) => {
            let scale = per_second(unit);
            let (second, rest) = (i128::from(v).div_euclid(scale), i128::from(v).rem_euclid(scale));
            (second, rest * (1_000_000_000 / scale))
        }
        _ => (i128::from(v) * 86_400, 0),
    };
    let seconds = i64::try_from(seconds).map_err(|_| Refused)?;
    DateTime::from_timestamp(seconds, nanos as u32)
        .map(|t| t.naive_utc())
        .ok_or(Refused)
}

fn extract(part: DatePart, ty: Type, v: i64) -> Answer<Scalar> {
    let of_time = matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second);
    if ty == Type::Date32 && of_time {
        return Ok(Int(0));
    }
    let t = moment(ty, v)?;
    Ok(Int(i64::from(match part {
        DatePart::Year => t.year(),
        DatePart::Quarter => t.quarter() as i32,
        DatePart::Month => t.month() as i32,
        DatePart::Week => t.iso_week().week() as i32,
        DatePart::Day => t.day() as i32,
        DatePart::DayOfWeek => t.weekday().num_days_from_sunday() as i32,
        DatePart::DayOfYear => t.ordinal() as i32,
        DatePart::Hour => t.hour() as i32,
        DatePart::Minute => t.minute() as i32,
        DatePart::Second => t.second() as i32,
    })))
}

fn truncate(part: DatePart, ty: Type, v: i64) -> Answer<Scalar> {
    let Type::Timestamp(unit) = ty else {
        unreachable!("a timestamp")
    };
    let scale = per_second(unit);
    let length = match part {
        DatePart::Second => scale,
        DatePart::Minute => 60 * scale,
        DatePart::Hour => 3_600 * scale,
        DatePart::Day => 86_400 * scale,
        _ => {
            let ns = |v: i128| fits(ty, v * (1_000_000_000 / scale));
            ns(i128::from(v))?;
            let day = moment(ty, v)?.date();
            let first = match part {
                DatePart::Week => day - Duration::days(i64::from(day.weekday().num_days_from_monday())),
                DatePart::Month => day.with_day(1).expect("a day"),
                DatePart::Quarter => NaiveDate::from_ymd_opt(day.year(), day.month0() / 3 * 3 + 1, 1).expect("a day"),
                _ => NaiveDate::from_ymd_opt(day.year(), 1, 1).expect("a day"),
            };
            let time = i128::from(date_of(first)) * 86_400 * scale;
            ns(time)?;
            return Ok(Int(time as i64));
        }
    };
    let v = i128::from(v);
    Ok(wrap(ty, v - v.rem_euclid(length)))
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
        _ => Total::Extreme(None),
    }
}

fn add(row: &Row<'_>, a: &Aggregate, total: &mut Total) -> Answer<()> {
    if let Some(filter) = &a.filter
        && !row.is_true(filter)?
    {
        // The kernel computes the argument even if the filter is false.
        a.argument.as_ref().map_or(Ok(None), |e| row.eval(e))?;
        return Ok(());
    }
    let cell = a.argument.as_ref().map_or(Ok(Some(Int(0))), |e| row.eval(e))?;
    let Some(v) = cell else { return Ok(()) };
    match total {
        Total::Exact(sum) => {
            let by = if a.function == Function::Count {
                1
            } else {
                i128::from(v.int())
            };
            *sum = Some(sum.unwrap_or(0) + by);
        }
        Total::Sum(sum) => {
            let (value, size) = sum.unwrap_or_default();
            *sum = Some((value + v.float(), size + v.float().abs()));
        }
        Total::Extreme(extreme) => {
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
                row.eval(e).map(|cell| key(ty, cell))
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
