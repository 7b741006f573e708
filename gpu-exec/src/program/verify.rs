//! Types of expressions, and the check that kernels can compute a program.
//!
//! A refusal is a sentence that a planner can keep as its reason.

use super::{Aggregate, BinaryOp, DatePart, Expr, Function, MAX_DECIMAL_DIGITS, Program, Type};
use crate::error::RunError;

/// Columns of a program. Their descriptions are part of a kernel's parameter, which older drivers limit to 4 KiB.
pub const MAX_COLUMNS: usize = 64;
/// Nesting of an expression. Functions over expressions recurse.
const MAX_DEPTH: usize = 200;
/// Operators, columns and literals of a program. A kernel grows with their number, and so does its compile time.
const MAX_NODES: usize = 2000;

fn refuse<T>(reason: impl Into<String>) -> Result<T, RunError> {
    Err(RunError::Invalid(reason.into()))
}

impl Type {
    fn is_integer(self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Whether values of both types can be compared and share a column. Decimals can if their scales agree, whatever
    /// their digits.
    fn fits(self, other: Self) -> bool {
        match (self, other) {
            (Self::Decimal { scale: a, .. }, Self::Decimal { scale: b, .. }) => a == b,
            _ => self == other,
        }
    }

    /// The type that holds the values of both, for types that fit.
    fn wider(self, other: Self) -> Self {
        match (self, other) {
            (Self::Decimal { precision: a, scale }, Self::Decimal { precision: b, .. }) => Self::Decimal {
                precision: a.max(b),
                scale,
            },
            _ => self,
        }
    }
}

impl Program {
    /// Checks that all references resolve, that types agree, and that kernels can compute the program.
    ///
    /// # Errors
    /// [`RunError::Invalid`] with the reason.
    pub fn check(&self) -> Result<(), RunError> {
        if self.columns.len() > MAX_COLUMNS {
            return refuse(format!(
                "{} columns, kernels take at most {MAX_COLUMNS}",
                self.columns.len()
            ));
        }
        for (name, ty) in self.columns.iter().map(|c| (c.name.as_str(), c.ty)) {
            check_digits(name, ty)?;
        }
        for &ty in &self.arguments {
            check_digits("a literal", ty)?;
        }
        let nodes = self.expressions().map(|e| size(e, MAX_DEPTH)).sum::<Option<usize>>();
        if nodes.is_none_or(|nodes| nodes > MAX_NODES) {
            return refuse("expressions are nested too deeply, or too long, for a kernel");
        }
        for conjunct in &self.conjuncts {
            self.expect(conjunct, Type::Bool, "a filter")?;
        }
        for key in &self.keys {
            self.type_of(key)?;
        }
        for aggregate in &self.aggregates {
            self.type_of_aggregate(aggregate)?;
        }
        if self.keys.is_empty() && self.aggregates.is_empty() {
            return refuse("there is nothing to compute: neither keys nor aggregates");
        }
        Ok(())
    }

    /// All expressions, conjuncts first.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let of_aggregates = self.aggregates.iter().flat_map(|a| a.argument.iter().chain(&a.filter));
        self.conjuncts.iter().chain(&self.keys).chain(of_aggregates)
    }

    /// The type of an expression over the program's columns and arguments.
    ///
    /// # Errors
    /// [`RunError::Invalid`]: operands that do not agree, or an operation that kernels do not compute.
    pub fn type_of(&self, expr: &Expr) -> Result<Type, RunError> {
        match expr {
            Expr::Column(at) => match self.columns.get(*at) {
                Some(column) => Ok(column.ty),
                None => refuse(format!("column {at} of {}", self.columns.len())),
            },
            Expr::Argument(at) => match self.arguments.get(*at) {
                Some(ty) => Ok(*ty),
                None => refuse(format!("literal {at} of {}", self.arguments.len())),
            },
            Expr::Null(ty) => check_digits("NULL", *ty).map(|()| *ty),
            Expr::Not(value) => self.expect(value, Type::Bool, "NOT"),
            Expr::Negate(value) => match self.type_of(value)? {
                ty if ty.is_integer() || ty.is_float() || matches!(ty, Type::Decimal { .. }) => Ok(ty),
                ty => refuse(format!("minus a {ty}")),
            },
            Expr::IsNull(value) => self.type_of(value).map(|_| Type::Bool),
            Expr::Binary { op, left, right } => self.type_of_binary(*op, left, right),
            Expr::InList { value, list, .. } => {
                let ty = self.type_of(value)?;
                self.all_fit(ty, list.iter(), "IN")?;
                Ok(Type::Bool)
            }
            Expr::Case { branches, otherwise } => {
                for (condition, _) in branches {
                    self.expect(condition, Type::Bool, "CASE WHEN")?;
                }
                let mut results = branches.iter().map(|(_, result)| result).chain(otherwise.as_deref());
                match (branches.first(), results.next()) {
                    (Some(_), Some(first)) => self.all_fit(self.type_of(first)?, results, "CASE"),
                    _ => refuse("CASE without a branch"),
                }
            }
            Expr::Coalesce(values) => match values.split_first() {
                Some((first, rest)) => self.all_fit(self.type_of(first)?, rest.iter(), "COALESCE"),
                None => refuse("COALESCE of nothing"),
            },
            Expr::Cast { value, to } => self.type_of_cast(value, *to, ("cast", castable)),
            Expr::TryCast { value, to } => self.type_of_cast(value, *to, ("try to cast", tries_cast)),
            Expr::Math { function, value } => match self.type_of(value)? {
                ty if ty.is_float() => Ok(ty),
                ty => refuse(format!("{function} of a {ty}")),
            },
            Expr::Extract { part, value } => match self.type_of(value)? {
                Type::Date32 | Type::Timestamp(_) => Ok(Type::Int32),
                ty => refuse(format!("{part} of a {ty}")),
            },
            Expr::Truncate { part, value } => match self.type_of(value)? {
                ty @ Type::Timestamp(_) if *part != DatePart::DayOfWeek && *part != DatePart::DayOfYear => Ok(ty),
                ty => refuse(format!("kernels do not truncate a {ty} to {part}")),
            },
        }
    }

