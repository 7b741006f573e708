//! Arithmetic, comparisons and casts of decimals, up to results that take more bytes than their type has.

use grampus_gpu_exec::program::{BinaryOp, Column, Expr, Function, Type};

use crate::common::interpreter::{Cell, Scalar};
use crate::common::kernel_runner::Target;
use crate::common::random::DECIMAL;
use crate::common::{aggregate, binary, col, column};
use crate::row_results::{by_row, compare, on_each_device};
use crate::sample_values::{ints, pairs, values_of};

const OPERATIONS: [BinaryOp; 3] = [BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply];

fn decimal(precision: u8, scale: i8) -> Type {
    Type::Decimal { precision, scale }
}

/// Unscaled values: small ones, those around halves, and those whose products or sums take nine bytes.
fn values() -> Vec<i64> {
    let mut values = vec![0, 1, -1, 4, 5, -5, 49, 50, -50, 51, 149, 150, -150, 12_345, -98_765_432];
    values.extend([3_037_000_499, 3_037_000_500, -3_037_000_500, 4_294_967_296]);
    values.extend([
        999_999_999_999_999_999,
        -999_999_999_999_999_999,
        922_337_203_685_477_580,
    ]);
    values
}

/// Compares the results, and as doubles those that take more bits than a summand may have.
fn compare_all(target: &Target, columns: &[Column], arguments: (&[Type], &[Scalar]), exprs: Vec<Expr>) {
    let (types, arguments) = arguments;
    let doubles = exprs.iter().map(|value| Expr::Cast {
        value: Box::new(value.clone()),
        to: Type::Float64,
    });
    for exprs in [exprs.clone(), doubles.collect()] {
        let program = by_row(columns.to_vec(), types.to_vec(), exprs);
        compare(target, &program, arguments, pairs(&ints(&values())));
    }
}

#[test]
fn arithmetic_of_any_scales() {
    on_each_device(|target| {
        for (a, b) in [(2, 2), (0, 4), (6, 1), (18, 0)] {
            let columns = [column("a", decimal(18, a), true), column("b", decimal(18, b), true)];
            // Each operation alone: a row that one operation refuses is a result of another.
            for op in OPERATIONS {
                compare_all(target, &columns, (&[], &[]), vec![binary(op, col(1), col(2))]);
            }
            let discounted = binary(
                BinaryOp::Multiply,
                col(1),
                binary(BinaryOp::Subtract, Expr::Argument(0), col(2)),
            );
            let one = (&[decimal(20, 0)][..], &[Scalar::Int(1)][..]);
            let exprs = vec![discounted, Expr::Negate(Box::new(col(1)))];
            compare_all(target, &columns, one, exprs);
        }
    });
}

/// a · b: 16 bytes, of which any may be set.
fn product() -> Expr {
    binary(BinaryOp::Multiply, col(1), col(2))
}

fn columns_of_18_digits() -> Vec<Column> {
    vec![column("a", decimal(18, 2), true), column("b", decimal(18, 3), true)]
}

/// Sums of such products, products of three and four factors, which take up to 32 bytes.
#[test]
fn arithmetic_of_38_digits() {
    let times = |a: Expr, b: Expr| binary(BinaryOp::Multiply, a, b);
    let minus = |a: Expr, b: Expr| binary(BinaryOp::Subtract, a, b);
    on_each_device(|target| {
        let rarely_refused = vec![
            binary(BinaryOp::Add, product(), product()),
            minus(minus(col(2), product()), product()),
            Expr::Negate(Box::new(product())),
            Expr::Coalesce(vec![product(), Expr::Null(decimal(37, 5))]),
            Expr::Case {
                branches: vec![(binary(BinaryOp::Gt, col(2), Expr::Null(decimal(18, 3))), product())],
                otherwise: Some(Box::new(Expr::Negate(Box::new(product())))),
            },
        ];
        for exprs in [
            vec![times(product(), col(1))],
            vec![times(col(2), product())],
            vec![times(product(), minus(product(), col(1)))],
            rarely_refused,
        ] {
            compare_all(target, &columns_of_18_digits(), (&[], &[]), exprs);
        }
    });
}

