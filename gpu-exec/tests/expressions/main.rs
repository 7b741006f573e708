//! Every operator, value by value.
//!
//! - Each row has a key of its own, so that each expression's value at each row is compared.
//! - If the interpreter has no result for a row, the kernel must refuse the query.
//!
//! ```text
//! row_results      a kernel's value for each row against the interpreter's
//! sample_values    values of each type
//! dates_and_times  operators on dates and times
//! decimals         operators on decimals
//! ```
//!
//! The tests are skipped, with a message, without a C++ compiler.

#[path = "../common/mod.rs"]
mod common;
mod dates_and_times;
mod decimals;
mod row_results;
mod sample_values;

use common::interpreter::Scalar;
use common::random::{self, DECIMAL, Random};
use common::{binary, col, column};
use grampus_gpu_exec::program::{BinaryOp, Expr, MathFunction, TimeUnit, Type};
use row_results::{by_row, compare, on_each_device};
use sample_values::{NUMBERS, pairs, values_of};

#[test]
fn comparisons_and_lookups() {
    on_each_device(|target| {
        for ty in [
            Type::Bool,
            Type::Int8,
            Type::Int64,
            Type::Float32,
            Type::Float64,
            DECIMAL,
            Type::Code,
        ] {
            let ops = [
                BinaryOp::Eq,
                BinaryOp::NotEq,
                BinaryOp::IsDistinctFrom,
                BinaryOp::IsNotDistinctFrom,
                BinaryOp::Lt,
                BinaryOp::LtEq,
                BinaryOp::Gt,
                BinaryOp::GtEq,
            ];
            let ops = if ty == Type::Code { &ops[..4] } else { &ops[..] };
            let mut exprs: Vec<Expr> = ops.iter().map(|&op| binary(op, col(1), col(2))).collect();
            for (list, negated) in [
                (vec![col(2)], false),
                (vec![Expr::Argument(0), col(2)], true),
                (vec![Expr::Null(ty), col(2)], true),
            ] {
                exprs.push(Expr::InList {
                    value: Box::new(col(1)),
                    list,
                    negated,
                });
            }
            exprs.push(Expr::IsNull(Box::new(col(1))));
            let columns = vec![column("a", ty, true), column("b", ty, true)];
            let program = by_row(columns, vec![ty], exprs);
            let argument = values_of(ty)[1].expect("a value");
            compare(target, &program, &[argument], pairs(&values_of(ty)));
        }
    });
}

#[test]
fn long_lists_of_literals() {
    on_each_device(|target| {
        for ty in [Type::Int16, Type::Float64] {
            let list = |negated| Expr::InList {
                value: Box::new(col(1)),
                list: (1..=20).map(Expr::Argument).collect(),
                negated,
            };
            let program = by_row(vec![column("a", ty, true)], vec![ty; 22], vec![list(false), list(true)]);
            let values = values_of(ty);
            let arguments: Vec<Scalar> = values.iter().flatten().copied().cycle().take(22).collect();
            compare(
                target,
                &program,
                &arguments,
                values.into_iter().map(|v| vec![v]).collect(),
            );
        }
    });
}

#[test]
fn logic_of_three_values() {
    on_each_device(|target| {
        let (a, b) = (|| col(1), || col(2));
        let case = |otherwise: Option<Expr>| Expr::Case {
            branches: vec![(a(), b()), (b(), Expr::Not(Box::new(a())))],
            otherwise: otherwise.map(Box::new),
        };
        let exprs = vec![
            binary(BinaryOp::And, a(), b()),
            binary(BinaryOp::Or, a(), b()),
            binary(
                BinaryOp::Or,
                binary(BinaryOp::And, a(), Expr::Null(Type::Bool)),
                Expr::Not(Box::new(b())),
            ),
            Expr::Not(Box::new(binary(BinaryOp::And, a(), b()))),
            case(None),
            case(Some(Expr::Null(Type::Bool))),
            case(Some(a())),
            Expr::Coalesce(vec![a(), b()]),
            Expr::Coalesce(vec![a(), b(), Expr::Argument(0)]),
        ];
        let columns = vec![column("a", Type::Bool, true), column("b", Type::Bool, true)];
        let program = by_row(columns, vec![Type::Bool], exprs);
        compare(target, &program, &[Scalar::Bool(true)], pairs(&values_of(Type::Bool)));
    });
}