    /// `rule`: what a cast is called, and whether kernels compute it.
    fn type_of_cast(&self, value: &Expr, to: Type, rule: (&str, fn(Type, Type) -> bool)) -> Result<Type, RunError> {
        let ((verb, computes), from) = (rule, self.type_of(value)?);
        check_digits("a cast", to)?;
        match computes(from, to) {
            true => Ok(to),
            false => refuse(format!("kernels do not {verb} {from} to {to}")),
        }
    }

    fn type_of_binary(&self, op: BinaryOp, left: &Expr, right: &Expr) -> Result<Type, RunError> {
        let (a, b) = (self.type_of(left)?, self.type_of(right)?);
        if let Some(ty) = Type::of_decimals(op, a, b) {
            return Ok(ty);
        }
        if !a.fits(b) {
            return refuse(format!("{a} {op} {b}: the operands' types differ"));
        }
        let number = a.is_integer() || a.is_float();
        match op {
            BinaryOp::And | BinaryOp::Or if a == Type::Bool => Ok(a),
            BinaryOp::Eq | BinaryOp::NotEq | BinaryOp::IsDistinctFrom | BinaryOp::IsNotDistinctFrom => Ok(Type::Bool),
            BinaryOp::Lt | BinaryOp::LtEq | BinaryOp::Gt | BinaryOp::GtEq if a != Type::Code => Ok(Type::Bool),
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo if number => {
                Ok(a)
            }
            _ => refuse(format!("kernels do not compute {a} {op} {b}")),
        }
    }

    /// The type of an aggregate's result.
    ///
    /// # Errors
    /// As [`type_of`](Self::type_of).
    pub fn type_of_aggregate(&self, aggregate: &Aggregate) -> Result<Type, RunError> {
        if let Some(filter) = &aggregate.filter {
            self.expect(filter, Type::Bool, "FILTER")?;
        }
        let argument = aggregate.argument.as_ref().map(|e| self.type_of(e)).transpose()?;
        match (aggregate.function, argument) {
            (Function::Count, _) => Ok(Type::Int64),
            (function, None) => refuse(format!("{function} of nothing")),
            (Function::Sum, Some(ty)) if ty.is_integer() => Ok(Type::Int64),
            (Function::Sum, Some(ty)) if ty.is_float() => Ok(Type::Float64),
            (Function::Sum, Some(Type::Decimal { scale, .. })) => Ok(Type::Decimal {
                precision: MAX_DECIMAL_DIGITS,
                scale,
            }),
            (Function::Min | Function::Max, Some(ty)) if ty != Type::Code => Ok(ty),
            (Function::BitAnd | Function::BitOr | Function::BitXor, Some(ty)) if ty.is_integer() => Ok(ty),
            (Function::Moments, Some(Type::Float64)) => Ok(Type::Float64),
            (function, Some(ty)) => refuse(format!("{function} of a {ty}")),
        }
    }

