//! Groups by code: kernels with tables of lanes, warps and blocks against the interpreter.
//!
//! Kernels run on one host lane, on 32 host lanes, and on a GPU if there is one. The tests are skipped, with a message,
//! without a C++ compiler.

mod common;

use std::collections::BTreeMap;

use common::interpreter::{self, Cell, Scalar};
use common::kernel_runner::{BLOCK_WARPS, DeviceTable, Division, Table, Target, run, targets};
use common::key_ranges;
use common::random::{self, DECIMAL, PARTS, Random};
use common::result_check::check;
use common::{aggregate, arg, binary, col, column, count, shape, sum};
use grampus_gpu_exec::abi::query::Refusal;
use grampus_gpu_exec::codegen::{Access, GPU_LANES, Grouping, KeyRange, Merged, QueryKernel, TableScope};
use grampus_gpu_exec::output::ResultValues;
use grampus_gpu_exec::program::{
    Aggregate, BinaryOp, Column, DatePart, Expr, Function, MathFunction, Program, TimeUnit, Type,
};

const SCOPES: [TableScope; 3] = [TableScope::Lane, TableScope::Warp, TableScope::Block];
const MICROSECONDS: Type = Type::Timestamp(TimeUnit::Microsecond);

fn division(warps: u32, ends: &[f64], ranges: &[KeyRange]) -> Division {
    Division {
        warps,
        ends: ends.to_vec(),
        flush: false,
        group_capacity: 4096,
        ranges: ranges.to_vec(),
        block_warps: BLOCK_WARPS,
    }
}

fn fewer(rows: u64, target: &Target) -> u64 {
    if target.is_lockstep() { rows / 8 } else { rows }
}

/// A program over a table, on one device.
struct Case<'a> {
    target: &'a Target,
    program: &'a Program,
    scope: TableScope,
    table: &'a Table,
    arguments: &'a [Scalar],
}

impl Case<'_> {
    /// Runs the kernel in each division. The results equal the interpreter's.
    fn run(&self, random: &mut Random, divisions: &[Division]) -> Vec<Merged> {
        let shape = shape(
            self.program,
            Access::Plain,
            random.one_in(2),
            Grouping::Coded(self.scope),
        );
        let kernel = QueryKernel::generate(self.program, &shape).expect("a valid program");
        let module = self.target.module(&kernel);
        let expected = interpreter::run(self.program, self.table.rows(), self.arguments).expect("no refusal");
        let placed = DeviceTable::new(random, self.target, self.table, &shape);
        let mut results = Vec::new();
        for division in divisions {
            let about = format!("{:?}, {division:?}, {}", self.scope, self.program);
            let merged = run(&placed, &kernel, &module, self.arguments, division);
            let merged = merged.unwrap_or_else(|refusal| panic!("{refusal:?}: {about}"));
            check(&expected, &merged, &about);
            results.push(merged);
        }
        results
    }
}

fn truncated(part: DatePart, value: Expr) -> Expr {
    Expr::Truncate {
        part,
        value: Box::new(value),
    }
}

fn whole(value: Expr) -> Expr {
    Expr::Cast {
        value: Box::new(Expr::Math {
            function: MathFunction::Floor,
            value: Box::new(value),
        }),
        to: Type::Int32,
    }
}

/// One column of each type that keys can have, all with NULLs.
const TYPES: [Type; 15] = [
    Type::Bool,
    Type::Int8,
    Type::Int16,
    Type::Int32,
    Type::Int64,
    Type::Float32,
    Type::Float64,
    Type::Date32,
    Type::Timestamp(TimeUnit::Second),
    Type::Timestamp(TimeUnit::Millisecond),
    MICROSECONDS,
    Type::Timestamp(TimeUnit::Nanosecond),
    DECIMAL,
    Type::Code,
    Type::Float64,
];
const LAST: usize = TYPES.len() - 1;

