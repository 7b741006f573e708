//! [`ProgramBuilder`]: the columns and literals of a program, collected while its expressions are lowered.
//!
//! A literal becomes an argument: programs that differ only in literals are equal and share one kernel.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_plan::PhysicalExpr;
use grampus_gpu_exec::program::{Aggregate, Column, Expr, Program, Type};

use super::typed_expr::TypedExpr;
use super::types::{Argument, MAX_COLUMN_DIGITS, argument_of, type_of, unsupported};
use crate::gpu::refusal::Refusal;

/// Collects the columns and literals of a program.
pub(super) struct ProgramBuilder {
    table: SchemaRef,
    columns: Vec<Column>,
    /// By position in `columns`: the table's column.
    table_columns: Vec<usize>,
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
    /// By position in the program's arguments.
    pub(super) values: Vec<Argument>,
}

impl ProgramBuilder {
    pub(super) fn new(table: SchemaRef) -> Self {
        Self {
            table,
            columns: Vec::new(),
            table_columns: Vec::new(),
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
            values: self.values,
        }
    }

    /// The value of the table's column at position `at`.
    pub(super) fn column(&mut self, at: usize) -> Result<TypedExpr, Refusal> {
        let Some(field) = self.table.fields().get(at) else {
            return Err(Refusal::UnknownColumn(at));
        };
        let ty = match type_of(field.data_type()) {
            Some(Type::Decimal { precision, .. }) if precision > MAX_COLUMN_DIGITS => None,
            ty => ty,
        };
        let Some(ty) = ty else {
            return Err(unsupported(format!("column {}", field.name()), field.data_type()));
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
        Ok(TypedExpr::new(Expr::Column(position), ty))
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
        let typed = match argument_of(value)? {
            None => TypedExpr::new(Expr::Null(ty), ty),
            Some(value) => {
                self.arguments.push(ty);
                self.values.push(value);
                TypedExpr::new(Expr::Argument(self.values.len() - 1), ty)
            }
        };
        self.literals.insert(address, (Arc::clone(expr), typed.clone()));
        Ok(typed)
    }
}
