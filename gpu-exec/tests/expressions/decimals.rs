//! Arithmetic and casts of decimals, up to results of more than eight bytes, which are refused.

use grampus_gpu_exec::program::{BinaryOp, Expr, Type};

use crate::common::{binary, col, column};
use crate::row_results::{by_row, compare, on_each_device};
use crate::sample_values::{ints, pairs};

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

#[test]
fn arithmetic_of_any_scales() {
    on_each_device(|target| {
        for (a, b) in [(2, 2), (0, 4), (6, 1), (18, 0)] {
            let columns = || vec![column("a", decimal(18, a), true), column("b", decimal(18, b), true)];
            // Each operation alone: a row that one operation refuses is a result of another.
            for op in OPERATIONS {
                let program = by_row(columns(), vec![], vec![binary(op, col(1), col(2))]);
                compare(target, &program, &[], pairs(&ints(&values())));
            }
            let discounted = binary(
                BinaryOp::Multiply,
                col(1),
                binary(BinaryOp::Subtract, Expr::Argument(0), col(2)),
            );
            let program = by_row(
                columns(),
                vec![decimal(20, 0)],
                vec![discounted, Expr::Negate(Box::new(col(1)))],
            );
            let one = crate::common::interpreter::Scalar::Int(1);
            compare(target, &program, &[one], pairs(&ints(&values())));
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