/// Summands have at most 89 bits, the sign among them.
#[test]
fn summands_at_their_bounds() {
    on_each_device(|target| {
        let columns = vec![column("a", decimal(18, 0), true), column("b", decimal(18, 0), true)];
        let factors = ints(&[
            1 << 44,
            -(1 << 44),
            (1 << 44) + 1,
            (1 << 44) - 1,
            -(1 << 44) - 1,
            1 << 45,
            -3,
        ]);
        compare(target, &by_row(columns, vec![], vec![product()]), &[], pairs(&factors));
    });
}

/// Values of 16 bytes beside each other, and beside those of eight.
#[test]
fn comparisons_of_38_digits() {
    let product = || binary(BinaryOp::Multiply, col(1), col(1));
    let other = || binary(BinaryOp::Multiply, col(2), col(2));
    let ops = [
        BinaryOp::Eq,
        BinaryOp::NotEq,
        BinaryOp::Lt,
        BinaryOp::GtEq,
        BinaryOp::IsDistinctFrom,
    ];
    on_each_device(|target| {
        let columns = vec![column("a", decimal(18, 2), true), column("b", decimal(18, 2), true)];
        let mut exprs: Vec<Expr> = ops.iter().map(|&op| binary(op, product(), other())).collect();
        exprs.extend(ops.iter().map(|&op| binary(op, product(), Expr::Argument(0))));
        exprs.push(Expr::InList {
            value: Box::new(product()),
            list: vec![other(), Expr::Argument(0)],
            negated: true,
        });
        exprs.push(Expr::InList {
            value: Box::new(product()),
            list: (1..=12).map(Expr::Argument).collect(),
            negated: false,
        });
        let program = by_row(columns, vec![decimal(19, 4); 13], exprs);
        let arguments: Vec<Scalar> = (0..13).map(|at| Scalar::Int(2_500 - 625 * at)).collect();
        compare(target, &program, &arguments, pairs(&ints(&values())));
    });
}

/// Keys and extremes have eight bytes.
#[test]
fn keys_and_extremes_of_more_than_eight_bytes_are_refused() {
    on_each_device(|target| {
        let mut program = by_row(columns_of_18_digits(), vec![], vec![]);
        let extreme = |function| aggregate(function, Some(product()));
        program.aggregates = [Function::Min, Function::Max].map(extreme).to_vec();
        compare(target, &program, &[], pairs(&ints(&values())));
        let mut program = by_row(columns_of_18_digits(), vec![], vec![col(1)]);
        program.keys.push(product());
        compare(target, &program, &[], pairs(&ints(&values())));
    });
}

/// Casts of values of 16 bytes, and TRY_CAST, which gives NULL instead of an error.
#[test]
fn casts_of_38_digits() {
    let tried = |value: &Expr, to| Expr::TryCast {
        value: Box::new(value.clone()),
        to,
    };
    let targets = [
        Type::Float64,
        Type::Int64,
        Type::Int8,
        decimal(38, 5),
        decimal(38, 7),
        decimal(37, 0),
        decimal(20, 4),
        decimal(18, 2),
        decimal(5, 3),
    ];
    on_each_device(|target| {
        let rows = || pairs(&ints(&values()));
        for to in [
            Type::Float64,
            Type::Int64,
            decimal(38, 7),
            decimal(37, 0),
            decimal(18, 2),
        ] {
            let value = Box::new(product());
            let program = by_row(columns_of_18_digits(), vec![], vec![Expr::Cast { value, to }]);
            compare(target, &program, &[], rows());
        }
        let all = targets.map(|to| tried(&product(), to)).to_vec();
        compare(target, &by_row(columns_of_18_digits(), vec![], all), &[], rows());
    });
}

