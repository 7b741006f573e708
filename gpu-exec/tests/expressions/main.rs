//! Every operator, value by value: rows have keys of their own, so that each expression's value at each row is seen, and rows for which
//! the interpreter has no answer must make the kernel refuse. Skipped, and says so, without a C++ compiler.

#[path = "../common/mod.rs"]
mod common;

use common::result_check::check;
use common::interpreter::{self, Cell, Row, Scalar};
use common::kernel_runner::{Division, Placed, Table, Target, run, targets};
use common::random::{self, DECIMAL, PARTS, Random};
use common::{aggregate, binary, col, column, shape};
use grampus_gpu_exec::abi::query::Refusal;
use grampus_gpu_exec::codegen::{Access, Grouping, QueryKernel};
use grampus_gpu_exec::program::{BinaryOp, Column, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type};
use grampus_io_stack::cuda::Module;

/// The greatest of each expression for each row: the row's number is column 0, and the key.
fn by_row(columns: Vec<Column>, arguments: Vec<Type>, exprs: Vec<Expr>) -> Program {
    let mut all = vec![column("id", Type::Int64, false)];
    all.extend(columns);
    Program {
        columns: all,
        arguments,
        conjuncts: vec![],
        keys: vec![col(0)],
        aggregates: exprs.into_iter().map(|e| aggregate(Function::Max, Some(e))).collect(),
    }
}

/// Runs over rows (without their numbers).
fn answer(
    target: &Target,
    kernel: &QueryKernel,
    module: &Module,
    program: &Program,
    arguments: &[Scalar],
    rows: &[Vec<Cell>],
) -> Result<(), Refusal> {
    let id = |row: usize| Some(Scalar::Int(row as i64 * 7 - 100));
    let mut cells: Vec<Vec<Cell>> = vec![(0..rows.len()).map(id).collect()];
    cells.extend((1..program.columns.len()).map(|c| rows.iter().map(|row| row[c - 1]).collect()));
    let table = Table {
        types: program.columns.iter().map(|c| c.ty).collect(),
        cells,
        runs: if rows.is_empty() {
            vec![]
        } else {
            vec![(0, rows.len() as u64)]
        },
    };
    let shape = shape(program, Access::Plain, true, Grouping::Global);
    let placed = Placed::new(&mut Random(rows.len() as u64), target, &table, &shape);

    let division = Division {
        warps: 3,
        ends: vec![0.4],
        flush: false,
        group_slots_log2: 12,
    };
    let merged = run(&placed, kernel, module, arguments, &division)?;
    let expected = interpreter::run(program, table.rows(), arguments).expect("rows that have answers");
    check(&expected, &merged, &program.to_string());
    Ok(())
}

/// All rows that have answers must give them; of the others, each alone must refuse.
fn compare(target: &Target, program: &Program, arguments: &[Scalar], rows: Vec<Vec<Cell>>) {
    program.check().unwrap_or_else(|e| panic!("{e}: {program}"));
    let shape = shape(program, Access::Plain, true, Grouping::Global);
    let kernel = QueryKernel::generate(program, &shape).expect("a valid program");
    let module = target.module(&kernel);
    let has_answers = |row: &Vec<Cell>| {
        let cells = [Some(Scalar::Int(0))].into_iter().chain(row.iter().copied()).collect();
        let row = Row {
            program,
            arguments,
            cells,
        };
        program.expressions().all(|e| row.eval(e).is_ok())
    };
    let (good, bad): (Vec<_>, Vec<_>) = rows.into_iter().partition(has_answers);
    println!("{} rows with answers, {} without: {program}", good.len(), bad.len());
    for some in good.chunks(1000) {
        let done = answer(target, &kernel, &module, program, arguments, some);
        assert_eq!(done, Ok(()), "refused: {program}");
    }
    for row in bad.iter().take(60) {
        let row = vec![row.clone()];
        let done = answer(target, &kernel, &module, program, arguments, &row);
        assert_eq!(done, Err(Refusal::Value), "not refused: {row:?} {program}");
    }
}

/// Lanes in lockstep would add nothing: each computes for itself.
fn on_each_device(test: impl Fn(&Target)) {
    targets().iter().filter(|t| !t.is_lockstep()).for_each(test);
}

/// All pairs of values.
fn pairs(values: &[Cell]) -> Vec<Vec<Cell>> {
    values
        .iter()
        .flat_map(|&a| values.iter().map(move |&b| vec![a, b]))
        .collect()
}

fn ints(values: &[i64]) -> Vec<Cell> {
    values.iter().map(|&v| Some(Scalar::Int(v))).chain([None]).collect()
}

fn floats(ty: Type) -> Vec<Cell> {
    let mut values = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        3.0,
        -7.25,
        1e9,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    values.extend([f64::NAN, -f64::NAN]);
    // Around the bounds of the integer types.
    for bits in [7, 15, 31, 63] {
        let bound = f64::from(2.0f32.powi(bits));
        for v in [
            bound,
            -bound,
            -bound - 1.0,
            -bound - 0.5,
            bound - 1.0,
            bound - 0.5,
            -bound * 1.0000002,
            bound * 0.9999999,
        ] {
            values.push(v);
        }
    }
    let held = |v: f64| if ty == Type::Float32 { f64::from(v as f32) } else { v };
    values
        .into_iter()
        .map(|v| Some(Scalar::Float(held(v))))
        .chain([None])
        .collect()
}