fn columns() -> Vec<Column> {
    let name = |at| format!("c{at}");
    (TYPES.iter().enumerate())
        .map(|(at, ty)| column(&name(at), *ty, true))
        .collect()
}

/// Every kind of key.
fn keys() -> Vec<Expr> {
    let mut keys: Vec<Expr> = (0..LAST).map(col).collect();
    for (at, part) in PARTS.into_iter().enumerate() {
        keys.push(Expr::Extract {
            part,
            value: Box::new(col(7 + at % 5)),
        });
        if !matches!(part, DatePart::DayOfWeek | DatePart::DayOfYear) {
            keys.push(truncated(part, col(8 + at % 4)));
        }
    }
    keys.push(whole(col(LAST)));
    keys
}

/// Values of every type: without those that dates and casts refuse, but with extremes of numbers.
fn rows_of_all_types(random: &mut Random, rows: u64) -> Table {
    let cell = |random: &mut Random, at: usize| -> Cell {
        let is_time = matches!(TYPES[at], Type::Date32 | Type::Timestamp(_));
        (!random.one_in(7)).then(|| random::value(random, TYPES[at], is_time || at == LAST))
    };
    Table {
        types: TYPES.to_vec(),
        layouts: Vec::new(),
        cells: (0..TYPES.len())
            .map(|at| (0..rows).map(|_| cell(random, at)).collect())
            .collect(),
        runs: vec![(0, rows / 3), (rows / 3 + 5, rows - rows / 3 - 5)],
    }
}

#[test]
fn keys_of_every_kind_match_the_interpreter() {
    for target in targets() {
        let mut random = Random(11);
        for (at, keys) in keys().chunks(3).enumerate() {
            let program = Program {
                columns: columns(),
                arguments: vec![],
                conjuncts: vec![],
                keys: keys.to_vec(),
                aggregates: vec![
                    aggregate(Function::Count, Some(col(3))),
                    sum(col(3)),
                    aggregate(Function::Max, Some(col(6))),
                    aggregate(Function::Min, Some(col(7))),
                ],
            };
            let table = rows_of_all_types(&mut random, fewer(4000, &target));
            let scope = SCOPES[at % SCOPES.len()];
            let shape = shape(&program, Access::Plain, true, Grouping::Coded(scope));
            let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
            let divisions: Vec<Division> = (0..4)
                .filter_map(|_| key_ranges::ranges(&mut random, &kernel, &program, scope))
                .map(|ranges| division(3, &[0.3, 0.6], &ranges))
                .collect();
            assert!(!divisions.is_empty(), "there is space for some values");
            let case = Case {
                target: &target,
                program: &program,
                scope,
                table: &table,
                arguments: &[],
            };
            case.run(&mut random, &divisions);
        }
    }
}

/// Rows of `keys` groups with numbers whose sums overflow.
fn numbers(random: &mut Random, rows: u64, key: impl Fn(&mut Random) -> i64) -> Table {
    let extremes = [
        i64::MIN,
        i64::MIN + 1,
        -1,
        0,
        1,
        i64::MAX,
        1 << 32,
        (1 << 32) - 1,
        -(1 << 32),
    ];
    let decimals = [-999_999_999_999, 999_999_999_999, 0, -1];
    let mut cells = vec![Vec::new(); 4];
    for _ in 0..rows {
        let key = key(random);
        cells[0].push((key >= 0).then_some(Scalar::Int(key)));
        cells[1].push(Some(Scalar::Int(*random.pick(&extremes))));
        cells[2].push((!random.one_in(5)).then(|| Scalar::Int(*random.pick(&decimals))));
        cells[3].push(Some(Scalar::Float(random.next() as i64 as f64 / 1e15)));
    }
    Table {
        types: vec![Type::Int64, Type::Int64, DECIMAL, Type::Float64],
        layouts: Vec::new(),
        cells,
        runs: vec![(0, rows)],
    }
}

fn number_columns() -> Vec<Column> {
    vec![
        column("k", Type::Int64, true),
        column("n", Type::Int64, false),
        column("m", DECIMAL, true),
        column("x", Type::Float64, false),
    ]
}