#[test]
fn casts_that_give_null() {
    let targets = [
        Type::Int8,
        Type::Int64,
        Type::Float32,
        Type::Bool,
        decimal(9, 2),
        decimal(38, 18),
    ];
    on_each_device(|target| {
        for from in [Type::Float64, Type::Int64, Type::Bool, DECIMAL] {
            let value = || Box::new(col(1));
            let mut program = by_row(vec![column("a", from, true)], vec![], vec![]);
            for to in targets {
                let tried = aggregate(Function::Count, Some(Expr::TryCast { value: value(), to }));
                let returned = match to {
                    Type::Decimal { .. } => aggregate(Function::Sum, tried.argument.clone()),
                    _ => aggregate(Function::Max, tried.argument.clone()),
                };
                program.aggregates.extend([tried, returned]);
                if program.check().is_err() {
                    program.aggregates.truncate(program.aggregates.len() - 2);
                }
            }
            let rows = values_of(from).into_iter().map(|v| vec![v]).collect();
            compare(target, &program, &[], rows);
        }
    });
}

/// A product can be the least value of eight bytes, whose negation is none.
#[test]
fn negation_of_the_least_value_is_refused() {
    on_each_device(|target| {
        let columns = vec![column("a", decimal(18, 0), true), column("b", decimal(18, 0), true)];
        let negated = Expr::Negate(Box::new(binary(BinaryOp::Multiply, col(1), col(2))));
        let least = ints(&[-(1 << 31), 1 << 32, (1 << 32) - 1, 3]);
        compare(target, &by_row(columns, vec![], vec![negated]), &[], pairs(&least));
    });
}

/// Floats around halves, and around the bounds of decimals.
fn halves(ty: Type) -> Vec<Cell> {
    let values = [
        0.5,
        0.49999999999999994,
        1.5,
        2.5,
        0.005,
        1.005,
        0.0005,
        8.5,
        9.994999,
        9.995,
        99.9995,
        999.4999999999999,
        999.5,
        9_999_999.994999,
        9_999_999.995,
        4_503_599_627_370_495.5,
        9e15,
        9.99999e17,
        1e18,
        9.3e18,
    ];
    let float = |v: f64| if ty == Type::Float32 { f64::from(v as f32) } else { v };
    values
        .iter()
        .flat_map(|v| [*v, -*v])
        .map(|v| Some(Scalar::Float(float(v))))
        .collect()
}

#[test]
fn casts() {
    let integers = [Type::Int8, Type::Int16, Type::Int32, Type::Int64];
    let decimals = [
        decimal(18, 2),
        decimal(9, 2),
        decimal(3, 0),
        decimal(38, 10),
        decimal(18, 18),
        decimal(5, 3),
        decimal(19, 0),
    ];
    on_each_device(|target| {
        let cast = |to| Expr::Cast {
            value: Box::new(col(1)),
            to,
        };
        for from in [decimal(18, 2), decimal(3, 0), decimal(18, 18)] {
            for to in decimals
                .into_iter()
                .chain(integers)
                .chain([Type::Float64])
                .filter(|to| *to != from)
            {
                let program = by_row(vec![column("a", from, true)], vec![], vec![cast(to)]);
                let rows = ints(&values()).into_iter().map(|v| vec![v]).collect();
                compare(target, &program, &[], rows);
            }
        }
        for from in [Type::Float32, Type::Float64] {
            for to in decimals.into_iter().filter(|to| Type::casts_decimal(from, *to)) {
                let program = by_row(vec![column("a", from, true)], vec![], vec![cast(to)]);
                let of_values = values_of(from).into_iter().chain(halves(from));
                compare(target, &program, &[], of_values.map(|v| vec![v]).collect());
            }
        }
        for from in [Type::Int8, Type::Int64] {
            for to in decimals {
                let bound = 1i64 << (8 * from.width() - 1).min(62);
                let samples = ints(&[0, 1, -1, 99, 100, bound - 1, -bound, bound / 3]);
                let program = by_row(vec![column("a", from, true)], vec![], vec![cast(to)]);
                compare(target, &program, &[], samples.into_iter().map(|v| vec![v]).collect());
            }
        }
    });
}
