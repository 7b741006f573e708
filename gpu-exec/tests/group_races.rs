//! The group tables' C++ under ThreadSanitizer: several threads, each a warp, add to one table.
//!
//! A GPU's own tools see races in shared memory alone. Here each access has the order that target_host.cuh gives it.
//! Mutants, of which each lacks one order, show that the sanitizer would find it.
//!
//! The tests are skipped, with a message, without a C++ compiler that has ThreadSanitizer.

mod common;

use std::process::Command;

use common::sanitized_program::{self, Checks, sanitized};
use common::{aggregate, col, column, count};
use grampus_cuda::HostLanes;
use grampus_gpu_exec::codegen::{Access, Grouping, QueryKernel};
use grampus_gpu_exec::program::{Function, Program, Type};

/// Standard headers, which stand outside every namespace of the unit.
const BEFORE: &str = "#include <sched.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
                      #include <thread>\n#include <time.h>\n";
/// ThreadSanitizer's exit status after a race.
const RACE: i32 = 66;

/// The text of a kernel that has groups, a count and moments.
fn unit() -> String {
    let program = Program {
        columns: vec![column("k", Type::Int64, false), column("x", Type::Float64, false)],
        arguments: vec![],
        conjuncts: vec![],
        keys: vec![col(0)],
        aggregates: vec![count(), aggregate(Function::Moments, Some(col(1)))],
    };
    let shape = common::shape(&program, Access::Plain, false, Grouping::Private);
    let kernel = QueryKernel::generate(&program, &shape).expect("a valid program");
    kernel.translation_unit()
}

/// Compiles `unit` with the test's program and runs it. Returns the exit status and the output. `None`: the compiler
/// lacks the sanitizer.
fn run(name: &str, lanes: HostLanes, unit: &str, tables: &str) -> Option<(Option<i32>, String)> {
    let name = format!("group_races_{name}_{}", lanes.count());
    let text = format!("{BEFORE}{}{}", lanes.unit(unit), include_str!("cpp/group_races.cc"));
    let mut program = Command::new(sanitized(&name, &text, Checks::Races)?);
    program.args(["1", tables]);
    program.env("TSAN_OPTIONS", format!("halt_on_error=1 exitcode={RACE}"));
    Some(sanitized_program::run(&mut program))
}

fn tables_have_no_race(lanes: HostLanes, tables: &str) {
    if let Some((status, said)) = run("whole", lanes, &unit(), tables) {
        assert_eq!(status, Some(0), "{said}");
        println!("{} lanes: {said}", lanes.count());
        assert!(said.contains("tables") && !said.contains(" 0 refused"), "{said}");
    }
}

#[test]
fn group_tables_have_no_race_between_warps_of_one_lane() {
    tables_have_no_race(HostLanes::One, "40");
}

#[test]
fn group_tables_have_no_race_between_warps_of_32_lanes() {
    tables_have_no_race(HostLanes::ThirtyTwo, "20");
}

/// Each mutant lacks an order of the device code. The sanitizer reports it.
#[test]
fn races_of_mutants_are_found() {
    let mutants = [
        (
            "published",
            HostLanes::One,
            "store_release_gpu(slot, tag | (number + GROUP_FIRST));",
            "store_relaxed_gpu(slot, tag | (number + GROUP_FIRST));",
        ),
        (
            "unlocked",
            HostLanes::One,
            "store_release_gpu(slot, seen);",
            "store_relaxed_gpu(slot, seen);",
        ),
        (
            "looked_up",
            HostLanes::One,
            "u64 seen = load_acquire_gpu(slot);",
            "u64 seen = load_relaxed_gpu(slot);",
        ),
        (
            "placed",
            HostLanes::ThirtyTwo,
            "return GROUPS;\n    sync_warp();\n",
            "return GROUPS;\n",
        ),
    ];
    for (name, lanes, right, wrong) in mutants {
        let unit = unit();
        assert_eq!(unit.matches(right).count(), 1, "{name}: the device code has changed");
        let Some((status, said)) = run(name, lanes, &unit.replace(right, wrong), "20") else {
            return;
        };
        assert_eq!(status, Some(RACE), "{name}: {said}");
        assert!(said.contains("WARNING: ThreadSanitizer: data race"), "{name}: {said}");
    }
}
