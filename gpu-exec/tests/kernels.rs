//! Generated kernels against the interpreter, on random programs over random tables.
//!
//! - Values lie in several ranges at any byte, and are read by loads, by commands, and from pages.
//! - There are one and several warps and launches.
//! - Warps have one lane, 32 lanes in lockstep, or are a GPU's.
//!
//! The tests are skipped, with a message, without a C++ compiler.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::interpreter::{self, Refused, Scalar};
use common::kernel_runner::{BLOCK_WARPS, DeviceTable, Division, Table, Target, run, targets};
use common::key_ranges;
use common::random::{self, Random};
use common::result_check::check;
use common::{aggregate, arg, binary, col, column, count, sum};
use grampus_gpu_exec::abi::query::Refusal;
use grampus_gpu_exec::codegen::{
    Access, ColumnShape, Grouping, KernelOutline, KeyRange, QueryKernel, Shape, TableScope,
};
use grampus_gpu_exec::program::{Aggregate, BinaryOp, Function, Program, Stored, Type};

fn random_shape(random: &mut Random, program: &Program) -> Shape {
    let column = |random: &mut Random, nullable: bool| ColumnShape {
        access: if random.one_in(3) {
            Access::Queued
        } else {
            Access::Plain
        },
        aligned: random.one_in(2),
        on_device: random.one_in(2),
        nullable,
    };
    let dense = random.one_in(2);
    let scope = *random.pick(&[TableScope::Lane, TableScope::Warp, TableScope::Block]);
    let grouping = match (program.keys.is_empty(), random.below(3)) {
        (true, _) => Grouping::Ungrouped,
        (false, 0) => Grouping::Private,
        (false, 1) => Grouping::Global,
        (false, _) if dense || program.conjuncts.is_empty() => Grouping::Coded(scope),
        (false, _) => Grouping::Global,
    };
    let mut shape = Shape {
        columns: program.columns.iter().map(|c| column(random, c.nullable)).collect(),
        grouping,
        dense,
    };
    if matches!(grouping, Grouping::Coded(_)) {
        shape.columns.iter_mut().for_each(|c| c.access = Access::Plain);
    }
    // Columns that are fetched by row may be paged.
    let whole = KernelOutline::new(program, &shape).map(|k| k.tile_columns().to_vec());
    let whole = whole.unwrap_or_else(|e| panic!("{e}: {program}"));
    for at in (0..shape.columns.len()).filter(|at| !whole.contains(at)) {
        if random.one_in(2) && shape.columns[at].access == Access::Plain {
            shape.columns[at].access = Access::Paged;
        }
    }
    shape
}

fn random_table(random: &mut Random, program: &Program, tame: bool) -> Table {
    let rows = *random.pick(&[0, 1, 37, 700, 2500]) + random.below(40);
    let column = |random: &mut Random, layout: Stored, ty: Type, nullable: bool| {
        let missing = if random.one_in(4) { 1 } else { 6 };
        (0..rows)
            .map(|_| {
                let there = !nullable || !random.one_in(missing);
                there.then(|| random::within(layout, random::value(random, ty, tame)))
            })
            .collect()
    };
    let cells = program
        .columns
        .iter()
        .map(|c| column(random, c.stored, c.ty, c.nullable))
        .collect();
    let (mut runs, mut row) = (Vec::new(), 0);
    while row < rows {
        row += if random.one_in(2) { 0 } else { random.below(50) };
        let most = rows.saturating_sub(row);
        let count = if random.one_in(3) { most } else { random.below(most + 1) };
        runs.extend((count > 0).then_some((row, count)));
        row += count.max(1);
    }
    Table {
        types: program.columns.iter().map(|c| c.ty).collect(),
        layouts: program.columns.iter().map(|c| c.stored).collect(),
        cells,
        runs,
    }
}

fn divisions(random: &mut Random, ranges: &[KeyRange]) -> Vec<Division> {
    let warps = 2 + random.below(4) as u32;
    let mut ends: Vec<f64> = (0..1 + random.below(4))
        .map(|_| random.below(1001) as f64 / 1000.0)
        .collect();
    ends.sort_by(f64::total_cmp);
    let one = |warps: u32, ends: &[f64], flush: bool| Division {
        warps,
        ends: ends.to_vec(),
        flush,
        group_capacity: 4096,
        ranges: ranges.to_vec(),
        block_warps: BLOCK_WARPS,
    };
    vec![
        one(1, &[], false),
        one(warps, &[], false),
        one(warps, &ends, false),
        one(warps, &ends, true),
    ]
}

