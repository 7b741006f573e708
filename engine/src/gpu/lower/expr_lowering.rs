//! [`ExprLowering`]: physical expressions over a table's columns become expressions of a program.

use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column as ColumnRef, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr_common::physical_expr::fmt_sql;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Expr, Type};

use super::function;
use super::program_builder::{BuiltProgram, ProgramBuilder};
use super::typed_expr::{TypedExpr, binary};
use super::types::{can_cast, can_try_cast, is_number, type_of};
use crate::gpu::refusal::Refusal;

/// Maximum nesting of an expression: kernels of deeper expressions compile slowly.
const MAX_DEPTH: usize = 100;

/// Lowers the expressions of one program.
pub(super) struct ExprLowering {
    program: ProgramBuilder,
    /// Nesting of the expression that is being lowered.
    depth: usize,
}

impl ExprLowering {
    pub(super) fn new(table: SchemaRef) -> Self {
        Self {
            program: ProgramBuilder::new(table),
            depth: 0,
        }
    }

    /// The program of expressions that `self` has lowered.
    pub(super) fn finish(self, conjuncts: Vec<Expr>, keys: Vec<Expr>, aggregates: Vec<Aggregate>) -> BuiltProgram {
        self.program.finish(conjuncts, keys, aggregates)
    }

    /// A condition: an expression of type BOOLEAN.
    pub(super) fn boolean(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr, Refusal> {
        let typed = self.lower(expr)?;
        match typed.ty {
            Type::Bool => Ok(typed.expr),
            _ => Err(Refusal::NotBoolean(fmt_sql(expr.as_ref()).to_string())),
        }
    }

    /// Any expression over the table's columns.
    pub(super) fn lower(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<TypedExpr, Refusal> {
        if self.depth >= MAX_DEPTH {
            return Err(Refusal::TooDeep { max_depth: MAX_DEPTH });
        }
        self.depth += 1;
        let before = self.program.size();
        let lowered = self.lower_node(expr).or_else(|refusal| {
            self.program.cut(before);
            self.program.text_function(expr).ok_or(refusal)
        });
        self.depth -= 1;
        lowered
    }

    fn lower_node(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<TypedExpr, Refusal> {
        if let Some(column) = expr.downcast_ref::<ColumnRef>() {
            return self.program.column(column.index());
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.program.literal(expr, literal);
        }
        if let Some(operation) = expr.downcast_ref::<BinaryExpr>() {
            return self.operation(expr, operation);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let value = self.boolean(not.arg())?;
            return Ok(TypedExpr::new(Expr::Not(Box::new(value)), Type::Bool));
        }
        if let Some(test) = expr.downcast_ref::<IsNullExpr>() {
            let value = self.lower(test.arg())?;
            return Ok(TypedExpr::new(Expr::IsNull(Box::new(value.expr)), Type::Bool));
        }
        if let Some(test) = expr.downcast_ref::<IsNotNullExpr>() {
            let value = self.lower(test.arg())?;
            let is_null = Expr::IsNull(Box::new(value.expr));
            return Ok(TypedExpr::new(Expr::Not(Box::new(is_null)), Type::Bool));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let value = self.lower(negative.arg())?;
            return match is_number(value.ty) || matches!(value.ty, Type::Decimal { .. }) {
                true => Ok(TypedExpr::new(Expr::Negate(Box::new(value.expr)), value.ty)),
                false => Err(Refusal::not_computed(expr)),
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
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            return self.try_cast(expr, cast.expr(), cast.cast_type());
        }
        if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return function::lower(expr, call, &mut |argument| self.lower(argument));
        }
        Err(if expr.downcast_ref::<LikeExpr>().is_some() {
            Refusal::NotComputed("LIKE".to_owned())
        } else {
            Refusal::not_computed(expr)
        })
    }

    fn operation(&mut self, expr: &Arc<dyn PhysicalExpr>, operation: &BinaryExpr) -> Result<TypedExpr, Refusal> {
        let (left, right) = (self.lower(operation.left())?, self.lower(operation.right())?);
        let op = operator(*operation.op()).ok_or_else(|| Refusal::not_computed(expr))?;
        if let Some(ty) = Type::of_decimals(op, left.ty, right.ty) {
            return Ok(TypedExpr::new(binary(op, left.expr, right.expr), ty));
        }
        if left.ty != right.ty {
            return Err(Refusal::not_computed(expr));
        }
        let ty = match op {
            BinaryOp::And | BinaryOp::Or if left.ty == Type::Bool => Type::Bool,
            BinaryOp::And | BinaryOp::Or => return Err(Refusal::not_computed(expr)),
            BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply | BinaryOp::Divide | BinaryOp::Modulo => {
                if !is_number(left.ty) {
                    return Err(Refusal::not_computed(expr));
                }
                left.ty
            }
            BinaryOp::Lt | BinaryOp::LtEq | BinaryOp::Gt | BinaryOp::GtEq if left.ty == Type::Code => {
                return Err(Refusal::OrdersStrings(fmt_sql(expr.as_ref()).to_string()));
            }
            _ => Type::Bool,
        };
        Ok(TypedExpr::new(binary(op, left.expr, right.expr), ty))
    }

    fn in_list(&mut self, expr: &Arc<dyn PhysicalExpr>, list: &InListExpr) -> Result<TypedExpr, Refusal> {
        let value = self.lower(list.expr())?;
        let mut items = Vec::with_capacity(list.list().len());
        for item in list.list() {
            let item = self.lower(item)?;
            if item.ty != value.ty {
                return Err(Refusal::not_computed(expr));
            }
            items.push(item.expr);
        }
        let expr = Expr::InList {
            value: Box::new(value.expr),
            list: items,
            negated: list.negated(),
        };
        Ok(TypedExpr::new(expr, Type::Bool))
    }

    fn case(&mut self, expr: &Arc<dyn PhysicalExpr>, case: &CaseExpr) -> Result<TypedExpr, Refusal> {
        let base = case.expr().map(|base| self.lower(base)).transpose()?;
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        let mut results = Vec::new();
        for (when, then) in case.when_then_expr() {
            let condition = match &base {
                None => self.boolean(when)?,
                Some(base) => {
                    let when = self.lower(when)?;
                    if when.ty != base.ty {
                        return Err(Refusal::not_computed(expr));
                    }
                    binary(BinaryOp::Eq, base.expr.clone(), when.expr)
                }
            };
            let then = self.lower(then)?;
            results.push(then.ty);
            branches.push((condition, then.expr));
        }
        let otherwise = case.else_expr().map(|other| self.lower(other)).transpose()?;
        results.extend(otherwise.iter().map(|other| other.ty));
        let ty = *results.first().ok_or_else(|| Refusal::not_computed(expr))?;
        if results.iter().any(|other| *other != ty) {
            return Err(Refusal::not_computed(expr));
        }
        let otherwise = otherwise.map(|other| Box::new(other.expr));
        Ok(TypedExpr::new(Expr::Case { branches, otherwise }, ty))
    }

    fn cast(&mut self, expr: &Arc<dyn PhysicalExpr>, cast: &CastExpr) -> Result<TypedExpr, Refusal> {
        if cast.cast_options().safe {
            return self.try_cast(expr, cast.expr(), cast.cast_type());
        }
        let value = self.lower(cast.expr())?;
        match type_of(cast.cast_type()) {
            Some(to) if to == value.ty => Ok(value),
            Some(to) if can_cast(value.ty, to) => {
                let value = Box::new(value.expr);
                Ok(TypedExpr::new(Expr::Cast { value, to }, to))
            }
            _ => Err(Refusal::not_computed(expr)),
        }
    }

    /// A cast that gives NULL for a value that does not fit, where another cast fails.
    fn try_cast(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        value: &Arc<dyn PhysicalExpr>,
        to: &DataType,
    ) -> Result<TypedExpr, Refusal> {
        let value = self.lower(value)?;
        match type_of(to) {
            Some(to) if to == value.ty => Ok(value),
            Some(to) if can_try_cast(value.ty, to) => {
                let value = Box::new(value.expr);
                Ok(TypedExpr::new(Expr::TryCast { value, to }, to))
            }
            _ => Err(Refusal::not_computed(expr)),
        }
    }
}

/// The program's operator; `None` if programs do not have it.
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