#[test]
fn arithmetic() {
    on_each_device(|target| {
        for ty in NUMBERS {
            let columns = || vec![column("a", ty, true), column("b", ty, true)];
            let of = |op| binary(op, col(1), col(2));
            let exprs = vec![
                of(BinaryOp::Add),
                of(BinaryOp::Subtract),
                of(BinaryOp::Multiply),
                Expr::Negate(Box::new(col(1))),
                binary(BinaryOp::Add, of(BinaryOp::Multiply), col(1)), // not fused
            ];
            let rows = || pairs(&values_of(ty));
            compare(target, &by_row(columns(), vec![], exprs), &[], rows());
            let mut exprs = vec![of(BinaryOp::Divide), of(BinaryOp::Modulo)];
            if matches!(ty, Type::Float32 | Type::Float64) {
                let of = |function| Expr::Math {
                    function,
                    value: Box::new(col(1)),
                };
                exprs.extend([MathFunction::Floor, MathFunction::Ceil, MathFunction::Abs].map(of));
                let sqrt = vec![of(MathFunction::Sqrt)]; // has no result for some rows
                compare(target, &by_row(columns(), vec![], sqrt), &[], rows());
            }
            compare(target, &by_row(columns(), vec![], exprs), &[], rows());
        }
        let exprs = vec![
            binary(BinaryOp::Add, col(1), col(2)),
            binary(BinaryOp::Subtract, col(1), col(2)),
        ];
        let columns = vec![column("a", DECIMAL, true), column("b", DECIMAL, false)];
        let rows = pairs(&values_of(DECIMAL)).into_iter().filter(|row| row[1].is_some());
        compare(target, &by_row(columns, vec![], exprs), &[], rows.collect());
    });
}

#[test]
fn casts_between_numbers() {
    on_each_device(|target| {
        for from in NUMBERS.into_iter().chain([Type::Bool]) {
            // One program has the casts that always have a result, and each other cast has its own.
            let cast = |to| Expr::Cast {
                value: Box::new(col(1)),
                to,
            };
            let float = |ty: Type| matches!(ty, Type::Float32 | Type::Float64);
            let safe = |to: Type| float(to) || (!float(from) && to.width() >= from.width());
            let all = || NUMBERS.into_iter().chain([Type::Bool]).filter(|to| *to != from);
            let rows = || values_of(from).into_iter().map(|v| vec![v]).collect::<Vec<_>>();
            let columns = || vec![column("a", from, true)];
            let exprs = all().filter(|&to| safe(to) || to == Type::Bool).map(cast).collect();
            compare(target, &by_row(columns(), vec![], exprs), &[], rows());
            for to in all().filter(|&to| !safe(to) && to != Type::Bool) {
                compare(target, &by_row(columns(), vec![], vec![cast(to)]), &[], rows());
            }
        }
    });
}

#[test]
fn random_expressions() {
    on_each_device(|target| {
        for seed in 1..=20 {
            let mut random = Random(seed);
            let types = [
                Type::Bool,
                Type::Int32,
                Type::Int64,
                Type::Float64,
                Type::Date32,
                Type::Timestamp(TimeUnit::Microsecond),
            ];
            // Column 0 has a type that no expression uses: a row's number depends on the rows that run together.
            let mut columns = vec![column("id", Type::Code, false)];
            columns.extend(types.map(|ty| column("c", ty, true)));
            let mut writer = random::Writer {
                random: &mut random,
                columns,
                arguments: Vec::new(),
                tame: false,
            };
            let exprs: Vec<Expr> = (0..8).map(|i| writer.expr(types[i % types.len()], 3)).collect();
            let mut program = by_row(writer.columns.split_off(1), Vec::new(), exprs);
            program.arguments = writer.arguments;
            let arguments: Vec<Scalar> = program
                .arguments
                .iter()
                .map(|ty| random::value(&mut random, *ty, false))
                .collect();
            let row = |random: &mut Random| {
                let cell =
                    |ty: &Type, random: &mut Random| (!random.one_in(5)).then(|| random::value(random, *ty, false));
                types.iter().map(|ty| cell(ty, random)).collect()
            };
            let rows = (0..400).map(|_| row(&mut random)).collect();
            println!("seed {seed}");
            compare(target, &program, &arguments, rows);
        }
    });
}
