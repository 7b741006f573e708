//! Programs that contradict themselves, or that kernels cannot compute, are refused with a reason. Programs are shown
//! as SQL.

mod common;

use common::{aggregate, arg, binary, col, column, count, shape, sum, taxi};
use grampus_gpu_exec::RunError;
use grampus_gpu_exec::codegen::{Access, Grouping, QueryKernel};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, DatePart, Expr, Function, Program, TimeUnit, Type};

const MONEY: Type = Type::Decimal {
    precision: 18,
    scale: 2,
};

/// A program with columns of several types and one literal.
fn base() -> Program {
    Program {
        columns: vec![
            column("i", Type::Int32, true),
            column("f", Type::Float64, false),
            column("s", Type::Code, false),
            column("d", Type::Date32, false),
            column("t", Type::Timestamp(TimeUnit::Millisecond), false),
            column("m", MONEY, false),
            column("b", Type::Bool, true),
        ],
        arguments: vec![Type::Int32],
        conjuncts: vec![],
        keys: vec![],
        aggregates: vec![count()],
    }
}

fn refusal(program: &Program) -> String {
    match program.check() {
        Err(RunError::Invalid(reason)) => reason,
        other => panic!("{other:?} for {program}"),
    }
}

fn of(expr: Expr) -> String {
    let mut program = base();
    program.aggregates = vec![aggregate(Function::Count, Some(expr))];
    refusal(&program)
}

fn boxed(expr: Expr) -> Box<Expr> {
    Box::new(expr)
}

#[test]
fn operands_of_different_types_are_refused() {
    assert_eq!(
        of(binary(BinaryOp::Add, col(0), col(1))),
        "int32 + float64: the operands' types differ"
    );
    assert_eq!(of(col(9)), "column 9 of 7");
    assert_eq!(of(arg(1)), "literal 1 of 1");
    assert_eq!(of(Expr::Not(boxed(col(0)))), "NOT takes a boolean, not a int32");
    assert_eq!(
        of(binary(BinaryOp::And, col(0), arg(0))),
        "kernels do not compute int32 AND int32"
    );
    assert_eq!(of(Expr::Coalesce(vec![])), "COALESCE of nothing");
    assert_eq!(
        of(Expr::Coalesce(vec![col(0), col(1)])),
        "COALESCE mixes int32 and float64"
    );
    let case = |branches, otherwise: Option<Expr>| Expr::Case {
        branches,
        otherwise: otherwise.map(boxed),
    };
    assert_eq!(of(case(vec![], Some(col(0)))), "CASE without a branch");
    assert_eq!(
        of(case(vec![(col(0), col(0))], None)),
        "CASE WHEN takes a boolean, not a int32"
    );
    assert_eq!(
        of(case(vec![(col(6), col(0))], Some(col(1)))),
        "CASE mixes int32 and float64"
    );
    let list = Expr::InList {
        value: boxed(col(0)),
        list: vec![col(1)],
        negated: false,
    };
    assert_eq!(of(list), "IN mixes int32 and float64");
}

#[test]
fn operations_that_kernels_lack_are_refused() {
    let less = |a, b| of(binary(BinaryOp::Lt, a, b));
    assert_eq!(less(col(2), col(2)), "kernels do not compute code < code");
    let modulo = binary(BinaryOp::Modulo, col(5), col(5));
    assert_eq!(of(modulo), "kernels do not compute decimal(18, 2) % decimal(18, 2)");
    let cast = |value, to| Expr::Cast {
        value: boxed(value),
        to,
    };
    assert_eq!(
        of(Expr::TryCast {
            value: boxed(col(3)),
            to: Type::Timestamp(TimeUnit::Second),
        }),
        "kernels do not try to cast date to timestamp(s)"
    );
    assert_eq!(
        of(cast(col(5), Type::Float32)),
        "kernels do not cast decimal(18, 2) to float32"
    );
    assert_eq!(of(cast(col(3), Type::Int64)), "kernels do not cast date to int64");
    let decimal = |precision, scale| Type::Decimal { precision, scale };
    assert_eq!(
        of(Expr::Null(decimal(39, 2))),
        "NULL is a decimal(39, 2): kernels take decimals of 1 to 38 digits"
    );
    assert_eq!(
        of(Expr::Null(decimal(4, 5))),
        "NULL is a decimal(4, 5): kernels take scales from 0 to the number of digits"
    );
    let mut no_digits = base();
    no_digits.columns[5].ty = decimal(0, 0);
    assert_eq!(
        refusal(&no_digits),
        "m is a decimal(0, 0): kernels take decimals of 1 to 38 digits"
    );
    let part = |part, value| Expr::Extract {
        part,
        value: boxed(value),
    };
    assert_eq!(of(part(DatePart::Year, col(1))), "year of a float64");
    let truncated = |part, value| Expr::Truncate {
        part,
        value: boxed(value),
    };
    assert_eq!(
        of(truncated(DatePart::DayOfWeek, col(4))),
        "kernels do not truncate a timestamp(ms) to dow"
    );
    assert_eq!(
        of(truncated(DatePart::Year, col(3))),
        "kernels do not truncate a date to year"
    );
}

