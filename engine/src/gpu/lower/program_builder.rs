//! [`ProgramBuilder`]: the columns and literals of a program, collected while its expressions are lowered.
//!
//! A literal becomes an argument: programs that differ only in literals are equal and share one kernel.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Program, Type, Value};

use super::typed_expr::{TypedExpr, binary};
use super::types::{Argument, argument_of, type_of, unsupported};
use crate::gpu::refusal::Refusal;
use crate::gpu::text_function::{Outcome, TRUE, TextFunction};

/// Unit of the upper part of a decimal that takes more than eight bytes.
const UPPER_UNIT: i128 = 1 << 62;

/// Collects the columns and literals of a program.
pub(super) struct ProgramBuilder {
    table: SchemaRef,
    columns: Vec<Column>,
    /// By position in `columns`: the table's column.
    table_columns: Vec<usize>,
    /// By position in `columns`: what its strings are a function of.
    functions: Vec<Option<Arc<TextFunction>>>,
    arguments: Vec<Type>,
    /// By position in `arguments`.
    values: Vec<Argument>,
    /// By address: expressions that share a literal, through a projected column for example, share one argument.
    ///
    /// **Invariant:** the map holds each literal, so no other literal is allocated at the literal's address.
    literals: HashMap<*const u8, (Arc<dyn PhysicalExpr>, TypedExpr)>,
}

/// A program with what belongs to one query.
pub(super) struct BuiltProgram {
    pub(super) program: Program,
    /// By position in the program's columns: the table's column.
    pub(super) table_columns: Vec<usize>,
    /// By position in the program's columns: the function that its strings are values of.
    pub(super) functions: Vec<Option<Arc<TextFunction>>>,
    /// By position in the program's arguments.
    pub(super) values: Vec<Argument>,
}

impl ProgramBuilder {
    pub(super) fn new(table: SchemaRef) -> Self {
        Self {
            table,
            columns: Vec::new(),
            table_columns: Vec::new(),
            functions: Vec::new(),
            arguments: Vec::new(),
            values: Vec::new(),
            literals: HashMap::new(),
        }
    }

    /// The program of expressions over the columns and arguments of `self`.
    pub(super) fn finish(self, conjuncts: Vec<Expr>, keys: Vec<Expr>, aggregates: Vec<Aggregate>) -> BuiltProgram {
        BuiltProgram {
            program: Program {
                columns: self.columns,
                arguments: self.arguments,
                conjuncts,
                keys,
                aggregates,
            },
            table_columns: self.table_columns,
            functions: self.functions,
            values: self.values,
        }
    }

    /// The value of the table's column at position `at`.
    pub(super) fn column(&mut self, at: usize) -> Result<TypedExpr, Refusal> {
        let Some(field) = self.table.fields().get(at) else {
            return Err(Refusal::UnknownColumn(at));
        };
        let Some(ty) = type_of(field.data_type()) else {
            return Err(unsupported(format!("column {}", field.name()), field.data_type()));
        };
        let name = field.name().clone();
        Ok(TypedExpr::new(Expr::Column(self.position(at, None, name, ty)), ty))
    }

    /// The position of a column of the program.
    fn position(&mut self, at: usize, function: Option<Arc<TextFunction>>, name: String, ty: Type) -> usize {
        let known = self.table_columns.iter().zip(&self.functions);
        let known = known.map(|(known, of)| *known == at && *of == function);
        if let Some(position) = known.into_iter().position(|is_known| is_known) {
            return position;
        }
        self.table_columns.push(at);
        self.functions.push(function);
        // ORC has no column that promises not to be NULL.
        self.columns.push(Column::new(name, ty, true));
        self.columns.len() - 1
    }

    /// The value of a function of one string; `None`: the expression is none.
    pub(super) fn text_function(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<TypedExpr> {
        let (at, function) = TextFunction::of(expr, &self.table)?;
        let outcome = function.outcome();
        let ty = match outcome {
            Outcome::Condition | Outcome::Text => Type::Code,
            Outcome::Number(ty) => ty,
        };
        // The same for all functions: kernels have the name in their source.
        let name = format!("function of {}", self.table.field(at).name());
        let value = Expr::Column(self.position(at, Some(Arc::new(function)), name, ty));
        if outcome != Outcome::Condition {
            return Some(TypedExpr::new(value, ty));
        }
        self.arguments.push(Type::Code);
        self.values.push(Argument::Text(TRUE.into()));
        let is_true = Expr::Argument(self.values.len() - 1);
        Some(TypedExpr::new(binary(BinaryOp::Eq, value, is_true), Type::Bool))
    }

    /// Numbers of columns and arguments.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.columns.len(), self.arguments.len())
    }

    /// Drops the columns and arguments of an expression that was not lowered.
    pub(super) fn cut(&mut self, (columns, arguments): (usize, usize)) {
        self.columns.truncate(columns);
        self.table_columns.truncate(columns);
        self.functions.truncate(columns);
        self.arguments.truncate(arguments);
        self.values.truncate(arguments);
        self.literals.retain(|_, (_, typed)| match typed.expr {
            Expr::Argument(at) => at < arguments,
            _ => true,
        });
    }

    /// The argument of the literal `expr`, downcast as `literal`.
    pub(super) fn literal(&mut self, expr: &Arc<dyn PhysicalExpr>, literal: &Literal) -> Result<TypedExpr, Refusal> {
        let address = Arc::as_ptr(expr).cast::<u8>();
        if let Some((_, typed)) = self.literals.get(&address) {
            return Ok(typed.clone());
        }
        let value = literal.value();
        let data_type = value.data_type();
        let Some(ty) = type_of(&data_type) else {
            return Err(unsupported(value.to_string(), &data_type));
        };
        let typed = match (value, ty) {
            (ScalarValue::Decimal128(Some(wide), ..), Type::Decimal { scale, .. }) if i64::try_from(*wide).is_err() => {
                self.wide_decimal(*wide, scale, ty)
                    .ok_or_else(|| unsupported(value.to_string(), &data_type))?
            }
            _ => match argument_of(value)? {
                None => TypedExpr::new(Expr::Null(ty), ty),
                Some(value) => TypedExpr::new(self.argument(value, ty), ty),
            },
        };
        self.literals.insert(address, (Arc::clone(expr), typed.clone()));
        Ok(typed)
    }

    fn argument(&mut self, value: Argument, ty: Type) -> Expr {
        self.arguments.push(ty);
        self.values.push(value);
        Expr::Argument(self.values.len() - 1)
    }

    /// A decimal that takes more than the eight bytes of an argument: the sum of two. DataFusion gives literals the
    /// scale of what they are compared with, so that small numbers may have many digits.
    fn wide_decimal(&mut self, value: i128, scale: i8, ty: Type) -> Option<TypedExpr> {
        let mut part = |value: i128, scale| {
            let value = i64::try_from(value).ok()?;
            let ty = Type::Decimal { precision: 38, scale };
            Some(self.argument(Argument::Value(Value::Int(value)), ty))
        };
        let (upper, lower) = (part(value / UPPER_UNIT, scale)?, part(value % UPPER_UNIT, scale)?);
        let upper = binary(BinaryOp::Multiply, upper, part(UPPER_UNIT, 0)?);
        let sum = binary(BinaryOp::Add, upper, lower);
        let value = Box::new(sum);
        Some(TypedExpr::new(Expr::Cast { value, to: ty }, ty))
    }
}