/// Runs one random program, and counts its outcome.
fn one(target: &Target, seed: u64, counts: &[AtomicU64; 2]) {
    let mut random = Random(seed);
    let tame = random.one_in(2);
    let program = random::program(&mut random, tame);
    let mut shape = random_shape(&mut random, &program);
    let kernel = QueryKernel::generate(&program, &shape).unwrap_or_else(|e| panic!("{e}: {program}"));
    let ranges = kernel
        .scope()
        .map(|scope| key_ranges::ranges(&mut random, &kernel, &program, scope));
    let ranges = ranges.unwrap_or(Some(Vec::new())).unwrap_or_else(|| {
        shape.grouping = Grouping::Global; // too many words
        Vec::new()
    });
    let about = format!("seed {seed}: {program} with {shape:?}");
    let kernel = QueryKernel::generate(&program, &shape).unwrap_or_else(|e| panic!("{e}: {about}"));
    let module = target.module(&kernel);
    for _ in 0..3 {
        let table = random_table(&mut random, &program, tame);
        let arguments: Vec<Scalar> = program
            .arguments
            .iter()
            .map(|ty| random::value(&mut random, *ty, tame))
            .collect();
        let expected = interpreter::run(&program, table.rows(), &arguments);
        let placed = DeviceTable::new(&mut random, target, &table, &shape);
        let mut results = Vec::new();
        for division in divisions(&mut random, &ranges) {
            let about = format!("{division:?}, {about}");
            match (&expected, run(&placed, &kernel, &module, &arguments, &division)) {
                (Ok(expected), Ok(merged)) => {
                    counts[0].fetch_add(1, Ordering::Relaxed);
                    let rows: u64 = table.runs.iter().map(|r| r.1).sum();
                    assert_eq!(merged.rows, rows, "rows looked at: {about}");
                    check(expected, &merged, &about);
                    results.push(merged);
                }
                (Err(Refused), Err(Refusal::Value)) => {
                    counts[1].fetch_add(1, Ordering::Relaxed);
                }
                (expected, got) => panic!("{expected:?}, not {got:?}: {about}"),
            }
        }
        // One launch and several give the same bits if the warps fix the order of additions.
        if let [_, whole, parts, _] = &results[..]
            && shape.grouping == Grouping::Ungrouped
        {
            assert_eq!(
                format!("{:?}", whole.aggregates),
                format!("{:?}", parts.aggregates),
                "{about}"
            );
        }
    }
}

#[test]
fn random_programs_match_the_interpreter() {
    targets().iter().for_each(random_programs);
}

fn random_programs(target: &Target) {
    let (first, count) = (seed_from("GRAMPUS_SEED", 1), seed_from("GRAMPUS_PROGRAMS", 24));
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    for seed in first..first + count {
        one(target, seed, &counts);
    }
    let [answered, refused] = counts.map(AtomicU64::into_inner);
    println!("{answered} answers, {refused} refusals from {count} programs");
    assert!(
        count < 10 || (answered > 10 * refused.min(1) && answered > 0),
        "nearly all were refused"
    );
}

fn seed_from(name: &str, otherwise: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(otherwise)
}

/// A table of doubles and integers. `share` of 1000 rows pass `c0 >= 0`, half of these `c1 >= 0`, and half of those `c2
/// >= 0`.
fn cascade_table(random: &mut Random, rows: u64, share: u64) -> Table {
    let mut cells = vec![Vec::new(); 6];
    for _ in 0..rows {
        let sign = |pass: bool, random: &mut Random| {
            if pass {
                random.below(90) as f64
            } else {
                -1.0 - random.below(90) as f64
            }
        };
        let pass = random.below(1000) < share;
        cells[0].push(Some(Scalar::Float(sign(pass, random))));
        let half = random.one_in(2);
        cells[1].push(Some(Scalar::Float(sign(half, random))));
        let half = random.one_in(2);
        cells[2].push((!random.one_in(9)).then(|| Scalar::Float(sign(half, random))));
        cells[3].push(Some(Scalar::Int(random.below(1 << 40) as i64)));
        cells[4].push((!random.one_in(5)).then(|| Scalar::Int(random.below(100) as i64)));
        cells[5].push(Some(Scalar::Bool(random.one_in(2))));
    }
    let third = rows / 3;
    let runs = [(0, third), (third, rows - third)];
    Table {
        types: vec![
            Type::Float64,
            Type::Float64,
            Type::Float64,
            Type::Int64,
            Type::Int32,
            Type::Bool,
        ],
        layouts: Vec::new(),
        cells,
        runs: runs.into_iter().filter(|run| run.1 > 0).collect(),
    }
}