fn values_of(ty: Type) -> Vec<Cell> {
    match ty {
        Type::Bool => vec![Some(Scalar::Bool(false)), Some(Scalar::Bool(true)), None],
        Type::Int8 => ints(&[-128, -127, -1, 0, 1, 2, 7, 127]),
        Type::Int16 => ints(&[-32768, -32767, -129, -128, -1, 0, 1, 5, 127, 128, 32767]),
        Type::Int32 => ints(&[
            i64::from(i32::MIN),
            -32769,
            -32768,
            -1,
            0,
            1,
            3,
            32767,
            32768,
            i64::from(i32::MAX),
        ]),
        Type::Int64 => ints(&[
            i64::MIN,
            i64::MIN + 1,
            -2_147_483_649,
            -1,
            0,
            1,
            9,
            2_147_483_648,
            i64::MAX,
        ]),
        Type::Float32 | Type::Float64 => floats(ty),
        DECIMAL => ints(&[-999_999_999_999, -1, 0, 1, 250, 999_999_999_999]),
        Type::Code => ints(&[0, 1, 77]),
        _ => unreachable!("not asked for"),
    }
}

const NUMBERS: [Type; 6] = [
    Type::Int8,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::Float32,
    Type::Float64,
];

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
                exprs.extend(
                    [
                        MathFunction::Floor,
                        MathFunction::Ceil,
                        MathFunction::Abs,
                        MathFunction::Sqrt,
                    ]
                    .map(of),
                );
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
            // One program for the casts that always have an answer, and one for each of the others.
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

const UNITS: [TimeUnit; 4] = [
    TimeUnit::Second,
    TimeUnit::Millisecond,
    TimeUnit::Microsecond,
    TimeUnit::Nanosecond,
];

fn day_rows() -> Vec<i64> {
    let mut random = Random(11);
    // Every day of some years around leap years, centuries and the epoch, and of the whole calendar some.
    let mut days: Vec<i64> = [
        -719_528,
        -25_567,
        -141_428,
        0,
        10_957,
        46_751,
        -96_465_292,
        95_026_236 - 800,
    ]
    .iter()
    .flat_map(|first| (0..100).map(move |i| first + i * 8))
    .collect();
    days.extend((0..600).map(|_| random.below(191_000_000) as i64 - 96_000_000));
    days.extend([-96_465_294, 95_026_237, i64::from(i32::MIN), i64::from(i32::MAX)]);
    days
}

#[test]
fn fields_of_dates() {
    on_each_device(|target| {
        let extract = |part| Expr::Extract {
            part,
            value: Box::new(col(1)),
        };
        let rows: Vec<Vec<Cell>> = day_rows()
            .into_iter()
            .map(|d| vec![Some(Scalar::Int(d))])
            .chain([vec![None]])
            .collect();
        let columns = vec![column("d", Type::Date32, true)];
        compare(target, &by_row(columns, vec![], PARTS.map(extract).to_vec()), &[], rows);
    });
}

fn scale(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn times(unit: TimeUnit) -> Vec<Vec<Cell>> {
    let mut random = Random(12);
    let mut all: Vec<i64> = Vec::new();
    for day in day_rows() {
        let second = day
            .saturating_mul(86_400)
            .saturating_add(*random.pick(&[0, 1, -1, 3_599, 3_600, 43_210, 86_399]));
        all.push(
            second
                .saturating_mul(scale(unit))
                .saturating_add(*random.pick(&[0, -1, 1])),
        );
    }
    all.extend((0..200).map(|_| random.next() as i64));
    all.extend([i64::MIN, i64::MAX, 0, -1]);
    all.into_iter()
        .map(|t| vec![Some(Scalar::Int(t))])
        .chain([vec![None]])
        .collect()
}

#[test]
fn fields_and_truncation_of_times() {
    on_each_device(|target| {
        for unit in UNITS {
            let columns = || vec![column("t", Type::Timestamp(unit), true)];
            let fields = PARTS.map(|part| Expr::Extract {
                part,
                value: Box::new(col(1)),
            });
            compare(target, &by_row(columns(), vec![], fields.to_vec()), &[], times(unit));
            let truncated = |part: &DatePart| Expr::Truncate {
                part: *part,
                value: Box::new(col(1)),
            };
            let fine = PARTS[7..].iter().chain([&DatePart::Day]).map(truncated).collect();
            compare(target, &by_row(columns(), vec![], fine), &[], times(unit));
            let coarse = [DatePart::Year, DatePart::Quarter, DatePart::Month, DatePart::Week];
            for part in coarse {
                compare(
                    target,
                    &by_row(columns(), vec![], vec![truncated(&part)]),
                    &[],
                    times(unit),
                );
            }
        }
    });
}

#[test]
fn casts_of_dates_and_times() {
    on_each_device(|target| {
        let cast = |to| {
            vec![Expr::Cast {
                value: Box::new(col(1)),
                to,
            }]
        };
        for unit in UNITS {
            let time = || vec![column("t", Type::Timestamp(unit), true)];
            for to in UNITS.map(Type::Timestamp).into_iter().chain([Type::Date32]) {
                compare(target, &by_row(time(), vec![], cast(to)), &[], times(unit));
            }
            let date = vec![column("d", Type::Date32, true)];
            let rows = day_rows().into_iter().map(|d| vec![Some(Scalar::Int(d))]).collect();
            compare(target, &by_row(date, vec![], cast(Type::Timestamp(unit))), &[], rows);
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
            // Of a type that no expression asks for: a row's number depends on which rows are run together.
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