/// Every function, with and without a filter.
fn every_aggregate() -> Program {
    let is_positive = binary(BinaryOp::Gt, col(3), arg(0));
    Program {
        columns: number_columns(),
        arguments: vec![Type::Float64],
        conjuncts: vec![],
        keys: vec![col(0)],
        aggregates: vec![
            sum(col(1)),
            sum(col(2)),
            sum(col(3)),
            aggregate(Function::Min, Some(col(1))),
            aggregate(Function::Max, Some(col(2))),
            aggregate(Function::Count, Some(col(2))),
            Aggregate {
                filter: Some(is_positive.clone()),
                ..sum(col(1))
            },
            Aggregate {
                filter: Some(is_positive),
                ..aggregate(Function::Max, Some(col(3)))
            },
            aggregate(Function::BitAnd, Some(col(1))),
            aggregate(Function::BitOr, Some(col(1))),
            aggregate(Function::BitXor, Some(col(1))),
        ],
    }
}

#[test]
fn sums_wrap_and_functions_match_in_every_table() {
    for target in targets() {
        let mut random = Random(12);
        for scope in SCOPES {
            for filtered in [false, true] {
                let mut program = every_aggregate();
                // Blocks add to their tables by atomics, which combine no moments.
                if scope != TableScope::Block {
                    let moments = aggregate(Function::Moments, Some(col(3)));
                    program.aggregates.push(moments);
                }
                if filtered {
                    program.conjuncts = vec![binary(BinaryOp::Lt, col(3), arg(0))];
                }
                // Two of the seven keys have no code.
                let table = numbers(&mut random, fewer(6000, &target), |random| random.below(8) as i64 - 1);
                let ranges = [KeyRange { first: 0, codes: 5 }];
                let case = Case {
                    target: &target,
                    program: &program,
                    scope,
                    table: &table,
                    arguments: &[Scalar::Float(1.5)],
                };
                case.run(
                    &mut random,
                    &[
                        division(1, &[], &ranges),
                        division(5, &[], &ranges),
                        division(5, &[0.0, 0.1, 0.9], &ranges),
                    ],
                );
            }
        }
    }
}

#[test]
fn one_group_and_no_row_and_no_aggregate() {
    for target in targets() {
        let mut random = Random(13);
        for scope in SCOPES {
            for (rows, aggregates) in [(0, vec![count()]), (3000, vec![sum(col(1)), count()]), (700, vec![])] {
                let program = Program {
                    columns: number_columns(),
                    arguments: vec![],
                    conjuncts: vec![],
                    keys: vec![col(0)],
                    aggregates,
                };
                let table = numbers(&mut random, rows, |_| 42);
                let ranges = [KeyRange { first: 42, codes: 1 }];
                let case = Case {
                    target: &target,
                    program: &program,
                    scope,
                    table: &table,
                    arguments: &[],
                };
                case.run(&mut random, &[division(4, &[0.5], &ranges)]);
            }
        }
    }
}

/// Counts of as many groups as there is shared memory for: the first and the last group are right. The table of one
/// more does not fit.
#[test]
fn a_table_takes_all_shared_memory() {
    for target in targets() {
        let mut random = Random(14);
        let program = Program {
            columns: number_columns(),
            arguments: vec![],
            conjuncts: vec![],
            keys: vec![col(0)],
            aggregates: vec![count()],
        };
        let space = target.device.block_shared_bytes();
        let last = space as i64 / 4 - 2; // NULL is a group too
        let rows = fewer(20_000, &target);
        let table = numbers(&mut random, rows, |random| match random.below(4) {
            0 => last,
            1 => random.below(4) as i64 - 1,
            _ => random.below(last as u64 + 3) as i64, // two keys too many
        });
        let ranges = [KeyRange {
            first: 0,
            codes: last as u32 + 1,
        }];
        let case = Case {
            target: &target,
            program: &program,
            scope: TableScope::Block,
            table: &table,
            arguments: &[],
        };
        let large = Division {
            block_warps: 32,
            ..division(64, &[0.4], &ranges)
        };
        case.run(&mut random, &[large]);
        let shape = shape(&program, Access::Plain, true, Grouping::Coded(TableScope::Block));
        let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
        let bytes = |codes| {
            let layout = kernel.group_layout(TableScope::Block, &[KeyRange { first: 0, codes }]);
            layout.expect("few enough").block_bytes(32, GPU_LANES) as u64
        };
        assert_eq!(bytes(last as u32 + 1), space);
        assert!(bytes(last as u32 + 2) > space);
    }
}