/// Sums over the table of `cascade_table` behind `conjuncts` filters. The filters' columns are summed as well.
fn cascade(conjuncts: usize) -> Program {
    let columns = [
        ("a", Type::Float64, false),
        ("b", Type::Float64, false),
        ("c", Type::Float64, true),
        ("d", Type::Int64, false),
        ("e", Type::Int32, true),
        ("f", Type::Bool, false),
    ];
    Program {
        columns: columns
            .iter()
            .map(|&(name, ty, nullable)| column(name, ty, nullable))
            .collect(),
        arguments: vec![Type::Float64],
        conjuncts: (0..conjuncts).map(|c| binary(BinaryOp::GtEq, col(c), arg(0))).collect(),
        keys: vec![],
        aggregates: vec![
            count(),
            sum(col(0)),
            sum(col(2)),
            sum(col(3)),
            sum(col(4)),
            Aggregate {
                filter: Some(col(5)),
                ..sum(col(3))
            },
        ],
    }
}

/// Fewer rows on slow devices.
fn fewer(rows: u64, target: &Target) -> u64 {
    if target.is_lockstep() { rows.div_ceil(4) } else { rows }
}

#[test]
fn rows_pass_through_every_ring_once() {
    for target in targets() {
        let mut random = Random(5);
        // Access to the filter and to the rest: loads, commands, both orders of the two, and loads with the rest in
        // pages.
        for (first, rest) in [
            (Access::Plain, Access::Plain),
            (Access::Queued, Access::Queued),
            (Access::Plain, Access::Queued),
            (Access::Queued, Access::Plain),
            (Access::Plain, Access::Paged),
            (Access::Queued, Access::Paged),
        ] {
            // Without a filter all columns are read in tiles, which have no pages.
            for conjuncts in usize::from(rest == Access::Paged)..=3 {
                let program = cascade(conjuncts);
                let mut shape = common::shape(&program, rest, false, Grouping::Ungrouped);
                shape.columns[0].access = first;
                let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
                let module = target.module(&kernel);
                for (rows, share) in [(1, 1000), (5000, 0), (9000, 3), (9000, 500), (9000, 1000)] {
                    let rows = fewer(rows, &target);
                    let table = cascade_table(&mut random, rows, share);
                    let arguments = [Scalar::Float(0.0)];
                    let expected = interpreter::run(&program, table.rows(), &arguments).expect("no refusal");
                    let placed = DeviceTable::new(&mut random, &target, &table, &shape);
                    for division in divisions(&mut random, &[]) {
                        let about = format!("{first:?} {rest:?}, {conjuncts} conjuncts, {share} of 1000, {division:?}");
                        let merged = run(&placed, &kernel, &module, &arguments, &division).expect("no refusal");
                        check(&expected, &merged, &about);
                        assert_eq!(merged.values_read[0], rows, "column a is read whole: {about}");
                        if conjuncts > 0 {
                            assert_eq!(
                                merged.values_read[3], expected.passed,
                                "d only where rows passed: {about}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// A table with keys of `cardinality` values and NULL, decimals of both signs, and missing values.
fn grouped_table(random: &mut Random, rows: u64, cardinality: u64) -> Table {
    let mut cells = vec![Vec::new(); 4];
    for _ in 0..rows {
        let key = random.below(cardinality + 1);
        cells[0].push((key > 0).then_some(Scalar::Int(key as i64 - 3)));
        cells[1].push(Some(random::value(random, Type::Float32, true)));
        let money = (random.next() % 2_000_000_000_000) as i64 - 1_000_000_000_000;
        cells[2].push((!random.one_in(7)).then_some(Scalar::Int(money)));
        cells[3].push(Some(Scalar::Float(random.below(1000) as f64 / 8.0)));
    }
    Table {
        types: vec![Type::Int64, Type::Float32, random::DECIMAL, Type::Float64],
        layouts: Vec::new(),
        cells,
        runs: vec![(0, rows)],
    }
}

/// As [`grouped`], with moments: groups of the table of all warps are combined under locks.
fn grouped_with_moments(filtered: bool) -> Program {
    let mut program = grouped(filtered);
    program.aggregates.push(aggregate(Function::Moments, Some(col(3))));
    program
}

fn grouped(filtered: bool) -> Program {
    let is_odd = binary(BinaryOp::Lt, col(1), arg(0));
    Program {
        columns: vec![
            column("k", Type::Int64, true),
            column("x", Type::Float32, false),
            column("m", random::DECIMAL, true),
            column("y", Type::Float64, false),
        ],
        arguments: vec![Type::Float32],
        conjuncts: if filtered { vec![is_odd.clone()] } else { vec![] },
        keys: vec![col(0)],
        aggregates: vec![
            count(),
            sum(col(2)),
            sum(col(3)),
            aggregate(Function::Min, Some(col(2))),
            aggregate(Function::Max, Some(col(1))),
            aggregate(Function::BitXor, Some(col(0))),
            aggregate(Function::BitAnd, Some(col(0))),
            Aggregate {
                filter: Some(is_odd),
                ..aggregate(Function::Count, Some(col(2)))
            },
        ],
    }
}

#[test]
fn group_tables_of_every_cardinality_match_the_interpreter() {
    for target in targets() {
        let mut random = Random(6);
        for (program, grouping) in [
            (grouped(false), Grouping::Private),
            (grouped(true), Grouping::Private),
            (grouped(false), Grouping::Global),
            (grouped(true), Grouping::Global),
            (grouped_with_moments(true), Grouping::Private),
            (grouped_with_moments(false), Grouping::Global),
        ] {
            let shape = common::shape(&program, Access::Plain, false, grouping);
            let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
            let module = target.module(&kernel);
            let arguments = [Scalar::Float(2.5)];
            for cardinality in [1, 5, 60, 3000] {
                let table = grouped_table(&mut random, fewer(8000, &target), cardinality);
                let expected = interpreter::run(&program, table.rows(), &arguments).expect("no refusal");
                let placed = DeviceTable::new(&mut random, &target, &table, &shape);
                let mut results = Vec::new();
                for division in divisions(&mut random, &[]) {
                    let about = format!("{grouping:?}, {cardinality} keys, {division:?}");
                    let merged = run(&placed, &kernel, &module, &arguments, &division).expect("no refusal");
                    check(&expected, &merged, &about);
                    results.push(format!("{:?}", merged.aggregates));
                }
                // Groups of a warp's own table are summed in a fixed order. With moments it has not space for all.
                let has_space = !program.aggregates.iter().any(|a| a.function == Function::Moments);
                if grouping == Grouping::Private && cardinality == 5 && has_space {
                    assert_eq!(results[1], results[2], "one launch or several");
                }
                let mut run_with = |groups: usize| {
                    let division = Division {
                        group_capacity: groups as u32,
                        ..divisions(&mut random, &[]).swap_remove(1)
                    };
                    run(&placed, &kernel, &module, &arguments, &division)
                };
                let groups = expected.groups.len();
                check(
                    &expected,
                    &run_with(groups).expect("no refusal"),
                    "space for every group",
                );
                if grouping == Grouping::Global {
                    assert_eq!(run_with(groups - 1).err(), Some(Refusal::Groups), "{groups} groups");
                }
            }
        }
    }
}

/// Programs without keys and with one aggregate, whose groups have a single word.
#[test]
fn a_lone_aggregate_has_its_word() {
    for target in targets() {
        for (function, argument) in [
            (Function::Count, None),
            (Function::BitAnd, Some(col(0))),
            (Function::BitOr, Some(col(0))),
            (Function::BitXor, Some(col(0))),
        ] {
            let program = Program {
                columns: argument.iter().map(|_| column("x", Type::Int8, false)).collect(),
                arguments: vec![],
                conjuncts: vec![],
                keys: vec![],
                aggregates: vec![aggregate(function, argument)],
            };
            let shape = common::shape(&program, Access::Plain, true, Grouping::Ungrouped);
            let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
            let module = target.module(&kernel);
            let cell = |row: i64| Some(Scalar::Int(if row % 3 == 0 { 12 } else { 6 }));
            let table = Table {
                types: program.columns.iter().map(|column| column.ty).collect(),
                layouts: Vec::new(),
                cells: program
                    .columns
                    .iter()
                    .map(|_| (0..20_007).map(cell).collect())
                    .collect(),
                runs: vec![(3, 10_000), (20_000, 7)],
            };
            let mut random = Random(7);
            let expected = interpreter::run(&program, table.rows(), &[]).expect("no refusal");
            let placed = DeviceTable::new(&mut random, &target, &table, &shape);
            for division in divisions(&mut random, &[]) {
                let merged = run(&placed, &kernel, &module, &[], &division).expect("no refusal");
                check(&expected, &merged, &format!("{function:?}, {division:?}"));
                // Counting rows reads nothing.
                assert_eq!((merged.rows, merged.values_read.len()), (10_007, program.columns.len()));
            }
        }
    }
}
