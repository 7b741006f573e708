//! Shorthands for programs and shapes, for tests that launch kernels themselves.
//!
//! ```text
//! interpreter    the meaning of programs, row by row: the oracle
//! kernel_runner  kernels over a table in memory, without the crate's runtime
//! lockstep       warps of 32 lanes on host threads, and the folder of kernels
//! partial_pages  partially resident columns of such a table
//! random         random programs, values and placements
//! key_ranges     random ranges of keys, for groups by code
//! times          dates and times for the interpreter
//! result_check   comparison of a kernel's results with the interpreter's
//! sanitized_program
//!                programs with device code, under sanitizers
//! ```
#![allow(dead_code)] // each test uses its share

mod decimals;
pub(crate) mod interpreter;
pub(crate) mod kernel_runner;
pub(crate) mod key_ranges;
pub(crate) mod lockstep;
pub(crate) mod partial_pages;
pub(crate) mod random;
pub(crate) mod result_check;
pub(crate) mod sanitized_program;
mod times;
pub(crate) mod validity_image;

use grampus_gpu_exec::codegen::{Access, ColumnShape, Grouping, Shape};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Column, Expr, Function, Program, Type};

pub(crate) fn column(name: &str, ty: Type, nullable: bool) -> Column {
    Column::new(name, ty, nullable)
}

pub(crate) fn col(at: usize) -> Expr {
    Expr::Column(at)
}

pub(crate) fn arg(at: usize) -> Expr {
    Expr::Argument(at)
}

pub(crate) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary {
        op,
        left: Box::new(left),
        right: Box::new(right),
    }
}

pub(crate) fn aggregate(function: Function, argument: Option<Expr>) -> Aggregate {
    Aggregate {
        function,
        argument,
        filter: None,
    }
}

pub(crate) fn count() -> Aggregate {
    aggregate(Function::Count, None)
}

pub(crate) fn sum(of: Expr) -> Aggregate {
    aggregate(Function::Sum, Some(of))
}

/// Six doubles, filtered by the first, with sums of the first `dependents` others.
pub(crate) fn taxi(dependents: usize) -> Program {
    let names = [
        "trip_distance",
        "total_amount",
        "fare_amount",
        "tip_amount",
        "tolls_amount",
        "extra",
    ];
    let columns = names[..=dependents].iter().map(|n| column(n, Type::Float64, false));
    let mut aggregates = vec![count()];
    aggregates.extend((1..=dependents).map(|c| sum(col(c))));
    if dependents == 0 {
        aggregates.push(sum(col(0)));
    }
    Program {
        columns: columns.collect(),
        arguments: vec![Type::Float64],
        conjuncts: vec![binary(BinaryOp::GtEq, col(0), arg(0))],
        keys: vec![],
        aggregates,
    }
}

/// The program of queries/q5_30.sql.
///
/// Where the distance is at least the first argument: `sum(total - extra - coalesce(ehail_fee, 0) - tolls - mta_tax)`,
/// `sum(distance)`, the count and sum of the average, and `count(*)`. The second argument is the 0.
pub(crate) fn dollars_per_mile() -> Program {
    let names = [
        "trip_distance",
        "total_amount",
        "extra",
        "ehail_fee",
        "tolls_amount",
        "mta_tax",
    ];
    let minus = |a: Expr, b: Expr| binary(BinaryOp::Subtract, a, b);
    let fee = Expr::Coalesce(vec![col(3), arg(1)]);
    let driver = minus(minus(minus(minus(col(1), col(2)), fee), col(4)), col(5));
    let mean = binary(BinaryOp::Divide, driver.clone(), col(0));
    Program {
        columns: names.map(|n| column(n, Type::Float64, true)).to_vec(),
        arguments: vec![Type::Float64; 2],
        conjuncts: vec![binary(BinaryOp::GtEq, col(0), arg(0))],
        keys: vec![],
        aggregates: vec![
            sum(driver),
            sum(col(0)),
            aggregate(Function::Count, Some(mean.clone())),
            sum(mean),
            count(),
        ],
    }
}

/// The shape without validity arrays: columns that have no NULLs, though the program's may.
pub(crate) fn without_nulls(mut shape: Shape) -> Shape {
    shape.columns.iter_mut().for_each(|c| c.nullable = false);
    shape
}

/// One shape for all columns, nullable as the program says.
pub(crate) fn shape(program: &Program, access: Access, aligned: bool, grouping: Grouping) -> Shape {
    let of = |c: &Column| ColumnShape {
        access,
        aligned,
        on_device: aligned && access != Access::Queued,
        nullable: c.nullable,
    };
    Shape {
        columns: program.columns.iter().map(of).collect(),
        grouping,
        dense: matches!(grouping, Grouping::Coded(_)),
    }
}

/// As [`shape`], read by loads, with all columns but the first in pages.
pub(crate) fn paged_shape(program: &Program, aligned: bool, grouping: Grouping) -> Shape {
    let mut shape = shape(program, Access::Paged, aligned, grouping);
    shape.columns[0].access = Access::Plain;
    shape
}