#[test]
fn aggregates_and_filters_have_their_types() {
    let mut program = base();
    program.aggregates = vec![sum(col(3))];
    assert_eq!(refusal(&program), "sum of a date");
    program.aggregates = vec![aggregate(Function::Max, Some(col(2)))];
    assert_eq!(refusal(&program), "max of a code");
    program.aggregates = vec![aggregate(Function::Min, None)];
    assert_eq!(refusal(&program), "min of nothing");
    program.aggregates = vec![Aggregate {
        filter: Some(col(0)),
        ..count()
    }];
    assert_eq!(refusal(&program), "FILTER takes a boolean, not a int32");
    program.aggregates = vec![];
    assert_eq!(
        refusal(&program),
        "there is nothing to compute: neither keys nor aggregates"
    );
    program = base();
    program.conjuncts = vec![col(1)];
    assert_eq!(refusal(&program), "a filter takes a boolean, not a float64");
    let types = [
        sum(col(0)),
        sum(col(1)),
        sum(col(5)),
        aggregate(Function::Min, Some(col(3))),
    ]
    .map(|a| base().type_of_aggregate(&a).expect("valid"));
    let sum_of_money = Type::Decimal {
        precision: 38,
        scale: 2,
    };
    assert_eq!(types, [Type::Int64, Type::Float64, sum_of_money, Type::Date32]);
}

/// The rules of Hive, which arrow follows: "Hive Decimal Precision/Scale Support".
#[test]
fn types_of_decimals_follow_hive() {
    let decimal = |precision, scale| Type::Decimal { precision, scale };
    let of = |op, a, b| Type::of_decimals(op, a, b);
    let (price, one) = (decimal(15, 2), decimal(20, 0));
    assert_eq!(of(BinaryOp::Add, price, price), Some(decimal(16, 2)));
    assert_eq!(of(BinaryOp::Subtract, one, price), Some(decimal(23, 2)));
    assert_eq!(of(BinaryOp::Multiply, price, decimal(23, 2)), Some(decimal(38, 4)));
    assert_eq!(
        of(BinaryOp::Multiply, decimal(5, 2), decimal(4, 1)),
        Some(decimal(10, 3))
    );
    assert_eq!(
        of(BinaryOp::Multiply, decimal(38, 30), decimal(38, 9)),
        None,
        "39 digits after the point"
    );
    assert_eq!(
        of(BinaryOp::Add, decimal(38, 30), decimal(38, 9)),
        None,
        "scaled up by 21 digits"
    );
    assert_eq!(of(BinaryOp::Divide, price, price), None);
    assert_eq!(of(BinaryOp::Add, price, Type::Int64), None);
}

#[test]
fn expressions_too_deep_or_too_long_are_refused() {
    let deep = (0..300).fold(col(6), |e, _| Expr::Not(boxed(e)));
    assert_eq!(of(deep), "expressions are nested too deeply, or too long, for a kernel");
    let list = Expr::InList {
        value: boxed(col(0)),
        list: vec![arg(0); 3000],
        negated: false,
    };
    assert_eq!(of(list), "expressions are nested too deeply, or too long, for a kernel");
    let mut program = base();
    program.columns = vec![column("x", Type::Int8, false); 65];
    assert_eq!(refusal(&program), "65 columns, kernels take at most 64");
}

#[test]
fn shape_of_another_program_is_refused() {
    let program = taxi(1);
    let good = shape(&program, Access::Plain, true, Grouping::Ungrouped);
    let refused = |change: &dyn Fn(&mut grampus_gpu_exec::codegen::Shape)| {
        let mut shape = good.clone();
        change(&mut shape);
        QueryKernel::generate(&program, &shape)
            .expect_err("not its shape")
            .to_string()
    };
    assert!(refused(&|s| s.columns.truncate(1)).contains("the shapes of 1 columns for 2"));
    assert!(refused(&|s| s.columns[1].nullable = true).contains("total_amount has NULLs that it must not have"));
    assert!(refused(&|s| s.grouping = Grouping::Global).contains("Global with 0 keys"));
}

#[test]
fn programs_are_shown_as_sql() {
    let mut program = base();
    program.conjuncts = vec![
        binary(BinaryOp::GtEq, col(0), arg(0)),
        Expr::Not(boxed(Expr::IsNull(boxed(col(6))))),
        Expr::InList {
            value: boxed(binary(BinaryOp::Add, col(0), arg(0))),
            list: vec![arg(0), Expr::Null(Type::Int32)],
            negated: true,
        },
    ];
    program.keys = vec![Expr::Truncate {
        part: DatePart::Month,
        value: boxed(col(4)),
    }];
    program.aggregates = vec![
        count(),
        Aggregate {
            filter: Some(col(6)),
            ..sum(Expr::Case {
                branches: vec![(col(6), col(1))],
                otherwise: None,
            })
        },
    ];
    program.check().expect("valid");
    assert_eq!(
        program.to_string(),
        "count(*), sum(CASE WHEN b THEN f END) FILTER (WHERE b) WHERE i >= $1 AND NOT (b IS NULL) AND (i + $1) NOT IN \
         ($1, NULL) GROUP BY date_trunc(month, t)"
    );
}
