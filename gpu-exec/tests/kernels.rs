//! Generated kernels on host threads give what the interpreter gives: random programs over random tables, placed in pieces at any
//! byte, by both ways of access, with one and several warps and launches. Skipped, and says so, without a C++ compiler.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};

use common::interpret::{self, Expected, Key, Refused, Scalar, Total};
use common::machine::{Division, Placed, Table, devices, run};
use common::random::{self, Random};
use grampus_gpu_exec::codegen::{Access, ColumnShape, Grouping, Merged, QueryKernel, Shape};
use grampus_gpu_exec::compile::Modules;
use grampus_gpu_exec::output::{ResultColumn, ResultValues};
use grampus_gpu_exec::params::Refusal;
use grampus_gpu_exec::program::{Program, Type};
use grampus_io_stack::cuda::Device;

fn random_shape(random: &mut Random, program: &Program) -> Shape {
    let column = |random: &mut Random, nullable: bool| ColumnShape {
        access: if random.one_in(3) {
            Access::Queued
        } else {
            Access::Plain
        },
        aligned: random.one_in(2),
        nullable,
    };
    let grouping = match (program.keys.is_empty(), random.one_in(2)) {
        (true, _) => Grouping::Ungrouped,
        (false, true) => Grouping::Private,
        (false, false) => Grouping::Global,
    };
    Shape {
        columns: program.columns.iter().map(|c| column(random, c.nullable)).collect(),
        grouping,
    }
}

fn random_table(random: &mut Random, program: &Program, tame: bool) -> Table {
    let rows = *random.pick(&[0, 1, 37, 700, 2500]) + random.below(40);
    let column = |random: &mut Random, ty: Type, nullable: bool| {
        let missing = if random.one_in(4) { 1 } else { 6 };
        (0..rows)
            .map(|_| {
                let there = !nullable || !random.one_in(missing);
                there.then(|| random::value(random, ty, tame))
            })
            .collect()
    };
    let cells = program
        .columns
        .iter()
        .map(|c| column(random, c.ty, c.nullable))
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
        cells,
        runs,
    }
}

fn divisions(random: &mut Random) -> Vec<Division> {
    let warps = 2 + random.below(4) as u32;
    let mut ends: Vec<f64> = (0..1 + random.below(4))
        .map(|_| random.below(1001) as f64 / 1000.0)
        .collect();
    ends.sort_by(f64::total_cmp);
    let one = |warps: u32, ends: &[f64], flush: bool| Division {
        warps,
        ends: ends.to_vec(),
        flush,
        group_slots_log2: 13,
    };
    vec![
        one(1, &[], false),
        one(warps, &[], false),
        one(warps, &ends, false),
        one(warps, &ends, true),
    ]
}

/// One random program; what became of it is counted.
fn one(device: &Device, modules: &Modules, seed: u64, counts: &[AtomicU64; 2]) {
    let mut random = Random(seed);
    let tame = random.one_in(2);
    let program = random::program(&mut random, tame);
    let shape = random_shape(&mut random, &program);
    let about = format!("seed {seed}: {program} with {shape:?}");
    let kernel = QueryKernel::generate(&program, &shape).unwrap_or_else(|e| panic!("{e}: {about}"));
    let module = modules.get(&kernel).unwrap_or_else(|e| panic!("{e}: {about}")).module;
    for _ in 0..3 {
        let table = random_table(&mut random, &program, tame);
        let arguments: Vec<Scalar> = program
            .arguments
            .iter()
            .map(|ty| random::value(&mut random, *ty, tame))
            .collect();
        let expected = interpret::run(&program, table.rows(), &arguments);
        let placed = Placed::new(&mut random, device, &table, &shape);
        let mut results = Vec::new();
        for division in divisions(&mut random) {
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
        // One launch or several: the same to the bit, where the order of additions is the warps' own.
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
fn random_programs_give_the_interpreters_answers() {
    for device in devices() {
        random_programs(&device);
    }
}

fn random_programs(device: &Device) {
    let modules = Modules::new(device, None).expect("there is a compiler");
    let (first, count) = (seed_from("GRAMPUS_SEED", 1), seed_from("GRAMPUS_PROGRAMS", 24));
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    for seed in first..first + count {
        one(device, &modules, seed, &counts);
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
