//! One physical expression over the table's columns to one of the program's. SQL functions are found in `function`.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnRef, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{BinaryOp, Column, Expr, Type, Value};

use super::types::{refused, type_of, value_of};
use super::{Reason, function};
use crate::gpu::string_dictionary::Dictionary;

/// Expressions nested deeper than this are left to the CPU: kernels of them compile slowly.
const MAX_DEPTH: usize = 100;

/// An expression and the type of its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Typed {
    pub(super) expr: Expr,
    pub(super) ty: Type,
}

impl Typed {
    pub(super) fn new(expr: Expr, ty: Type) -> Self {
        Self { expr, ty }
    }
}

/// Collects the columns and literals of a program's expressions while they are lowered.
pub(super) struct Builder<'a> {
    table: SchemaRef,
    dictionary: &'a Dictionary,
    columns: Vec<Column>,
    /// By position in `columns`.
    table_columns: Vec<usize>,
    arguments: Vec<Type>,
    values: Vec<Value>,
    /// By address: what two expressions share (a projected column, say) has one argument. Each literal is kept, so that no other
    /// comes to its address.
    literals: HashMap<*const u8, (Arc<dyn PhysicalExpr>, Typed)>,
    depth: usize,
}

/// What a [`Builder`] has collected.
pub(super) struct Parts {
    pub(super) columns: Vec<Column>,
    pub(super) table_columns: Vec<usize>,
    pub(super) arguments: Vec<Type>,
    pub(super) values: Vec<Value>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(table: SchemaRef, dictionary: &'a Dictionary) -> Self {
        Self {
            table,
            dictionary,
            columns: Vec::new(),
            table_columns: Vec::new(),
            arguments: Vec::new(),
            values: Vec::new(),
            literals: HashMap::new(),
            depth: 0,
        }
    }

    pub(super) fn into_parts(self) -> Parts {
        Parts {
            columns: self.columns,
            table_columns: self.table_columns,
            arguments: self.arguments,
            values: self.values,
        }
    }