/// The bits of all aggregates by group.
fn bits_of(merged: &Merged) -> BTreeMap<i64, Vec<u64>> {
    let ResultValues::Int(keys) = &merged.keys[0].values else {
        panic!("an integer key")
    };
    let word = |column: &grampus_gpu_exec::output::ResultColumn, at: usize| match &column.values {
        ResultValues::Int(v) => v[at] as u64,
        ResultValues::Float(v) => v[at].to_bits(),
        ResultValues::Decimal(v) => v[at] as u64,
        ResultValues::Moments(v) => v[at].mean.to_bits() ^ v[at].squares.to_bits().rotate_left(1),
    };
    (keys.iter().enumerate())
        .map(|(at, key)| (*key, merged.aggregates.iter().map(|column| word(column, at)).collect()))
        .collect()
}

/// Sums of floats of any size, most of them in one group: tables of lanes and warps give the same bits each time, and
/// for each division into launches.
#[test]
fn sums_of_floats_are_repeatable() {
    for target in targets() {
        for (scope, groups) in [(TableScope::Lane, 12), (TableScope::Warp, 512)] {
            let mut random = Random(15);
            let program = Program {
                columns: number_columns(),
                arguments: vec![],
                conjuncts: vec![],
                keys: vec![col(0)],
                aggregates: vec![
                    sum(col(3)),
                    aggregate(Function::Count, Some(col(3))),
                    aggregate(Function::Moments, Some(col(3))),
                ],
            };
            let table = numbers(&mut random, fewer(40_000, &target), |random| {
                if random.one_in(10) {
                    random.below(groups) as i64
                } else {
                    7
                }
            });
            let ranges = [KeyRange {
                first: 0,
                codes: groups as u32,
            }];
            let case = Case {
                target: &target,
                program: &program,
                scope,
                table: &table,
                arguments: &[],
            };
            let mut divisions = vec![division(16, &[], &ranges); 5];
            divisions.extend([
                division(16, &[0.2, 0.21, 0.7], &ranges),
                division(16, &[0.0, 0.5], &ranges),
            ]);
            let results = case.run(&mut random, &divisions);
            let first = bits_of(&results[0]);
            for (result, division) in results.iter().zip(&divisions) {
                assert_eq!(bits_of(result), first, "{scope:?}, {division:?}");
            }
        }
    }
}

/// Rows without a code fill the group table: the query is refused, and not answered wrongly.
#[test]
fn rows_without_codes_can_be_too_many_for_the_group_table() {
    for target in targets() {
        let mut random = Random(16);
        let program = Program {
            aggregates: vec![count()],
            ..every_aggregate()
        };
        let table = numbers(&mut random, 4000, |random| random.below(2000) as i64);
        let shape = shape(&program, Access::Plain, true, Grouping::Coded(TableScope::Block));
        let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
        let module = target.module(&kernel);
        let placed = DeviceTable::new(&mut random, &target, &table, &shape);
        let small = Division {
            group_capacity: 8,
            ..division(4, &[], &[KeyRange { first: 0, codes: 50 }])
        };
        let result = run(&placed, &kernel, &module, &[Scalar::Float(0.0)], &small);
        assert_eq!(result.err(), Some(Refusal::Groups));
    }
}
