//! [`TypedExpr`]: an expression of a program with the type of its value.

use grampus_gpu_exec::program::{BinaryOp, Expr, Type};

/// An expression and the type of its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TypedExpr {
    pub(super) expr: Expr,
    pub(super) ty: Type,
}

impl TypedExpr {
    pub(super) fn new(expr: Expr, ty: Type) -> Self {
        Self { expr, ty }
    }
}

/// The expression `left op right`.
pub(super) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    }
}