    /// A condition.
    pub(super) fn boolean(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr, Reason> {
        let typed = self.lower(expr)?;
        match typed.ty {
            Type::Bool => Ok(typed.expr),
            _ => Err(format!("{} is used as a condition", fmt_sql(expr.as_ref()))),
        }
    }

    /// `expr`, which is over the table's columns.
    pub(super) fn lower(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, Reason> {
        if self.depth >= MAX_DEPTH {
            return Err(format!("an expression is nested more than {MAX_DEPTH} deep"));
        }
        self.depth += 1;
        let lowered = self.lower_node(expr);
        self.depth -= 1;
        lowered
    }

    fn lower_node(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Typed, Reason> {
        if let Some(column) = expr.downcast_ref::<ColumnRef>() {
            return self.column(column.index());
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.literal(expr, literal);
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(expr, binary);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let value = self.boolean(not.arg())?;
            return Ok(Typed::new(Expr::Not(Box::new(value)), Type::Bool));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            let value = self.lower(test.arg())?;
            return Ok(Typed::new(Expr::IsNull(Box::new(value.expr)), Type::Bool));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            let value = self.lower(test.arg())?;
            let is_null = Expr::IsNull(Box::new(value.expr));
            return Ok(Typed::new(Expr::Not(Box::new(is_null)), Type::Bool));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let value = self.lower(negative.arg())?;
            return match is_number(value.ty) {
                true => Ok(Typed::new(Expr::Negate(Box::new(value.expr)), value.ty)),
                false => Err(not_computed(expr)),
            };
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(expr, list);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(expr, case);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(expr, cast);
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return function::lower(self, expr, call);
        }
        Err(if expr.downcast_ref::<LikeExpr>().is_some() {
            "LIKE is not computed on the GPU".to_owned()
        } else if expr.downcast_ref::<TryCastExpr>().is_some() {
            "TRY_CAST is not computed on the GPU".to_owned()
        } else {
            not_computed(expr)
        })
    }

    fn column(&mut self, at: usize) -> Result<Typed, Reason> {
        let Some(field) = self.table.fields().get(at) else {
            return Err(format!("column {at} is not the table's"));
        };
        let Some(ty) = type_of(field.data_type()) else {
            return Err(refused(&format!("column {}", field.name()), field.data_type()));
        };
        let known = self.table_columns.iter().position(|&known| known == at);
        let position = known.unwrap_or_else(|| {
            self.table_columns.push(at);
            self.columns.push(Column {
                name: field.name().clone(),
                ty,
                // ORC has no column that promises not to be NULL.
                nullable: true,
            });
            self.columns.len() - 1
        });
        Ok(Typed::new(Expr::Column(position), ty))
    }

    fn literal(&mut self, expr: &Arc<dyn PhysicalExpr>, literal: &Literal) -> Result<Typed, Reason> {
        let address = Arc::as_ptr(expr).cast::<u8>();
        if let Some((_, typed)) = self.literals.get(&address) {
            return Ok(typed.clone());
        }
        let value = literal.value();
        let data_type = value.data_type();
        let Some(ty) = type_of(&data_type) else {
            return Err(refused(&value.to_string(), &data_type));
        };
        let typed = match value_of(value, self.dictionary)? {
            None => Typed::new(Expr::Null(ty), ty),
            Some(value) => {
                self.arguments.push(ty);
                self.values.push(value);
                Typed::new(Expr::Argument(self.values.len() - 1), ty)
            }
        };
        self.literals.insert(address, (Arc::clone(expr), typed.clone()));
        Ok(typed)
    }

    fn binary(&mut self, expr: &Arc<dyn PhysicalExpr>, binary: &BinaryExpr) -> Result<Typed, Reason> {
        let (left, right) = (self.lower(binary.left())?, self.lower(binary.right())?);
        let op = operator(*binary.op()).ok_or_else(|| not_computed(expr))?;
        if let Some(ty) = decimal_sum(op, left.ty, right.ty) {
            return Ok(Typed::new(comparison(op, left.expr, right.expr), ty));
        }
        if left.ty != right.ty {
            return Err(not_computed(expr));
        }
        let ty = match op {
            BinaryOp::And | BinaryOp::Or if left.ty == Type::Bool => Type::Bool,
            BinaryOp::And | BinaryOp::Or => return Err(not_computed(expr)),
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => {
                if !is_number(left.ty) {
                    return Err(not_computed(expr));
                }
                left.ty
            }
            BinaryOp::Lt | BinaryOp::LtEq | BinaryOp::Gt | BinaryOp::GtEq if left.ty == Type::Code => {
                return Err(format!(
                    "{} orders strings, which the GPU only tests for equality",
                    fmt_sql(expr.as_ref())
                ));
            }
            _ => Type::Bool,
        };
        Ok(Typed::new(comparison(op, left.expr, right.expr), ty))
    }

    fn in_list(&mut self, expr: &Arc<dyn PhysicalExpr>, list: &InListExpr) -> Result<Typed, Reason> {
        let value = self.lower(list.expr())?;
        let mut items = Vec::with_capacity(list.list().len());
        for item in list.list() {
            let item = self.lower(item)?;
            if item.ty != value.ty {
                return Err(not_computed(expr));
            }
            items.push(item.expr);
        }
        let expr = Expr::InList {
            value: Box::new(value.expr),
            list: items,
            negated: list.negated(),
        };
        Ok(Typed::new(expr, Type::Bool))
    }

    fn case(&mut self, expr: &Arc<dyn PhysicalExpr>, case: &CaseExpr) -> Result<Typed, Reason> {
        let base = case.expr().map(|base| self.lower(base)).transpose()?;
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        let mut results = Vec::new();
        for (when, then) in case.when_then_expr() {
            let condition = match &base {
                None => self.boolean(when)?,
                Some(base) => {
                    let when = self.lower(when)?;
                    if when.ty != base.ty {
                        return Err(not_computed(expr));
                    }
                    comparison(BinaryOp::Eq, base.expr.clone(), when.expr)
                }
            };
            let then = self.lower(then)?;
            results.push(then.ty);
            branches.push((condition, then.expr));
        }
        let otherwise = case.else_expr().map(|other| self.lower(other)).transpose()?;
        results.extend(otherwise.iter().map(|other| other.ty));
        let ty = *results.first().ok_or_else(|| not_computed(expr))?;
        if results.iter().any(|other| *other != ty) {
            return Err(not_computed(expr));
        }
        let otherwise = otherwise.map(|other| Box::new(other.expr));
        Ok(Typed::new(Expr::Case { branches, otherwise }, ty))
    }

    fn cast(&mut self, expr: &Arc<dyn PhysicalExpr>, cast: &CastExpr) -> Result<Typed, Reason> {
        let value = self.lower(cast.expr())?;
        // A safe cast gives NULL where others fail: that is TRY_CAST.
        let to = type_of(cast.cast_type()).filter(|_| !cast.cast_options().safe);
        match to {
            Some(to) if to == value.ty => Ok(value),
            Some(to) if can_cast(value.ty, to) => {
                let value = Box::new(value.expr);
                Ok(Typed::new(Expr::Cast { value, to }, to))
            }
            _ => Err(not_computed(expr)),
        }
    }
}

/// `op` of two operands.
pub(super) fn comparison(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    }
}

/// Why `expr` is left to the CPU, where there is no more to say.
pub(super) fn not_computed(expr: &Arc<dyn PhysicalExpr>) -> Reason {
    const SHOWN: usize = 80;
    let text = fmt_sql(expr.as_ref()).to_string();
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("{shown}{more} is not computed on the GPU")
}

fn operator(op: Operator) -> Option<BinaryOp> {
    Some(match op {
        Operator::Plus => BinaryOp::Add,
        Operator::Minus => BinaryOp::Subtract,
        Operator::Multiply => BinaryOp::Multiply,
        Operator::Divide => BinaryOp::Divide,
        Operator::Modulo => BinaryOp::Modulo,
        Operator::Eq => BinaryOp::Eq,
        Operator::NotEq => BinaryOp::NotEq,
        Operator::Lt => BinaryOp::Lt,
        Operator::LtEq => BinaryOp::LtEq,
        Operator::Gt => BinaryOp::Gt,
        Operator::GtEq => BinaryOp::GtEq,
        Operator::And => BinaryOp::And,
        Operator::Or => BinaryOp::Or,
        Operator::IsDistinctFrom => BinaryOp::IsDistinctFrom,
        Operator::IsNotDistinctFrom => BinaryOp::IsNotDistinctFrom,
        _ => return None,
    })
}

/// The type of a sum or difference of decimals of one scale, while it fits eight bytes.
fn decimal_sum(op: BinaryOp, left: Type, right: Type) -> Option<Type> {
    const MOST_DIGITS: u8 = 18;
    let (
        Type::Decimal { precision: a, scale },
        Type::Decimal {
            precision: b,
            scale: other,
        },
    ) = (left, right)
    else {
        return None;
    };
    let precision = a.max(b) + 1;
    let fits = matches!(op, BinaryOp::Add | BinaryOp::Subtract) && scale == other && precision <= MOST_DIGITS;
    fits.then_some(Type::Decimal { precision, scale })
}

/// Whether there is arithmetic on values of the type. Of decimals only sums, see [`decimal_sum`]: the digits of products grow too fast.
pub(super) fn is_number(ty: Type) -> bool {
    is_integer(ty) || is_float(ty)
}

fn is_integer(ty: Type) -> bool {
    matches!(ty, Type::Int8 | Type::Int16 | Type::Int32 | Type::Int64)
}

pub(super) fn is_float(ty: Type) -> bool {
    matches!(ty, Type::Float32 | Type::Float64)
}

fn can_cast(from: Type, to: Type) -> bool {
    match (from, to) {
        (Type::Bool, to) => is_number(to),
        (from, to) if is_number(from) => is_number(to),
        (Type::Date32, Type::Timestamp(_)) | (Type::Timestamp(_), Type::Timestamp(_) | Type::Date32) => true,
        _ => false,
    }
}