    /// Whether an expression can be NULL if the columns for which `nullable` is true can be.
    pub fn can_be_null(&self, expr: &Expr, nullable: &dyn Fn(usize) -> bool) -> bool {
        let of = |e: &Expr| self.can_be_null(e, nullable);
        match expr {
            Expr::Column(at) => nullable(*at),
            Expr::Argument(_) | Expr::IsNull(_) => false,
            Expr::Null(_) | Expr::TryCast { .. } => true,
            Expr::Not(value) | Expr::Negate(value) => of(value),
            Expr::Cast { value, .. } | Expr::Extract { value, .. } | Expr::Truncate { value, .. } => of(value),
            Expr::Math { value, .. } => of(value),
            Expr::Binary {
                op: BinaryOp::IsDistinctFrom | BinaryOp::IsNotDistinctFrom,
                ..
            } => false,
            Expr::Binary { left, right, .. } => of(left) || of(right),
            Expr::InList { value, list, .. } => of(value) || list.iter().any(of),
            Expr::Case { branches, otherwise } => {
                branches.iter().any(|(_, result)| of(result)) || otherwise.as_ref().is_none_or(|e| of(e))
            }
            Expr::Coalesce(values) => values.iter().all(of),
        }
    }

    fn expect(&self, expr: &Expr, wanted: Type, place: &str) -> Result<Type, RunError> {
        match self.type_of(expr)? {
            ty if ty == wanted => Ok(ty),
            ty => refuse(format!("{place} takes a {wanted}, not a {ty}")),
        }
    }

    fn all_fit<'a>(&self, first: Type, rest: impl Iterator<Item = &'a Expr>, place: &str) -> Result<Type, RunError> {
        rest.map(|e| self.type_of(e)).try_fold(first, |all, ty| {
            let ty = ty?;
            if !all.fits(ty) {
                return refuse(format!("{place} mixes {all} and {ty}"));
            }
            Ok(all.wider(ty))
        })
    }
}

fn check_digits(what: &str, ty: Type) -> Result<(), RunError> {
    match ty {
        Type::Decimal { precision, .. } if precision == 0 || precision > MAX_DECIMAL_DIGITS => refuse(format!(
            "{what} is a {ty}: kernels take decimals of 1 to {MAX_DECIMAL_DIGITS} digits"
        )),
        Type::Decimal { precision, scale } if !(0..=precision as i8).contains(&scale) => refuse(format!(
            "{what} is a {ty}: kernels take scales from 0 to the number of digits"
        )),
        _ => Ok(()),
    }
}

/// Whether kernels compute the cast as arrow does.
fn castable(from: Type, to: Type) -> bool {
    let number = |ty: Type| ty.is_integer() || ty.is_float();
    let stored_as = |ty: Type| match ty {
        Type::Date32 => Type::Int32,
        Type::Timestamp(_) => Type::Int64,
        other => other,
    };
    match (from, to) {
        _ if from == to || Type::casts_decimal(from, to) => true,
        (Type::Bool, to) => number(to),
        (from, Type::Bool) => number(from),
        (Type::Date32, Type::Timestamp(_))
        | (Type::Timestamp(_), Type::Date32)
        | (Type::Timestamp(_), Type::Timestamp(_)) => true,
        (Type::Date32 | Type::Timestamp(_), to) => stored_as(from) == to,
        (from, Type::Date32 | Type::Timestamp(_)) => from == stored_as(to),
        _ => number(from) && number(to),
    }
}

/// Whether kernels compute the cast as arrow does, with NULL for a value that does not fit.
fn tries_cast(from: Type, to: Type) -> bool {
    let number = |ty: Type| ty.is_integer() || ty.is_float() || ty == Type::Bool;
    Type::casts_decimal(from, to) || (number(from) && number(to))
}

/// Direct operands of an expression.
pub(crate) fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Column(_) | Expr::Argument(_) | Expr::Null(_) => Vec::new(),
        Expr::Not(value) | Expr::Negate(value) | Expr::IsNull(value) => vec![value],
        Expr::Cast { value, .. } | Expr::TryCast { value, .. } => vec![value],
        Expr::Extract { value, .. } | Expr::Truncate { value, .. } => vec![value],
        Expr::Math { value, .. } => vec![value],
        Expr::Binary { left, right, .. } => vec![left, right],
        Expr::InList { value, list, .. } => [value.as_ref()].into_iter().chain(list).collect(),
        Expr::Case { branches, otherwise } => branches
            .iter()
            .flat_map(|(condition, result)| [condition, result])
            .chain(otherwise.as_deref())
            .collect(),
        Expr::Coalesce(values) => values.iter().collect(),
    }
}

/// The expressions and all their operands, in no order.
pub(crate) fn nodes<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> impl Iterator<Item = &'a Expr> {
    let mut open: Vec<&Expr> = exprs.into_iter().collect();
    std::iter::from_fn(move || {
        let expr = open.pop()?;
        open.extend(operands(expr));
        Some(expr)
    })
}

/// Nodes of an expression. `None`: nested deeper than `depth`.
fn size(expr: &Expr, depth: usize) -> Option<usize> {
    let below = depth.checked_sub(1)?;
    operands(expr)
        .into_iter()
        .try_fold(1usize, |sum, e| Some(sum.saturating_add(size(e, below)?)))
}
